//! The permissions that a call needs, and what becomes of it without each of them.

use quire::system::{AccessRule, RulePattern};
use quire::{Operation, ResourceKind};

/// A permission that a call needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    kind: ResourceKind,
    /// `None` stands for every resource of the kind.
    name: Option<&'static str>,
    operation: Operation,
    pub(super) otherwise: Otherwise,
}

/// What becomes of a call without a permission.
#[derive(Debug, Clone, Copy)]
pub(super) enum Otherwise {
    /// It is refused.
    Refused,
    /// Its response lacks this text, which it otherwise has.
    Hidden(&'static str),
    /// Its item is refused.
    ItemRefused,
}

impl Need {
    /// A call that is refused without the permission.
    pub(super) const fn of(kind: ResourceKind, name: &'static str, operation: Operation) -> Self {
        Need { kind, name: Some(name), operation, otherwise: Otherwise::Refused }
    }

    /// A call that is refused without the permission for every resource of the kind.
    pub(super) const fn every(kind: ResourceKind, operation: Operation) -> Self {
        Need { kind, name: None, operation, otherwise: Otherwise::Refused }
    }

    /// A call that omits the resource without the permission.
    pub(super) const fn hiding(self, text: &'static str) -> Self {
        Need { otherwise: Otherwise::Hidden(text), ..self }
    }

    /// A call whose item is refused without the permission.
    pub(super) const fn of_item(self) -> Self {
        Need { otherwise: Otherwise::ItemRefused, ..self }
    }

    fn pattern(&self) -> RulePattern {
        self.name.map_or(RulePattern::Any, |name| RulePattern::Literal(name.to_owned()))
    }

    /// The rule that gives exactly the permission.
    pub(super) fn allowing(&self) -> AccessRule {
        AccessRule::allow(self.operation, self.kind, self.pattern())
    }

    /// The rules that give everything except the permission.
    pub(super) fn all_but(&self) -> Vec<AccessRule> {
        let all = ResourceKind::ALL.map(|kind| AccessRule::allow(Operation::All, kind, RulePattern::Any));
        all.into_iter().chain([AccessRule::deny(self.operation, self.kind, self.pattern())]).collect()
    }
}
