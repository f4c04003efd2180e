//! `quire index`: text indexes over event stores. `quire sql` searches them.

use std::io::Write;

use clap::Subcommand;
use serde_json::{Value, json};

use super::client::Path;
use super::place::DatabaseArgs;
use super::print::{OutputForm, list, word};
use crate::failure::Result;
use crate::text::{bytes, counted};

/// The commands of `quire index`.
#[derive(Debug, Subcommand)]
pub(crate) enum IndexVerb {
    /// Create a text index over an event store, and build it
    Create {
        /// The event store, like air/flights
        store: String,
        /// JSON path of text in the data of events, like $.note; can be repeated. $ is the whole
        /// data, which then need not be JSON
        #[arg(long, value_name = "PATH", required = true)]
        text: Vec<String>,
        /// Name of the index [default: that of the store]
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        place: DatabaseArgs,
        #[command(flatten)]
        form: OutputForm,
    },
    /// List the text indexes
    List {
        #[command(flatten)]
        place: DatabaseArgs,
        #[command(flatten)]
        form: OutputForm,
    },
    /// Delete a text index and its file
    Delete {
        /// The name of the index
        index: String,
        #[command(flatten)]
        place: DatabaseArgs,
    },
}

impl IndexVerb {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        match self {
            IndexVerb::Create { store, text, name, place, form } => place.visit(|client| {
                let mut body = json!({ "store": store, "text": text });
                if let Some(name) = name {
                    body["name"] = name.into();
                }
                let created = client.post(&Path::new(&["indexes"]), &body)?;
                form.print(out, std::slice::from_ref(&created), line)
            }),
            IndexVerb::List { place, form } => place.visit(|client| {
                let answer = client.get(&Path::new(&["indexes"]))?;
                form.print(out, list(&answer, "data"), line)
            }),
            IndexVerb::Delete { index, place } => place.visit(|client| {
                client.delete(&Path::new(&["indexes", &index]))?;
                Ok(writeln!(out, "deleted {index}")?)
            }),
        }
    }
}

/// An index on one line.
fn line(index: &Value) -> String {
    let number = |name: &str| index[name].as_u64().unwrap_or_default();
    let paths: Vec<&str> = list(index, "text").iter().filter_map(Value::as_str).collect();
    let documents = counted(number("documents"), "event");
    let (name, store) = (word(index, "name"), word(index, "store"));
    let (covered, head, size) = (number("covered"), number("head"), bytes(number("bytes")));
    format!(
        "{name:<32} {} of {store}: {documents} with text, up to position {covered} of {head}, {size}",
        paths.join(" ")
    )
}
