//! `quire serve`: one database, served over the Kafka protocol, HTTP and gRPC until Ctrl-C.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use quire::{Builder, Database, Recovery};

use crate::failure::Result;
use crate::graph_memory::Bound;
use crate::http::Http;
use crate::kafka::Kafka;
use crate::opening::open;
use crate::profile::Profile;
use crate::promise::Promise;
use crate::servers::{Addresses, Servers};
use crate::text::counted;

/// What `quire serve` takes.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The folder of the database; a new or empty one becomes a database
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    addresses: Addresses,
    #[command(flatten)]
    kafka: Kafka,
    #[command(flatten)]
    http: Http,
    /// When a commit counts as kept
    #[arg(long, value_enum, default_value = "sync")]
    durability: Promise,
    /// What it is to be good at
    #[arg(long, value_enum, default_value = "balanced")]
    profile: Profile,
    #[command(flatten)]
    graph_memory: Bound,
    /// Whether segments that are compacted are packed: JSON takes about a quarter of the disk, and reads of what is old unpack it;
    /// what is packed stays packed [default: as the profile says]
    #[arg(long, value_name = "BOOL")]
    pack_segments: Option<bool>,
    /// From how many bytes on a record batch is compressed, where its topic says a codec; what Kafka's clients send stays as it came
    /// [default: as the profile says]
    #[arg(long, value_name = "BYTES")]
    compress_bytes_min: Option<usize>,
    /// How many bytes of the disk the log takes, as far as topics can let go of their oldest records [default: no bound]
    #[arg(long, value_name = "BYTES")]
    log_bytes_max: Option<u64>,
}

/// From how many bytes on memory goes back to the system when it is freed: more than most requests and answers have, and a fraction
/// of the largest.
const LARGE_BYTES: usize = 4 << 20;

impl Serve {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        // Where it can't be had the server keeps more than it uses, as any other does.
        let _ = quire_mapped::give_back_large(LARGE_BYTES);
        let (kafka, http) = (self.kafka.settings()?, self.http.settings()?);
        self.addresses.check()?;
        let builder = Database::builder(&self.data).durability(self.durability.into()).profile(self.profile.into());
        let builder = said(self.pack_segments, builder, Builder::pack_segments);
        let builder = said(self.compress_bytes_min, builder, Builder::compress_bytes_min);
        let builder = said(self.log_bytes_max, builder, Builder::log_bytes_max);
        let opening = open(self.graph_memory.of(builder))?;
        let database = opening.database;
        let servers = Servers::start(&database, self.addresses, kafka, http)?;
        writeln!(out, "data        {}", self.data.display())?;
        tell_recovery(out, &opening.recovery)?;
        writeln!(out, "durability  {}", database.durability())?;
        tell_addresses(out, servers.addresses())?;
        writeln!(out, "serving until Ctrl-C")?;
        out.flush()?;
        servers.wait(&database, opening.recovery.damage.len());
        let stopped = servers.stop();
        let commits = database.statistics().commits;
        // Closing syncs and saves the state, so it is closed before anyone is told that it is.
        drop(database);
        stopped?;
        Ok(writeln!(out, "stopped after {}", counted(commits, "commit"))?)
    }
}

/// With a setting, if it is said.
fn said<T>(value: Option<T>, builder: Builder, set: fn(Builder, T) -> Builder) -> Builder {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

/// What opening the database found.
fn tell_recovery(out: &mut dyn Write, recovery: &Recovery) -> Result {
    if let Recovery { records: 0, segments: 0, cut: None, .. } = recovery {
        return Ok(writeln!(out, "recovered   nothing: no record is there")?);
    }
    let (records, segments) = (counted(recovery.records, "record"), counted(recovery.segments as u64, "segment"));
    writeln!(out, "recovered   {records} in {segments}")?;
    if let Some(cut) = &recovery.cut {
        writeln!(out, "torn tail   {cut}")?;
    }
    Ok(())
}

/// Where the servers are, and a warning when others can reach them.
pub(crate) fn tell_addresses(out: &mut dyn Write, addresses: Addresses) -> Result {
    writeln!(out, "kafka       {}", addresses.kafka)?;
    writeln!(out, "http        {}", addresses.http)?;
    writeln!(out, "grpc        {}", addresses.grpc)?;
    for address in [addresses.kafka, addresses.http, addresses.grpc] {
        if !address.ip().is_loopback() {
            writeln!(out, "note: {address} can be reached from other machines, and there is no authentication")?;
        }
    }
    Ok(())
}
