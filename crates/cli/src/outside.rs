//! What the command reads from outside, each parser on its own: for fuzz targets, and the tests that replay their corpora.
//!
//! Each takes any bytes, says whether they are what it reads, and asserts what then has to hold. Graphs that are imported are read by the server.

use clap::Parser;

use crate::{Quire, bench, verbs};

/// Arguments, one a line, the program's name not among them.
pub fn arguments(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match Quire::try_parse_from(std::iter::once("quire").chain(text.lines())) {
        Ok(_) => true,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "what is wrong is told");
            false
        }
    }
}

/// A line of `quire events import`: an event as it is exported, or a CloudEvent.
pub fn event(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(verbs::is_event)
}

/// A report of `quire bench --json`, to be compared with itself and printed as a page.
pub fn report(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(bench::is_report)
}
