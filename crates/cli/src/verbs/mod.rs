//! The commands on the four models, for a database in a directory or behind a server.
//!
//! ```text
//! place (--data: serve it to this process · --http: a running server) ─▶ client ─▶ one file per model ─▶ print
//! ```
//! They know the paths and field names of the HTTP interface, and decide nothing.

mod client;
mod exact;
mod key_file;
mod names;
mod place;
mod print;

mod access;
mod cluster;
mod commit;
mod compact;
mod consume;
mod events;
mod export;
mod graph;
mod groups;
mod history;
mod index;
mod jobs;
mod produce;
mod refusals;
mod sql;
mod topics;

pub(crate) use access::AccessVerb;
pub(crate) use client::{HttpClient, Path};
pub(crate) use cluster::ClusterVerb;
pub(crate) use commit::CommitFile;
pub(crate) use compact::Compact;
pub(crate) use consume::Consume;
pub(crate) use events::{Events, is_event};
pub(crate) use export::ExportVerb;
pub(crate) use graph::Graph;
pub(crate) use groups::Groups;
pub(crate) use history::HistoryVerb;
pub(crate) use index::IndexVerb;
pub(crate) use jobs::Jobs;
pub(crate) use key_file::KeyFile;
pub(crate) use produce::Produce;
pub(crate) use refusals::Refusals;
pub(crate) use sql::SqlVerb;
pub(crate) use topics::Topics;
