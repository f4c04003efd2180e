//! The database of a tool: a directory, or a running server.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::{CommandError, Result};
use crate::server_address::ServerAddress;
use crate::verbs::{HttpClient, KeyFile};

/// `--data DIR`, DIR alone, or `--http URL`.
#[derive(Debug, Args)]
#[group(id = "database", multiple = false)]
pub(super) struct ToolLocation {
    /// Directory of the database, as with --data
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Directory of the database; may be in use, unless the command says otherwise
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address of a running server, like http://127.0.0.1:7070 or unix:/run/quire.sock
    /// [default: that of the variable QUIRE_HTTP]
    #[arg(long, value_name = "URL")]
    http: Option<ServerAddress>,
}

/// The place of a tool that also asks a server, and the key for it.
#[derive(Debug, Args)]
pub(super) struct ServedToolLocation {
    #[command(flatten)]
    location: ToolLocation,
    #[command(flatten)]
    key: KeyFile,
}

/// The place that was given.
#[derive(Debug)]
pub(super) enum ToolPlace {
    Directory(PathBuf),
    Server(HttpClient),
}

impl ServedToolLocation {
    /// The place, with a client of a server.
    ///
    /// # Errors
    /// When the key can't be read or sent.
    pub(super) fn place(self) -> Result<ToolPlace> {
        let ToolLocation { dir, data, http } = self.location;
        match (http, data.or(dir)) {
            (Some(address), _) => Ok(ToolPlace::Server(HttpClient::with_key(&address, &self.key)?)),
            (None, Some(directory)) => Ok(ToolPlace::Directory(directory)),
            (None, None) => Ok(ToolPlace::Server(HttpClient::with_key(&ServerAddress::of_environment()?, &self.key)?)),
        }
    }
}

impl ToolLocation {
    /// The directory, for a command that reads files.
    ///
    /// # Errors
    /// When a server was given. `instead` says what to do.
    pub(super) fn directory(&self, instead: &str) -> Result<&Path> {
        match self.data.as_deref().or(self.dir.as_deref()) {
            Some(directory) => Ok(directory),
            None if self.http.is_none() => {
                Err(CommandError::Usage("no database was given: give --data DIR".to_owned()))
            }
            None => Err(not_over_http(instead)),
        }
    }
}

/// The error of a command that reads files and got a server.
pub(super) fn not_over_http(instead: &str) -> CommandError {
    CommandError::new(format!("the files of a database are not served over HTTP: on the server's machine, {instead}"))
}
