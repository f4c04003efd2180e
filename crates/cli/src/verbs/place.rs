//! The database of a command: behind a running server (`--http`), or in a directory (`--data`).
//!
//! Both are read in one way. For a directory, this process opens the database and serves it to
//! itself on a Unix socket. The output therefore never depends on how the database was reached.
//!
//! The directory of the socket can only be opened by the user of this process, who owns the
//! database: its access rules do not apply to this user, and nobody else can connect.

use std::error::Error as _;
use std::io::ErrorKind;
use std::path::PathBuf;

use clap::Args;
use quire::Database;
use quire_access::{ListenAddress, LocalRead};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::client::HttpClient;
use super::key_file::KeyFile;
use crate::durability::DurabilityArg;
use crate::failure::{CommandError, Result, aside};
use crate::graph_memory::GraphMemoryArgs;
use crate::opening::open;
use crate::private_directory::PrivateDirectory;
use crate::profile::ProfileArg;
use crate::server_address::ServerAddress;
use crate::text::parse_bytes;
use crate::threads;

/// The location of the database, and the options for opening it.
#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    #[command(flatten)]
    at: DatabaseLocation,
    #[command(flatten)]
    key: KeyFile,
    /// Open read-only; works on read-only media
    #[arg(long, conflicts_with = "http", hide_short_help = true)]
    read_only: bool,
    /// Most bytes of blocks and edges that graphs keep on the heap; the rest goes to mapped files
    /// [default: unlimited]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with = "http", hide_short_help = true)]
    graph_memory: Option<u64>,
    /// Tuning profile. Use the server's: it sets the segment size
    #[arg(long, value_enum, default_value_t = ProfileArg::Balanced, conflicts_with = "http", hide_short_help = true)]
    profile: ProfileArg,
    /// Durability of commits. Must match other processes using this database [default: theirs, else
    /// sync]
    #[arg(long, value_enum, conflicts_with_all = ["http", "read_only"], hide_short_help = true)]
    durability: Option<DurabilityArg>,
    /// Records that reads show: `local` for those that the server itself has published, or
    /// `at=POSITION` once it has published that position [default: all that any node acknowledged]
    #[arg(long, value_name = "WHAT", value_parser = local_read, conflicts_with = "data", hide_short_help = true)]
    read: Option<LocalRead>,
}

/// Parses the value of `--read`.
fn local_read(text: &str) -> Result<LocalRead, String> {
    LocalRead::of_fields([text.as_bytes()])
}

/// A directory, or a server.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct DatabaseLocation {
    /// Directory of the database; may be in use by a server and other processes
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address of a running server, like http://127.0.0.1:7070 or unix:/run/quire.sock
    /// [default: that of the variable QUIRE_HTTP]
    #[arg(long, value_name = "URL")]
    http: Option<ServerAddress>,
}

impl DatabaseArgs {
    /// A second database for the same command: a directory with the same bound on graphs, or else a
    /// server.
    pub(super) fn beside(&self, data: Option<PathBuf>, http: Option<ServerAddress>) -> Self {
        let (at, key) = (DatabaseLocation { data, http }, self.key.clone());
        DatabaseArgs { at, key, read_only: false, ..*self }
    }

    /// Reports whether the end of the present data ends the command, because a read-only database
    /// does not change. Then prints a note on standard error.
    pub(super) fn ends_here(&self) -> bool {
        if self.read_only {
            aside(format_args!("quire: note: --read-only shows no new data; stopping here"));
        }
        self.read_only
    }

    /// Whether the database is in a directory, and this process serves it to itself.
    pub(super) fn is_directory(&self) -> bool {
        self.at.data.is_some()
    }

    /// Runs a command on the database.
    ///
    /// # Errors
    /// When the database can't be reached, and the errors of `verb`.
    pub(super) fn visit(&self, verb: impl FnOnce(&HttpClient) -> Result) -> Result {
        match (&self.at.http, &self.at.data) {
            (Some(address), _) => verb(&HttpClient::with_key(address, &self.key)?.reading(self.read)),
            (None, None) => {
                verb(&HttpClient::with_key(&ServerAddress::of_environment()?, &self.key)?.reading(self.read))
            }
            (None, Some(folder)) => {
                let served = self.serve(folder)?;
                let done = HttpClient::of_owner(&served.address).and_then(|client| verb(&client));
                served.close();
                done
            }
        }
    }

    /// Serves the database in a directory to this process.
    fn serve(&self, folder: &std::path::Path) -> Result<LocalServer> {
        let builder = Database::builder(folder).profile(self.profile.into()).create(false).read_only(self.read_only);
        let builder = match self.durability {
            Some(promise) => builder.durability(promise.into()),
            None => builder,
        };
        let graph_memory = GraphMemoryArgs::new(self.graph_memory);
        let builder = match self.read_only {
            true => graph_memory.of_read_only(builder),
            false => graph_memory.of(builder),
        };
        LocalServer::start(open(builder).map_err(|error| self.hinted(&error, folder))?.database)
    }

    /// Explains why the directory can't be opened, and what to do. `quire serve` makes a database
    /// in an empty directory. `--read-only` opens a directory that can't be written.
    fn hinted(&self, error: &quire::Error, folder: &std::path::Path) -> CommandError {
        let is_empty = match std::fs::read_dir(folder) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        let hint = if is_empty {
            format!("; `quire serve --data {}` creates one", folder.display())
        } else if !self.read_only && can_not_be_written(error) {
            "; add `--read-only` to open it without writing".to_owned()
        } else {
            String::new()
        };
        CommandError::new(format!("{error}{hint}"))
    }
}

/// A database that this process serves to itself.
#[derive(Debug)]
struct LocalServer {
    runtime: Runtime,
    address: ServerAddress,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
    // Removed after the socket.
    _directory: PrivateDirectory,
}

impl LocalServer {
    fn start(database: Database) -> Result<Self> {
        let runtime = threads::start(1)?;
        let failed = |error| CommandError::at("serve the database to this process", error);
        let directory = PrivateDirectory::create().map_err(failed)?;
        let socket = ListenAddress::Unix(directory.path().join("http.sock"));
        // No other client shares the memory of responses.
        let memory_bytes_max = quire_http::Settings::MEMORY_BYTES_MOST;
        let settings = quire_http::Settings { memory_bytes_max, ..quire_http::Settings::default() };
        let server = quire_http::Server::bind_with(database, socket, settings);
        let server = runtime.block_on(server).map_err(failed)?.for_owner();
        let (stop, stopped) = oneshot::channel();
        let address = server.address().clone().into();
        let task = runtime.spawn(server.run(async {
            // A dropped sender stops the server too.
            let _ = stopped.await;
        }));
        Ok(LocalServer { runtime, address, stop, task, _directory: directory })
    }

    /// Stops the server. The database is closed when this returns.
    fn close(self) {
        // The command has its result. A server that has ended already does not change it.
        let _ = self.stop.send(());
        let _ = self.runtime.block_on(self.task);
    }
}

fn can_not_be_written(error: &quire::Error) -> bool {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| matches!(cause.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied))
}
