//! `quire events project`: folds the events of a store.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use super::EventConditions;
use super::read::line;
use crate::failure::Result;
use crate::verbs::client::Path;
use crate::verbs::names::check_store;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::OutputForm;

/// Folds events.
#[derive(Debug, Args)]
pub(crate) struct Project {
    /// The event store, like air/flights
    store: String,
    #[command(flatten)]
    filter: EventConditions,
    #[command(flatten)]
    fold: Fold,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// The result of the fold.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Fold {
    /// Count the events
    #[arg(long)]
    count: bool,
    /// Report whether there is an event
    #[arg(long)]
    exists: bool,
    /// Print the last event
    #[arg(long)]
    last: bool,
    /// Sum a number in the data of the events, which are JSON objects
    #[arg(long, value_name = "FIELD")]
    sum: Option<String>,
}

impl Fold {
    fn request(&self) -> Value {
        match &self.sum {
            Some(field) => json!({ "sum": field }),
            None if self.count => json!("count"),
            None if self.exists => json!("exists"),
            None => json!("last"),
        }
    }
}

impl Project {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let projection = json!({ "query": self.filter.query(), "fold": self.fold.request() });
        self.place.visit(|client| {
            let path = Path::new(&["events", &self.store, "project"]);
            let answer = client.post(&path, &json!({ "projections": { "state": projection } }))?;
            if answer["head"] == 0 {
                check_store(client, &self.store)?;
            }
            let state = json!({ "state": answer["states"]["state"], "head": answer["head"] });
            self.form.print(out, std::slice::from_ref(&state), |state| match &state["state"] {
                Value::Null => "-".to_owned(),
                event @ Value::Object(_) => line(event),
                state => state.to_string(),
            })
        })
    }
}
