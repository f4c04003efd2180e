//! Commands to look at the demo's database, ready to paste.
//!
//! While the demo serves, the commands use its server. Afterwards they open the database
//! themselves. The commands that speak a protocol then need a server.

use std::io::Write;
use std::path::Path;

use quire_access::ListenAddress;

use super::{flights, story};
use crate::failure::Result;
use crate::servers::Addresses;
use crate::text::quoted;

/// The objects that the commands show: one of each model.
#[derive(Debug)]
pub(super) struct Example {
    store: &'static str,
    topic: &'static str,
    queue: &'static str,
    graph: &'static str,
    /// A tag of some events.
    tag: String,
    /// A block that has neighbours.
    block: &'static str,
}

impl Example {
    /// The shop of the story.
    pub(super) fn shop() -> Self {
        Example {
            store: story::ORDERS_STORE,
            topic: story::ORDERS_TOPIC,
            queue: story::PAYMENTS,
            graph: story::CATALOGUE,
            tag: "order:1".to_owned(),
            block: "ada",
        }
    }

    /// The flights, with the events of the aircraft with this tail number.
    pub(super) fn flights(plane: &str) -> Self {
        Example {
            store: flights::FLIGHTS,
            topic: flights::DEPARTURES,
            queue: flights::DELAYS,
            graph: flights::ROUTES,
            tag: format!("plane:{plane}"),
            block: "LGA",
        }
    }
}

/// The commands, and the facts that they depend on.
#[derive(Debug)]
pub(super) struct Explore<'e> {
    pub(super) data: &'e Path,
    /// The addresses of the servers, which may have stopped.
    pub(super) addresses: &'e Addresses,
    pub(super) is_serving: bool,
    pub(super) example: &'e Example,
}

impl Explore<'_> {
    /// Writes the commands.
    ///
    /// # Errors
    /// When the output can't be written.
    pub(super) fn write(&self, out: &mut dyn Write) -> Result {
        let quire = program();
        let data = quoted(&self.data.display().to_string());
        let Addresses { kafka, http, grpc, .. } = self.addresses;
        let [kafka, ..] = &kafka[..] else { unreachable!("the flag has a default") };
        let Example { store, topic, queue, graph, tag, block } = self.example;
        let place = if self.is_serving { format!("--http {http}") } else { format!("--data {data}") };
        writeln!(out, "\nexplore it:")?;
        if let (true, Some(url)) = (self.is_serving, http.url()) {
            writeln!(out, "  {url}/ in a browser: the dashboard")?;
        }
        writeln!(out, "  {quire} events read {store} {place} --tag {} --limit 5", quoted(tag))?;
        writeln!(out, "  {quire} consume {topic} {place} --limit 5")?;
        writeln!(out, "  {quire} jobs list {queue} {place} --state completed --limit 5")?;
        writeln!(out, "  {quire} graph neighbours {graph} {block} {place}")?;
        if !self.is_serving {
            writeln!(out, "serve it, and from another terminal:")?;
            writeln!(out, "  {quire} serve --data {data} --kafka {kafka} --http {http} --grpc {grpc}")?;
        }
        let server = match &http.address {
            ListenAddress::Tcp(address) => format!("'http://{address}"),
            ListenAddress::Unix(path) => {
                format!("--unix-socket {} 'http://localhost", quoted(&path.display().to_string()))
            }
        };
        writeln!(out, "  curl -s {server}/v1/events/{}?tag={tag}&limit=5'", store.replace('/', "%2F"))?;
        Ok(writeln!(out, "  kcat -C -e -b {kafka} -t {topic} -f '%k %s\\n'")?)
    }
}

/// This program, as the user called it.
fn program() -> String {
    quoted(&std::env::args().next().unwrap_or_else(|| "quire".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_when_the_shell_would_split_it() {
        assert_eq!(quoted("/tmp/quire-demo/data"), "/tmp/quire-demo/data");
        assert_eq!(quoted("my data"), "'my data'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
