//! `quire events copy`: appends the events of a store to a store of another database.
//!
//! Each append records the source position in the same commit. An interrupted copy resumes there,
//! and a later copy adds new events. Ids, types, tags, data and metadata stay the same; position
//! and time are new. Events that the source has deleted are not copied. Events that the source
//! deletes later stay in the copy.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::transfer::to_append;
use crate::failure::{CommandError, Result};
use crate::server_address::ServerAddress;
use crate::text::counted;
use crate::verbs::client::{HttpClient, Path};
use crate::verbs::exact;
use crate::verbs::names::check_store;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, list};

/// Most events per append, and the number of bytes that ends an append. A page may hold more than a
/// commit allows.
const EVENTS_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: usize = 1 << 20;

/// Copies events.
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// The event store
    store: String,
    #[command(flatten)]
    place: DatabaseArgs,
    /// Directory of the other database; must exist
    #[arg(long, value_name = "DIR", required_unless_present = "to_http", conflicts_with = "to_http")]
    to_data: Option<PathBuf>,
    /// Address of the other database's server, like http://127.0.0.1:7070
    #[arg(long, value_name = "URL")]
    to_http: Option<ServerAddress>,
    /// Event store in the other database [default: the same name]
    #[arg(long, value_name = "STORE")]
    to: Option<String>,
    /// Name of this source in the other store, to distinguish several sources
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    #[command(flatten)]
    form: OutputForm,
}

impl Copy {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let there = self.place.beside(self.to_data.clone(), self.to_http.clone());
        self.place.visit(|from| there.visit(|to| self.copy(from, to, out)))
    }

    fn copy(&self, from: &HttpClient, to: &HttpClient, out: &mut dyn Write) -> Result {
        let target = self.to.as_deref().unwrap_or(&self.store);
        let source = self.source.clone().unwrap_or_else(|| format!("copy of {}", self.store));
        let sources = to.get(&Path::new(&["events", target, "sources"]))?;
        let known = list(&sources, "data").iter().find(|known| known["source"] == source.as_str());
        let mut position = known.and_then(|known| known["position"].as_u64()).unwrap_or_default();
        let mut events = 0;
        loop {
            let page = Path::new(&["events", &self.store]).with("after", position).with("limit", EVENTS_AT_ONCE);
            let page = from.get(&page)?;
            if page["head"] == 0 {
                check_store(from, &self.store)?;
            }
            let found = list(&page, "data");
            if found.is_empty() {
                break;
            }
            let (mut append, mut bytes) = (Vec::new(), 0);
            for (index, event) in found.iter().enumerate() {
                bytes += exact::text(event).len();
                append.push(to_append(event.clone()));
                if bytes < BYTES_AT_ONCE && index + 1 < found.len() {
                    continue;
                }
                let last = event["position"]
                    .as_u64()
                    .ok_or_else(|| CommandError::new("the server sent an event without a position"))?;
                events += append.len() as u64;
                let upstream = json!({ "source": source, "position": last });
                let body = json!({ "events": std::mem::take(&mut append), "upstream": upstream });
                to.post(&Path::new(&["events", target, "append"]), &body)?;
                (position, bytes) = (last, 0);
            }
        }
        let answer = json!({ "events": events, "position": position });
        self.form.print(out, std::slice::from_ref(&answer), |_| {
            format!("{} up to position {position}", counted(events, "event"))
        })
    }
}
