//! The audit store: an event for each change of users, keys, roles and rules, in the commit of the
//! change, and events of servers for logins and denials.
//!
//! The shard appends the event of a change itself, so no caller can change access without it. The
//! events hold names only: no secret and no hash of one.

use std::borrow::Cow;
use std::fmt::Write;

use crate::commands::Commands;
use crate::events::{Append, Command, NewEvent, Refusal};
use crate::refusal::{CommitRefusal, Reason};

/// The event store of the audit events.
pub const AUDIT_STORE: &str = "quire/audit";

/// The topic name of the audit store. No other object can take it.
pub(crate) const AUDIT_TOPIC: &str = "quire.audit";

/// The type of the events about changed users, keys, roles and rules.
pub const ACCESS_CHANGED: &str = "AccessChanged";

/// The type of the events about clients that were authenticated.
pub const LOGGED_IN: &str = "LoggedIn";

/// The type of the events about clients that were not authenticated.
pub const LOGIN_REFUSED: &str = "LoginRefused";

/// The type of the events about requests that were refused for a missing permission.
pub const ACCESS_DENIED: &str = "AccessDenied";

/// The type of the events about events that a server could not record.
pub const AUDIT_GAP: &str = "AuditGap";

/// The author of a change, as its audit event names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditAuthor<'a> {
    /// The principal.
    pub principal: &'a str,
    /// The id of the API key that it presented.
    pub key: Option<&'a str>,
    /// The address that the request came from.
    pub address: Option<&'a str>,
    /// The protocol of the request.
    pub protocol: &'a str,
}

impl AuditAuthor<'static> {
    /// The owner of the files of the database: a program that has it open.
    pub const OWNER: Self = AuditAuthor { principal: "owner", key: None, address: None, protocol: "embedded" };
}

/// An event of the audit store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditEvent<'a> {
    /// The type, such as [`ACCESS_CHANGED`].
    pub event_type: &'a str,
    /// The author.
    pub author: AuditAuthor<'a>,
    /// The operation, such as `create_user`.
    pub operation: &'a str,
    /// The thing that it is about.
    pub thing: &'a str,
    /// The outcome, such as `done` or `denied`.
    pub outcome: &'a str,
    /// How often it happened, for events that a server collects.
    pub count: Option<u64>,
}

/// The event about events of this protocol that a server could not record.
pub fn audit_gap(protocol: &str, lost: u64) -> NewEvent<'static> {
    let mut json = String::from("{\"protocol\":");
    push_text(protocol, &mut json);
    write!(json, ",\"lost\":{lost}}}").expect(INFALLIBLE);
    NewEvent::new(AUDIT_GAP).data(json)
}

const INFALLIBLE: &str = "a string takes every character";

impl AuditEvent<'_> {
    /// The event, with its facts as JSON.
    pub fn to_event(&self) -> NewEvent<'static> {
        let AuditEvent { event_type, author, operation, thing, outcome, count } = *self;
        let AuditAuthor { principal, key, address, protocol } = author;
        let mut json = String::from("{");
        let facts = [
            ("principal", Some(principal)),
            ("key", key),
            ("address", address),
            ("protocol", Some(protocol)),
            ("operation", Some(operation)),
            ("thing", Some(thing)),
            ("outcome", Some(outcome)),
        ];
        for (name, value) in facts {
            let Some(value) = value else { continue };
            if json.len() > 1 {
                json.push(',');
            }
            push_text(name, &mut json);
            json.push(':');
            push_text(value, &mut json);
        }
        if let Some(count) = count {
            write!(json, ",\"count\":{count}").expect(INFALLIBLE);
        }
        json.push('}');
        NewEvent::new(event_type.to_owned()).data(json)
    }
}

/// Writes a JSON string. Control characters are escaped.
fn push_text(text: &str, json: &mut String) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control.is_control() => {
                write!(json, "\\u{:04x}", u32::from(control)).expect(INFALLIBLE);
            }
            other => json.push(other),
        }
    }
    json.push('"');
}

/// Refuses commands that change the audit store. The shard appends to it, and no caller does.
pub(crate) fn check_reserved(commands: &[Command<'_>]) -> Result<(), CommitRefusal> {
    match commands.iter().position(|command| command.changed_store() == Some(AUDIT_STORE)) {
        None => Ok(()),
        Some(part) => {
            let refusal = Refusal::ReservedStore { store: AUDIT_STORE.to_owned() };
            Err(CommitRefusal { part, reason: Reason::Events(refusal) })
        }
    }
}

/// The commands of event stores, followed by the audit events of the commit: one command for all of
/// them.
pub(crate) fn with_audit<'p, 'c>(commands: &Commands<'p, 'c>) -> Cow<'p, [Command<'c>]> {
    if commands.system.is_empty() && commands.audit.is_empty() {
        return Cow::Borrowed(commands.events);
    }
    let author = commands.author.unwrap_or(AuditAuthor::OWNER);
    let events = commands.system.iter().map(|command| {
        let thing = command.thing();
        let (operation, outcome) = (command.operation(), "done");
        AuditEvent { event_type: ACCESS_CHANGED, author, operation, thing: &thing, outcome, count: None }.to_event()
    });
    let events = events.chain(commands.audit.iter().cloned()).collect();
    let append = Append { store: AUDIT_STORE, events, conditions: Vec::new() };
    let mut with_audit = commands.events.to_vec();
    with_audit.push(Command::Append(append));
    Cow::Owned(with_audit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_audit_events() {
        let author = AuditAuthor { principal: "a\"\\\n", key: Some("k"), address: None, protocol: "http" };
        let event = AuditEvent {
            event_type: "Denied",
            author,
            operation: "read",
            thing: "topic ä",
            outcome: "denied",
            count: Some(2),
        };
        let json = "{\"principal\":\"a\\\"\\\\\\u000a\",\"key\":\"k\",\"protocol\":\"http\",\"operation\":\"read\",\"thing\":\"topic ä\",\"outcome\":\"denied\",\"count\":2}";
        assert_eq!(event.to_event(), NewEvent::new("Denied").data(json));
    }
}
