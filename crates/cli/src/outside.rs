//! The parsers of the command for input from outside, one function each, for fuzz targets and the
//! tests that replay their corpora.
//!
//! Each function takes any bytes, returns whether they are valid, and asserts what must hold then.
//! The server parses imported graphs.

use clap::Parser;

use crate::{Quire, settings, verbs};

/// Arguments of the command, one per line, without the program's name.
pub fn arguments(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match Quire::try_parse_from(std::iter::once("quire").chain(text.lines())) {
        Ok(_) => true,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "an error has a message");
            false
        }
    }
}

/// A line of `quire events import`: an exported event, or a CloudEvent.
pub fn event(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(verbs::is_event)
}

/// A file of settings of `quire serve`.
pub fn settings(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(settings::is_file)
}
