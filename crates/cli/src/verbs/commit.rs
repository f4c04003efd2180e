//! `quire commit`: commits parts of any models, all or none.

use std::io::{Read, Write};
use std::path::PathBuf;

use clap::Args;

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
        let CommitFile { file, key, place, form } = self;
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
        place.visit(|client| {
            let done = client.post_bytes(&path, &body)?;
            form.print(out, std::slice::from_ref(&done), |done| match list(done, "replies").len() as u64 {
                0 => "nothing was committed: the commit has no parts".to_owned(),
                parts => format!("{} committed at {}", counted(parts, "part"), word(done, "position")),
            })
        })
    }
}
