//! Kafka's ACLs, and the access rules that they stand for.
//!
//! ```text
//! ALLOW User:ann  READ on TOPIC LITERAL orders      principal ann: allow read on topic orders
//! ALLOW User:*    READ on TOPIC PREFIXED pay.       everyone: allow read on topic prefix pay.
//! DENY  Role:clerk ALL on GROUP LITERAL *           role clerk: deny all on group *
//! ```
//!
//! Kafka has no event stores, queues, graphs, spaces or administration: rules on them are no ACLs.
//! A rule holds for clients at every address, so the host of an ACL is `*`.

use kafka_protocol::ResponseError;
use kafka_protocol::protocol::StrBytes;
use quire::system::{AccessRule, RuleEffect, RulePattern, RuleSubject, System};
use quire::{Operation, Resource, ResourceKind};

use crate::errors::KafkaError;
use crate::permissions::kafka_number;

/// The only host.
pub(crate) const EVERY_HOST: &str = "*";

/// The name that stands for every name.
const EVERY_NAME: &str = "*";

/// The number that matches every type, pattern, operation or permission.
const ANY: i8 = 1;

/// The types of patterns, by Kafka's numbers.
const MATCH: i8 = 2;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;

/// The permissions, by Kafka's numbers.
const DENY: i8 = 2;
const ALLOW: i8 = 3;

/// The kinds that Kafka knows, with its numbers.
const KINDS: [(ResourceKind, i8); 4] = [
    (ResourceKind::Topic, 2),
    (ResourceKind::Group, 3),
    (ResourceKind::Cluster, 4),
    (ResourceKind::TransactionalId, 5),
];

/// The largest number of a resource type, an operation and a permission.
const TYPE_MAX: i8 = 7;
const OPERATION_MAX: i8 = 15;

const USER: &str = "User:";
const ROLE: &str = "Role:";

/// An ACL, in the protocol's terms.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Acl {
    pub(crate) resource_type: i8,
    pub(crate) name: String,
    pub(crate) pattern_type: i8,
    pub(crate) principal: String,
    pub(crate) operation: i8,
    pub(crate) permission: i8,
}

impl Acl {
    /// The ACL of a rule; `None` for a rule on resources that Kafka does not have.
    fn of(subject: &RuleSubject, rule: &AccessRule) -> Option<Self> {
        let (_, resource_type) = *KINDS.iter().find(|(kind, _)| *kind == rule.kind)?;
        let (pattern_type, name) = match &rule.pattern {
            RulePattern::Literal(name) => (LITERAL, name.clone()),
            RulePattern::Prefix(prefix) => (PREFIXED, prefix.clone()),
            RulePattern::Any => (LITERAL, EVERY_NAME.to_owned()),
        };
        let principal = match subject {
            RuleSubject::Everyone => format!("{USER}*"),
            RuleSubject::Principal(name) => format!("{USER}{name}"),
            RuleSubject::Role(role) => format!("{ROLE}{role}"),
        };
        let permission = match rule.effect {
            RuleEffect::Allow => ALLOW,
            RuleEffect::Deny => DENY,
        };
        let operation = kafka_number(rule.operation);
        Some(Acl { resource_type, name, pattern_type, principal, operation, permission })
    }

    /// The rule of the ACL, with its holder.
    ///
    /// # Errors
    /// INVALID_REQUEST, with the reason.
    pub(crate) fn rule(&self, host: &str) -> Result<(RuleSubject, AccessRule), KafkaError> {
        if host != EVERY_HOST {
            return Err(invalid(format!("rules hold for every host: the host must be {EVERY_HOST}, got {host:?}")));
        }
        let kind = KINDS.iter().find(|(_, number)| *number == self.resource_type);
        let (kind, _) = *kind.ok_or_else(|| {
            invalid(format!(
                "the resource type must be 2 (topic), 3 (group), 4 (cluster) or 5 (transactional id), got {}",
                self.resource_type
            ))
        })?;
        if kind == ResourceKind::Cluster && self.name != Resource::CLUSTER.name {
            let name = Resource::CLUSTER.name;
            return Err(invalid(format!("the name of the cluster must be {name}, got {:?}", self.name)));
        }
        let pattern = match self.pattern_type {
            LITERAL if self.name == EVERY_NAME => RulePattern::Any,
            LITERAL => RulePattern::Literal(self.name.clone()),
            PREFIXED => RulePattern::Prefix(self.name.clone()),
            other => return Err(invalid(format!("the pattern type must be 3 (literal) or 4 (prefixed), got {other}"))),
        };
        let effect = match self.permission {
            ALLOW => RuleEffect::Allow,
            DENY => RuleEffect::Deny,
            other => return Err(invalid(format!("the permission must be 2 (deny) or 3 (allow), got {other}"))),
        };
        let operation = Operation::ALL.into_iter().find(|operation| kafka_number(*operation) == self.operation);
        let operation = operation.ok_or_else(|| {
            invalid(format!("the operation must be 2 (all) to 12 (idempotent write), got {}", self.operation))
        })?;
        let subject = match (self.principal.strip_prefix(USER), self.principal.strip_prefix(ROLE)) {
            (Some("*"), _) => RuleSubject::Everyone,
            (Some(name), _) => RuleSubject::Principal(name.to_owned()),
            (_, Some(role)) => RuleSubject::Role(role.to_owned()),
            (None, None) => {
                return Err(invalid(format!("the principal must be User:NAME or Role:NAME, got {:?}", self.principal)));
            }
        };
        Ok((subject, AccessRule { effect, kind, pattern, operation }))
    }
}

/// Selects ACLs.
#[derive(Debug, Clone)]
pub(crate) struct AclFilter {
    resource_type: i8,
    name: Option<StrBytes>,
    pattern_type: i8,
    principal: Option<StrBytes>,
    host: Option<StrBytes>,
    operation: i8,
    permission: i8,
}

/// The names in a filter: of the resource, the principal and the host.
pub(crate) type FilterNames = (Option<StrBytes>, Option<StrBytes>, Option<StrBytes>);

/// The numbers in a filter: resource type, pattern type, operation and permission.
pub(crate) type FilterNumbers = (i8, i8, i8, i8);

impl AclFilter {
    /// A filter of the protocol.
    ///
    /// # Errors
    /// INVALID_REQUEST for an unknown number.
    pub(crate) fn new(
        (resource_type, pattern_type, operation, permission): FilterNumbers,
        (name, principal, host): FilterNames,
    ) -> Result<Self, KafkaError> {
        for (what, number, max) in [
            ("resource type", resource_type, TYPE_MAX),
            ("pattern type", pattern_type, PREFIXED),
            ("operation", operation, OPERATION_MAX),
            ("permission", permission, ALLOW),
        ] {
            if !(ANY..=max).contains(&number) {
                return Err(invalid(format!("the {what} of a filter must be {ANY} to {max}, got {number}")));
            }
        }
        Ok(AclFilter { resource_type, name, pattern_type, principal, host, operation, permission })
    }

    /// The selected rules with their holders and ACLs, in the order of the ACLs.
    pub(crate) fn select(&self, system: &System) -> Vec<(Acl, RuleSubject, AccessRule)> {
        let acls = system.rules().filter_map(|(subject, rule)| {
            let acl = Acl::of(subject, rule).filter(|acl| self.matches(acl))?;
            Some((acl, subject.clone(), rule.clone()))
        });
        let mut acls: Vec<_> = acls.collect();
        acls.sort_unstable();
        acls
    }

    fn matches(&self, acl: &Acl) -> bool {
        let is = |filter: i8, number: i8| filter == ANY || filter == number;
        let is_named = |filter: &Option<StrBytes>, name: &str| filter.as_ref().is_none_or(|it| it.as_str() == name);
        is(self.resource_type, acl.resource_type)
            && self.matches_name(acl)
            && is_named(&self.principal, &acl.principal)
            && is_named(&self.host, EVERY_HOST)
            && is(self.operation, acl.operation)
            && is(self.permission, acl.permission)
    }

    fn matches_name(&self, acl: &Acl) -> bool {
        let is_pattern = matches!(self.pattern_type, ANY | MATCH) || self.pattern_type == acl.pattern_type;
        let Some(name) = self.name.as_deref().filter(|_| is_pattern) else { return is_pattern };
        if self.pattern_type != MATCH {
            return name == acl.name;
        }
        // The ACLs that hold for the resource of this name.
        match acl.pattern_type {
            PREFIXED => name.starts_with(&acl.name),
            _ => acl.name == name || acl.name == EVERY_NAME,
        }
    }
}

fn invalid(message: String) -> KafkaError {
    KafkaError::new(ResponseError::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<StrBytes> {
        Some(StrBytes::from_string(text.to_owned()))
    }

    fn acl(pattern_type: i8, name: &str) -> Acl {
        let (name, principal) = (name.to_owned(), "User:ann".to_owned());
        Acl { resource_type: 2, name, pattern_type, principal, operation: 3, permission: ALLOW }
    }

    #[test]
    fn an_acl_is_the_rule_that_is_shown_as_it() {
        for (kind, _) in KINDS {
            for operation in Operation::ALL {
                for subject in ["everyone", "principal ann", "role clerk"] {
                    for name in ["kafka-cluster", "prefix kafka-cluster", "*"] {
                        for effect in ["allow", "deny"] {
                            let subject: RuleSubject = subject.parse().expect("a holder");
                            let rule = format!("{effect} {operation} on {kind} {name}");
                            let rule: AccessRule = rule.parse().expect("a rule");
                            let shown = Acl::of(&subject, &rule).expect("an ACL");
                            match shown.rule(EVERY_HOST) {
                                Ok(found) => assert_eq!(found, (subject, rule)),
                                // Kafka names its one cluster.
                                Err(refused) => assert!(kind == ResourceKind::Cluster && name == "*", "{refused:?}"),
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_acl_without_a_rule_is_invalid_with_the_reason() {
        let invalid = [
            (Acl { resource_type: 6, ..acl(LITERAL, "t") }, "the resource type must be"),
            (Acl { resource_type: ANY, ..acl(LITERAL, "t") }, "the resource type must be"),
            (Acl { resource_type: 4, ..acl(LITERAL, "t") }, "must be kafka-cluster"),
            (acl(MATCH, "t"), "the pattern type must be"),
            (Acl { operation: ANY, ..acl(LITERAL, "t") }, "the operation must be"),
            (Acl { operation: 13, ..acl(LITERAL, "t") }, "the operation must be"),
            (Acl { permission: ANY, ..acl(LITERAL, "t") }, "the permission must be"),
            (Acl { principal: "ann".to_owned(), ..acl(LITERAL, "t") }, "User:NAME"),
        ];
        for (acl, reason) in invalid {
            let refused = acl.rule(EVERY_HOST).expect_err("invalid");
            assert!(refused.message.contains(reason), "{}", refused.message);
            assert_eq!(refused.code, ResponseError::InvalidRequest);
        }
        assert!(acl(LITERAL, "t").rule("10.0.0.1").expect_err("invalid").message.contains("every host"));
    }

    /// As Kafka's `ResourcePatternFilter` and `AccessControlEntryFilter`.
    #[test]
    fn a_filter_selects_what_it_selects_in_kafka() {
        let all =
            [acl(LITERAL, "foo"), acl(LITERAL, "*"), acl(PREFIXED, "fo"), acl(PREFIXED, "foo"), acl(LITERAL, "bar")];
        let selected = |pattern_type: i8, name: Option<StrBytes>| {
            let filter = AclFilter::new((2, pattern_type, ANY, ANY), (name, None, None)).expect("valid");
            let names = all.iter().filter(|acl| filter.matches(acl)).map(|acl| (acl.pattern_type, acl.name.as_str()));
            names.collect::<Vec<_>>()
        };
        assert_eq!(selected(ANY, None).len(), 5);
        assert_eq!(selected(ANY, text("foo")), [(LITERAL, "foo"), (PREFIXED, "foo")]);
        let matching = [(LITERAL, "foo"), (LITERAL, "*"), (PREFIXED, "fo"), (PREFIXED, "foo")];
        assert_eq!(selected(MATCH, text("foo")), matching);
        assert_eq!(selected(LITERAL, text("foo")), [(LITERAL, "foo")]);
        assert_eq!(selected(LITERAL, text("*")), [(LITERAL, "*")]);
        assert_eq!(selected(PREFIXED, text("foo")), [(PREFIXED, "foo")]);
        assert_eq!(selected(PREFIXED, None).len(), 2);
        let matches = |numbers, names| AclFilter::new(numbers, names).expect("valid").matches(&all[0]);
        assert!(matches((2, ANY, 3, ALLOW), (None, text("User:ann"), text("*"))));
        assert!(!matches((3, ANY, ANY, ANY), (None, None, None)));
        assert!(!matches((2, ANY, 4, ANY), (None, None, None)));
        assert!(!matches((2, ANY, ANY, DENY), (None, None, None)));
        assert!(!matches((2, ANY, ANY, ANY), (None, text("User:bob"), None)));
        assert!(!matches((2, ANY, ANY, ANY), (None, None, text("10.0.0.1"))));
        for numbers in
            [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0), (8, 1, 1, 1), (1, 5, 1, 1), (1, 1, 1, 4)]
        {
            assert!(AclFilter::new(numbers, (None, None, None)).is_err(), "{numbers:?}");
        }
    }
}
