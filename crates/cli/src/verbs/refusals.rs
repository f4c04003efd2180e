//! `quire refusals`: the last refused commits of a server, with their reasons.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use super::client::Path;
use super::place::DatabaseArgs;
use super::print::{OutputForm, list, time, word};
use crate::failure::{Result, aside};

/// Arguments of `quire refusals`.
#[derive(Debug, Args)]
pub(crate) struct Refusals {
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

impl Refusals {
    /// Prints the refusals, the newest first.
    ///
    /// # Errors
    /// When the database can't be reached.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let Refusals { place, form } = self;
        if place.is_directory() {
            aside(format_args!(
                "quire: note: each server keeps its refusals in memory; ask it with --http, not with --data"
            ));
        }
        place.visit(|client| {
            let answer = client.get(&Path::new(&["refusals"]))?;
            form.print(out, list(&answer, "data"), |refused| {
                let resources: Vec<String> = list(refused, "resources").iter().map(resource).collect();
                let (number, detail) = (word(refused, "number"), word(&refused["problem"], "detail"));
                format!("{} {number:>4} {} {detail}", time(refused, "time_ms"), resources.join(", "))
            })
        })
    }
}

/// A resource with its kind; a kind without a name stands for all its resources.
fn resource(resource: &Value) -> String {
    match &resource["name"] {
        Value::Null => format!("every {}", word(resource, "kind")),
        _ => format!("{} {}", word(resource, "kind"), word(resource, "name")),
    }
}
