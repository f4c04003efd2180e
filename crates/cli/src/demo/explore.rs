//! Commands to look at what the demo made, to be pasted as they are.
//!
//! While the demo serves, the database is its own, and the commands ask its server; afterwards they open the database
//! themselves, and a server has to be started for those that speak a protocol.

use std::io::Write;
use std::path::Path;

use super::names::{DELAYS, DEPARTURES, FLIGHTS, ROUTES};
use crate::failure::Result;
use crate::servers::Addresses;

/// What the commands need to know.
#[derive(Debug)]
pub(super) struct Explore<'e> {
    pub(super) data: &'e Path,
    /// Where the servers are, or were.
    pub(super) addresses: Addresses,
    pub(super) is_serving: bool,
    /// The tail number of an aircraft to look at.
    pub(super) plane: &'e str,
}

impl Explore<'_> {
    /// Writes them.
    pub(super) fn write(&self, out: &mut dyn Write) -> Result {
        let quire = program();
        let data = quoted(&self.data.display().to_string());
        let Addresses { kafka, http, grpc } = self.addresses;
        let place = if self.is_serving { format!("--http {http}") } else { format!("--data {data}") };
        writeln!(out, "\nexplore it:")?;
        writeln!(
            out,
            "  {quire} events read {FLIGHTS} {place} --tag {} --limit 5",
            quoted(&format!("plane:{}", self.plane))
        )?;
        writeln!(out, "  {quire} consume {DEPARTURES} {place} --limit 5")?;
        writeln!(out, "  {quire} jobs list {DELAYS} {place} --state completed --limit 5")?;
        writeln!(out, "  {quire} graph neighbours {ROUTES} LGA {place}")?;
        if !self.is_serving {
            writeln!(out, "serve it, and from another terminal:")?;
            writeln!(out, "  {quire} serve --data {data} --kafka {kafka} --http {http} --grpc {grpc}")?;
        }
        writeln!(out, "  curl -s 'http://{http}/v1/events/{}?tag=flight:UA1545&limit=5'", FLIGHTS.replace('/', "%2F"))?;
        Ok(writeln!(out, "  kcat -C -e -b {kafka} -t {DEPARTURES} -f '%k %s\\n'")?)
    }
}

/// This program, as the user called it.
fn program() -> String {
    quoted(&std::env::args().next().unwrap_or_else(|| "quire".to_owned()))
}

/// A word as a POSIX shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+=:,@".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
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
