//! The database of `quire access`: a server, which checks this client, or a directory, whose owner
//! is not checked.
//!
//! Both carry out the same requests of `quire_client::request::access`, so their answers are equal.

use std::path::PathBuf;

use clap::Args;
use quire::system::System;
use quire::{AccessControl, Builder, Database};
use serde::Serialize;
use serde_json::Value;

use crate::failure::{CommandError, Result};
use crate::opening::open;
use crate::server_address::ServerAddress;
use crate::verbs::client::{HttpClient, Path};
use crate::verbs::key_file::KeyFile;
use crate::verbs::print::{OutputForm, list};

/// The database, the credential and the form of the output.
#[derive(Debug, Args)]
pub(crate) struct AccessArgs {
    #[command(flatten)]
    at: AccessLocation,
    #[command(flatten)]
    key: KeyFile,
    #[command(flatten)]
    pub(super) form: OutputForm,
}

/// A directory, or a server.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct AccessLocation {
    /// Directory of the database; its owner needs no key
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address of a running server, like http://127.0.0.1:7070 or unix:/run/quire.sock
    /// [default: that of the variable QUIRE_HTTP]
    #[arg(long, value_name = "URL")]
    http: Option<ServerAddress>,
}

/// The directory of a database, for what no server does.
#[derive(Debug, Args)]
pub(crate) struct OwnedDirectory {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

/// A database whose access is administered.
#[derive(Debug)]
pub(super) enum AccessPlace {
    Server(HttpClient),
    Owner(Database),
}

impl AccessArgs {
    /// Opens the directory, or makes a client of the server.
    ///
    /// # Errors
    /// When the directory can't be opened, or the key can't be read.
    pub(super) fn reach(&self) -> Result<AccessPlace> {
        self.reach_with(|builder| builder.create(false))
    }

    /// Does the same, and creates a database in a directory without one: a server that other
    /// machines reach needs an administrator before its first start.
    ///
    /// # Errors
    /// As [`AccessArgs::reach`].
    pub(super) fn reach_or_create(&self) -> Result<AccessPlace> {
        self.reach_with(|builder| builder)
    }

    fn reach_with(&self, settings: impl FnOnce(Builder) -> Builder) -> Result<AccessPlace> {
        match (&self.at.http, &self.at.data) {
            (Some(address), _) => Ok(AccessPlace::Server(HttpClient::with_key(address, &self.key)?)),
            (None, Some(directory)) => Ok(AccessPlace::Owner(open(settings(Database::builder(directory)))?.database)),
            (None, None) => {
                let address = ServerAddress::of_environment()?;
                Ok(AccessPlace::Server(HttpClient::with_key(&address, &self.key)?))
            }
        }
    }
}

impl OwnedDirectory {
    /// Opens the database as its owner.
    ///
    /// # Errors
    /// When the directory can't be opened.
    pub(super) fn open(&self) -> Result<Database> {
        Ok(open(Database::builder(&self.data).create(false))?.database)
    }
}

impl AccessPlace {
    /// Lists a part of the state, as `/v1/access/{name}` does.
    ///
    /// # Errors
    /// When the server refuses or can't be reached, or the log can't be read.
    pub(super) fn list<T: Serialize>(&self, name: &str, items: fn(&System) -> Vec<T>) -> Result<Vec<Value>> {
        match self {
            AccessPlace::Server(client) => Ok(list(&client.get(&Path::new(&["access", name]))?, "data").to_vec()),
            AccessPlace::Owner(database) => items(&database.access().list()?).iter().map(value).collect(),
        }
    }

    /// Posts a request to `/v1/access`, followed by these segments, or carries it out.
    ///
    /// # Errors
    /// As [`AccessPlace::list`], and when the change is refused.
    pub(super) fn post<R: Serialize, A: Serialize>(
        &self,
        segments: &[&str],
        request: &R,
        apply: impl FnOnce(&R, &AccessControl<'_>) -> quire::Result<A>,
    ) -> Result<Value> {
        match self {
            AccessPlace::Server(client) => client.post(&path(segments), &value(request)?),
            AccessPlace::Owner(database) => value(&apply(request, &database.access())?),
        }
    }

    /// Deletes the thing at `/v1/access`, followed by these segments, or carries it out.
    ///
    /// # Errors
    /// As [`AccessPlace::post`].
    pub(super) fn delete<A: Serialize>(
        &self,
        path: &Path,
        apply: impl FnOnce(&AccessControl<'_>) -> quire::Result<A>,
    ) -> Result<Value> {
        match self {
            AccessPlace::Server(client) => client.delete(path),
            AccessPlace::Owner(database) => value(&apply(&database.access())?),
        }
    }
}

/// `/v1/access`, followed by these segments.
pub(super) fn path(segments: &[&str]) -> Path {
    let segments: Vec<&str> = ["access"].iter().chain(segments).copied().collect();
    Path::new(&segments)
}

/// A request or a reply as a value.
///
/// # Errors
/// Never for the types of `quire_client`.
pub(super) fn value<T: Serialize>(thing: &T) -> Result<Value> {
    serde_json::to_value(thing).map_err(|error| CommandError::at("write JSON", error))
}
