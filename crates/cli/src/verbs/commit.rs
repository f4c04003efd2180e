//! `quire commit`: commits parts of any models, all or none.

use std::io::{Read, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::client::Path;
use super::place::DatabaseArgs;
use super::print::{OutputForm, list, word};
use crate::failure::{CommandError, Result};
use crate::text::counted;

/// Arguments of `quire commit`.
#[derive(Debug, Args)]
pub(crate) struct CommitFile {
    /// File with the commit, as `POST /v1/commit` takes it: {"parts": [{"enqueue": {...}}, ...]}
    /// [default: standard input]
    file: Option<PathBuf>,
    /// Idempotency key: a commit that is sent again with its key gets the first answer
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Decide the commit, and commit nothing: print the entries that it would append, or its
    /// refusal
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

impl CommitFile {
    /// Commits, and prints the position or the whole answer.
    ///
    /// # Errors
    /// When the file can't be read or the database can't be reached, and the refusal of the commit.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let CommitFile { file, key, dry_run, place, form } = self;
        let (read, source) = match &file {
            Some(file) => (std::fs::read(file), file.display().to_string()),
            None => {
                let mut body = Vec::new();
                (std::io::stdin().lock().read_to_end(&mut body).map(|_| body), "standard input".to_owned())
            }
        };
        let body = read.map_err(|error| CommandError::at(format_args!("read {source}"), error))?;
        // The server's message names no file.
        if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&body) {
            return Err(CommandError::new(format!("{source} is not JSON: {error}")));
        }
        let path = Path::new(&["commit"]);
        let path = key.iter().fold(path, |path, key| path.with_key(key));
        let path = if dry_run { path.with("dry_run", true) } else { path };
        place.visit(|client| {
            let done = client.post_bytes(&path, &body)?;
            if dry_run {
                return print_dry_run(form, out, &done);
            }
            form.print(out, std::slice::from_ref(&done), |done| match list(done, "replies").len() as u64 {
                0 => "nothing was committed: the commit has no parts".to_owned(),
                parts => format!("{} committed at {}", counted(parts, "part"), word(done, "position")),
            })
        })
    }
}

/// Prints the answer to a dry run: a line for the whole, and one for each entry.
fn print_dry_run(form: OutputForm, out: &mut dyn Write, tried: &Value) -> Result {
    form.print(out, std::slice::from_ref(tried), |tried| {
        let parts = counted(list(tried, "replies").len() as u64, "part");
        let entries = match list(tried, "entries").len() {
            1 => "1 entry".to_owned(),
            entries => format!("{entries} entries"),
        };
        format!("{parts} would be committed at {}, with {entries}; nothing was committed", word(tried, "position"))
    })?;
    if form.is_json() {
        return Ok(());
    }
    form.print(out, list(tried, "entries"), |entry| {
        format!("{:<8} {:<24} {} B", word(entry, "model"), word(entry, "kind"), word(entry, "bytes"))
    })
}
