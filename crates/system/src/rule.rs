//! Rules: what a principal or a role may do with which resources.

use alloc::string::String;
use core::fmt;

use quire_model::{Operation, ResourceKind};

use crate::AccessNameProblem;
use crate::name::check_name;

/// Whether a rule allows or denies. Its number is part of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleEffect {
    /// The operation is allowed, unless another rule denies it.
    Allow = 0,
    /// The operation is denied, whatever other rules allow.
    Deny = 1,
}

/// The names that a rule covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RulePattern {
    /// One name. The space of this name covers everything in it.
    Literal(String),
    /// Every name that begins with this text.
    Prefix(String),
    /// Every name. A rule on every space covers everything that is in a space.
    Any,
}

/// Allows or denies an operation on resources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessRule {
    /// Whether it allows or denies.
    pub effect: RuleEffect,
    /// The kind of the resources.
    pub kind: ResourceKind,
    /// Their names.
    pub pattern: RulePattern,
    /// The operation. [`Operation::All`] stands for each of them.
    pub operation: Operation,
}

/// The holder of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleSubject {
    /// Every principal.
    Everyone,
    /// The principal of this name: a user, or a name from a certificate or a token.
    Principal(String),
    /// The users with this role.
    Role(String),
}

/// Why a rule is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleProblem {
    /// The name in its pattern is invalid.
    Name(AccessNameProblem),
    /// It covers spaces by a prefix. A space covers names by whole components.
    PrefixOfSpaces,
}

impl AccessRule {
    /// A rule that allows.
    pub fn allow(operation: Operation, kind: ResourceKind, pattern: RulePattern) -> Self {
        AccessRule { effect: RuleEffect::Allow, kind, pattern, operation }
    }

    /// A rule that denies.
    pub fn deny(operation: Operation, kind: ResourceKind, pattern: RulePattern) -> Self {
        AccessRule { effect: RuleEffect::Deny, kind, pattern, operation }
    }

    /// Checks the pattern.
    pub(crate) fn check(&self) -> Result<(), RuleProblem> {
        match &self.pattern {
            RulePattern::Any => Ok(()),
            RulePattern::Literal(name) => check_name(name).map_err(RuleProblem::Name),
            RulePattern::Prefix(_) if self.kind == ResourceKind::Space => Err(RuleProblem::PrefixOfSpaces),
            RulePattern::Prefix(name) => check_name(name).map_err(RuleProblem::Name),
        }
    }
}

/// Shows as `allow read on topic orders`.
impl fmt::Display for AccessRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AccessRule { effect, kind, pattern, operation } = self;
        let effect = match effect {
            RuleEffect::Allow => "allow",
            RuleEffect::Deny => "deny",
        };
        match pattern {
            RulePattern::Literal(name) => write!(f, "{effect} {operation} on {kind} {name}"),
            RulePattern::Prefix(prefix) => write!(f, "{effect} {operation} on {kind} prefix {prefix}"),
            RulePattern::Any => write!(f, "{effect} {operation} on {kind} *"),
        }
    }
}

/// Shows as `principal ann`, `role clerk` or `everyone`.
impl fmt::Display for RuleSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleSubject::Everyone => f.write_str("everyone"),
            RuleSubject::Principal(name) => write!(f, "principal {name}"),
            RuleSubject::Role(name) => write!(f, "role {name}"),
        }
    }
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleProblem::Name(problem) => write!(f, "its name {problem}"),
            RuleProblem::PrefixOfSpaces => f.write_str(
                "a space covers names by whole components, so a rule can't cover spaces by a prefix; name the space, or use * for every space",
            ),
        }
    }
}
