//! `quire events subscribe`, `unsubscribe`, `subscriptions` and `projections`: the named objects of
//! a store.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use super::EventConditions;
use crate::failure::Result;
use crate::verbs::client::Path;
use crate::verbs::names::check_store;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, list, word};

/// Creates or changes a named subscription. `quire jobs work NAME --store STORE` handles its
/// events, as does any other worker of the queue NAME. `quire jobs list NAME --state dead` lists
/// the events that failed.
#[derive(Debug, Args)]
pub(crate) struct Subscribe {
    /// The event store, like air/flights; created when it does not exist
    store: String,
    /// Name of the subscription, and of its queue
    name: String,
    #[command(flatten)]
    filter: EventConditions,
    /// Deliver events after this position [default: all events; an existing subscription continues]
    #[arg(long, value_name = "POSITION")]
    after: Option<u64>,
    /// Most attempts per event [default: 5]
    #[arg(long, value_name = "N")]
    attempts_max: Option<u16>,
    /// Milliseconds to wait after the first failed attempt; doubles with each further one [default:
    /// 5000]
    #[arg(long, value_name = "MS")]
    backoff_ms: Option<u64>,
    /// Longest wait in milliseconds [default: 3600000]
    #[arg(long, value_name = "MS")]
    backoff_max_ms: Option<u64>,
    /// Prefix of the tags that name groups, which take turns, like student:
    #[arg(long, value_name = "START")]
    group_by: Option<String>,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Deletes a named subscription.
#[derive(Debug, Args)]
pub(crate) struct Unsubscribe {
    /// The event store
    store: String,
    /// Name of the subscription
    name: String,
    #[command(flatten)]
    place: DatabaseArgs,
}

/// Lists the named subscriptions of a store.
#[derive(Debug, Args)]
pub(crate) struct Subscriptions {
    /// The event store
    store: String,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Lists the saved projections of a store.
#[derive(Debug, Args)]
pub(crate) struct Projections {
    /// The event store
    store: String,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Deletes the saved state of a projection.
#[derive(Debug, Args)]
pub(crate) struct DropProjection {
    /// The event store
    store: String,
    /// Name of the projection
    name: String,
    #[command(flatten)]
    place: DatabaseArgs,
}

impl Subscribe {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let mut body = json!({ "query": self.filter.query() });
        let numbers = [
            ("after", self.after),
            ("attempts_max", self.attempts_max.map(u64::from)),
            ("backoff_ms", self.backoff_ms),
            ("backoff_max_ms", self.backoff_max_ms),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                body[name] = Value::from(number);
            }
        }
        if let Some(start) = self.group_by {
            body["group_by"] = Value::from(start);
        }
        self.place.visit(|client| {
            let answer = client.post(&Path::new(&["events", &self.store, "subscriptions", &self.name]), &body)?;
            self.form.print(out, std::slice::from_ref(&answer), subscription_line)
        })
    }
}

impl Unsubscribe {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        self.place.visit(|client| {
            client.delete(&Path::new(&["events", &self.store, "subscriptions", &self.name]))?;
            Ok(writeln!(out, "{} deleted", self.name)?)
        })
    }
}

impl Subscriptions {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        self.place.visit(|client| {
            let answer = client.get(&Path::new(&["events", &self.store, "subscriptions"]))?;
            let subscriptions = list(&answer, "data");
            if subscriptions.is_empty() {
                check_store(client, &self.store)?;
            }
            self.form.print(out, subscriptions, subscription_line)
        })
    }
}

impl Projections {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        self.place.visit(|client| {
            let answer = client.get(&Path::new(&["events", &self.store, "projections"]))?;
            let projections = list(&answer, "data");
            if projections.is_empty() {
                check_store(client, &self.store)?;
            }
            let line = |saved: &Value| {
                format!(
                    "{:<32} version {}  position {}",
                    word(saved, "name"),
                    word(saved, "version"),
                    word(saved, "position")
                )
            };
            self.form.print(out, projections, line)
        })
    }
}

impl DropProjection {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        self.place.visit(|client| {
            client.delete(&Path::new(&["events", &self.store, "projections", &self.name]))?;
            Ok(writeln!(out, "{} deleted", self.name)?)
        })
    }
}

/// A subscription, for people.
fn subscription_line(subscription: &Value) -> String {
    let queue = &subscription["queue"];
    let counts = ["pending", "active", "retrying", "dead"].map(|state| match &queue[state] {
        Value::Null => format!("{state} 0"),
        count => format!("{state} {count}"),
    });
    let (name, position) = (word(subscription, "name"), word(subscription, "position"));
    format!("{name:<24} position {position}  behind {}  {}", word(subscription, "behind"), counts.join("  "))
}
