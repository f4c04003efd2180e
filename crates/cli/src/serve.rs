//! `quire serve`: one database, served over the Kafka protocol, HTTP and gRPC until Ctrl-C.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use quire::{Builder, Database, Recovery};

use crate::connections::{ConnectionArgs, ServerSettings};
use crate::durability::DurabilityArg;
use crate::failure::Result;
use crate::graph_memory::GraphMemoryArgs;
use crate::http::HttpArgs;
use crate::kafka::KafkaArgs;
use crate::opening::open;
use crate::profile::ProfileArg;
use crate::servers::{Addresses, Servers};
use crate::text::counted;

/// Arguments of `quire serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Directory of the database; created when new or empty
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    addresses: Addresses,
    #[command(flatten)]
    kafka: KafkaArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    connections: ConnectionArgs,
    /// Durability of commits
    #[arg(long, value_enum, default_value = "sync")]
    durability: DurabilityArg,
    /// Tuning profile
    #[arg(long, value_enum, default_value = "balanced")]
    profile: ProfileArg,
    #[command(flatten)]
    graph_memory: GraphMemoryArgs,
    /// Pack compacted segments: saves about three quarters of the disk for JSON and slows reads of
    /// old data [default: set by the profile]
    #[arg(long, value_name = "BOOL")]
    pack_segments: Option<bool>,
    /// Smallest record batch to compress when its topic has a codec; batches of Kafka clients are
    /// stored as sent [default: set by the profile]
    #[arg(long, value_name = "BYTES")]
    compress_bytes_min: Option<usize>,
    /// Largest size of the log; the oldest records of topics are deleted to stay below it [default:
    /// unlimited]
    #[arg(long, value_name = "BYTES")]
    log_bytes_max: Option<u64>,
}

/// Smallest allocation, in bytes, that is returned to the system when it is freed. Most requests
/// and responses are smaller, and the largest are many times larger.
const LARGE_BYTES: usize = 4 << 20;

impl Serve {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        // Where the allocator has no such setting, the server keeps freed memory.
        let _ = quire_mapped::give_back_large(LARGE_BYTES);
        let (kafka, http) = (self.kafka.settings()?, self.http.settings()?);
        let mut settings = ServerSettings { kafka, http, ..ServerSettings::default() };
        self.connections.add(&mut settings)?;
        self.addresses.check()?;
        let builder = Database::builder(&self.data).durability(self.durability.into()).profile(self.profile.into());
        let builder = said(self.pack_segments, builder, Builder::pack_segments);
        let builder = said(self.compress_bytes_min, builder, Builder::compress_bytes_min);
        let builder = said(self.log_bytes_max, builder, Builder::log_bytes_max);
        let opening = open(self.graph_memory.of(builder))?;
        let database = opening.database;
        let servers = Servers::start(&database, self.addresses, settings)?;
        writeln!(out, "data        {}", self.data.display())?;
        tell_recovery(out, &opening.recovery)?;
        writeln!(out, "durability  {}", database.durability())?;
        tell_addresses(out, servers.addresses())?;
        writeln!(out, "serving until Ctrl-C")?;
        out.flush()?;
        servers.wait(&database, opening.recovery.damage.len());
        let stopped = servers.stop();
        let commits = database.statistics().commits;
        // Closing syncs and saves the state. The message follows the close.
        drop(database);
        stopped?;
        Ok(writeln!(out, "stopped after {}", counted(commits, "commit"))?)
    }
}

/// Sets an option of the builder when the user gave it.
fn said<T>(value: Option<T>, builder: Builder, set: fn(Builder, T) -> Builder) -> Builder {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

/// Prints the result of opening the database.
fn tell_recovery(out: &mut dyn Write, recovery: &Recovery) -> Result {
    if let Recovery { records: 0, segments: 0, cut: None, .. } = recovery {
        return Ok(writeln!(out, "recovered   nothing: the database is empty")?);
    }
    let (records, segments) = (counted(recovery.records, "record"), counted(recovery.segments as u64, "segment"));
    writeln!(out, "recovered   {records} in {segments}")?;
    if let Some(cut) = &recovery.cut {
        writeln!(out, "torn tail   {cut}")?;
    }
    Ok(())
}

/// Prints the addresses of the servers, and a warning for each one that other machines can reach.
pub(crate) fn tell_addresses(out: &mut dyn Write, addresses: Addresses) -> Result {
    writeln!(out, "kafka       {}", addresses.kafka)?;
    writeln!(out, "http        {}", addresses.http)?;
    writeln!(out, "grpc        {}", addresses.grpc)?;
    for address in [addresses.kafka, addresses.http, addresses.grpc] {
        if !address.ip().is_loopback() {
            writeln!(out, "note: other machines can reach {address}, and there is no authentication")?;
        }
    }
    Ok(())
}
