//! Rules and their holders as text: `principal ann: allow read on topic orders`.
//!
//! The text of a rule is the one that [`AccessRule`] shows, in the audit store too.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use quire_model::{Operation, ResourceKind};

use crate::{AccessRule, RuleEffect, RulePattern, RuleSubject};

/// A text that is no rule and no holder of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotARule {
    /// The thing that should stand at this place.
    expected: &'static str,
    /// The text that stands there.
    found: String,
}

impl NotARule {
    fn new(expected: &'static str, found: &str) -> Self {
        NotARule { expected, found: found.to_string() }
    }
}

const EFFECT: &str = "allow or deny";
const OPERATION: &str = "all, read, write, create, delete, alter, describe, cluster_action, describe_configs, alter_configs or idempotent_write";
const KIND: &str = "topic, group, transactional_id, cluster, store, queue, graph, space or admin";
const NAME: &str = "a name, prefix and the start of names, or *";
const SUBJECT: &str = "everyone, principal NAME or role NAME";

/// The first word, and the text after the space that follows it.
fn word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// Reads `allow read on topic orders`, `… on topic prefix pay.` or `… on topic *`.
impl FromStr for AccessRule {
    type Err = NotARule;

    fn from_str(text: &str) -> Result<Self, NotARule> {
        let (effect, rest) = word(text);
        let effect = match effect {
            "allow" => RuleEffect::Allow,
            "deny" => RuleEffect::Deny,
            other => return Err(NotARule::new(EFFECT, other)),
        };
        let (operation, rest) = word(rest);
        let operation = Operation::of_name(operation).ok_or_else(|| NotARule::new(OPERATION, operation))?;
        let (on, rest) = word(rest);
        if on != "on" {
            return Err(NotARule::new("on", on));
        }
        let (kind, name) = word(rest);
        let kind = ResourceKind::of_name(kind).ok_or_else(|| NotARule::new(KIND, kind))?;
        let pattern = match (name, name.strip_prefix("prefix ")) {
            ("", _) | (_, Some("")) => return Err(NotARule::new(NAME, name)),
            ("*", _) => RulePattern::Any,
            (_, Some(prefix)) => RulePattern::Prefix(prefix.to_string()),
            (name, None) => RulePattern::Literal(name.to_string()),
        };
        Ok(AccessRule { effect, kind, pattern, operation })
    }
}

/// Reads `everyone`, `principal ann` or `role clerk`.
impl FromStr for RuleSubject {
    type Err = NotARule;

    fn from_str(text: &str) -> Result<Self, NotARule> {
        match word(text) {
            ("everyone", "") => Ok(RuleSubject::Everyone),
            ("principal", name) if !name.is_empty() => Ok(RuleSubject::Principal(name.to_string())),
            ("role", name) if !name.is_empty() => Ok(RuleSubject::Role(name.to_string())),
            _ => Err(NotARule::new(SUBJECT, text)),
        }
    }
}

impl fmt::Display for NotARule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotARule { expected, found } = self;
        write!(f, "expected {expected}, got {found:?}")
    }
}

impl core::error::Error for NotARule {}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn a_rule_is_read_as_it_is_written() {
        let patterns = [RulePattern::Literal("acme/a b".into()), RulePattern::Prefix("pay.".into()), RulePattern::Any];
        for kind in ResourceKind::ALL {
            for operation in Operation::ALL {
                for pattern in &patterns {
                    for rule in [
                        AccessRule::allow(operation, kind, pattern.clone()),
                        AccessRule::deny(operation, kind, pattern.clone()),
                    ] {
                        assert_eq!(rule.to_string().parse(), Ok(rule));
                    }
                }
            }
        }
        for subject in
            [RuleSubject::Everyone, RuleSubject::Principal("a b".into()), RuleSubject::Role("everyone".into())]
        {
            assert_eq!(subject.to_string().parse(), Ok(subject));
        }
    }

    #[test]
    fn another_text_is_refused_with_the_word_that_is_wrong() {
        for (text, expected, found) in [
            ("", EFFECT, ""),
            ("Allow read on topic t", EFFECT, "Allow"),
            ("allow eat on topic t", OPERATION, "eat"),
            ("allow", OPERATION, ""),
            ("allow read topic t", "on", "topic"),
            ("allow read on topics t", KIND, "topics"),
            ("allow read on topic", NAME, ""),
            ("allow read on topic ", NAME, ""),
            ("allow read on topic prefix ", NAME, "prefix "),
            ("deny  read on topic t", OPERATION, ""),
        ] {
            assert_eq!(text.parse::<AccessRule>(), Err(NotARule::new(expected, found)), "{text:?}");
        }
        for text in ["", "ann", "everyone else", "principal", "principal ", "role "] {
            assert_eq!(text.parse::<RuleSubject>(), Err(NotARule::new(SUBJECT, text)), "{text:?}");
        }
        let shown = format!("{}", "role".parse::<RuleSubject>().unwrap_err());
        assert_eq!(shown, "expected everyone, principal NAME or role NAME, got \"role\"");
    }

    #[test]
    fn every_operation_and_kind_is_in_the_message() {
        assert!(Operation::ALL.iter().all(|operation| OPERATION.contains(operation.name())));
        assert!(ResourceKind::ALL.iter().all(|kind| KIND.contains(kind.name())));
    }
}
