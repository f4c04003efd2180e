//! `quire compact`: rewrites the segments of a database now.

use std::io::Write;

use clap::Args;

use super::client::Path;
use super::place::DatabaseArgs;
use super::print::OutputForm;
use crate::failure::Result;
use crate::text::{bytes, counted, grouped};

/// Arguments of `quire compact`.
#[derive(Debug, Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

impl Compact {
    /// Compacts, and prints the result.
    ///
    /// # Errors
    /// When the database can't be reached, or a record is damaged.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let Compact { place, form } = self;
        place.visit(|client| {
            let done = client.post_patiently(&Path::new(&["compact"]))?;
            let number = |name: &str| done[name].as_u64().unwrap_or_default();
            form.print(out, std::slice::from_ref(&done), |_| {
                let segments = counted(number("segments"), "segment");
                let (before, after) = (bytes(number("bytes_before")), bytes(number("bytes_after")));
                let entries = match number("entries_dropped") {
                    1 => "1 entry".to_owned(),
                    entries => format!("{} entries", grouped(entries)),
                };
                format!("{segments} rewritten, {entries} dropped: {before} before, {after} now")
            })
        })
    }
}
