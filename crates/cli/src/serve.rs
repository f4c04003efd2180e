//! `quire serve`: one database, served over the Kafka protocol, HTTP and gRPC until Ctrl-C.

use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use quire::{Database, OpenedDatabase, Recovery};
use quire_access::{Forwarder, ServerTls};
use tracing::{info, warn};

use crate::cluster::{ClusterArgs, NodePlan, ServedNode};
use crate::connections::{ConnectionArgs, ServerSettings};
use crate::durability::DurabilityArg;
use crate::exposure::{ServerProtection, may_have_access_control};
use crate::failure::{CommandError, Result};
use crate::graph_memory::GraphMemoryArgs;
use crate::grpc::GrpcArgs;
use crate::http::HttpArgs;
use crate::kafka::KafkaArgs;
use crate::logging::{LogArgs, Logger};
use crate::memory::MemoryArgs;
use crate::oidc::OidcArgs;
use crate::profile::ProfileArg;
use crate::reload::Reload;
use crate::servers::{Addresses, Servers, outlive_hangups};
use crate::service_manager;
use crate::settings::{ServerSetting, SettingSource};
use crate::stop::StopReason;
use crate::stopwatch::Stopwatch;
use crate::storage::StorageArgs;
use crate::text::{counted, grouped};
use crate::tls::{TlsArgs, TlsWatch, log_certificate};
use crate::watch::{DatabaseWatch, log_damage};

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
    grpc: GrpcArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    connections: ConnectionArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    oidc: OidcArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    log: LogArgs,
    #[cfg(feature = "otlp")]
    #[command(flatten)]
    otlp: crate::otlp::OtlpArgs,
    /// Durability of commits
    #[arg(long, value_enum, default_value = "sync")]
    durability: DurabilityArg,
    /// Tuning profile
    #[arg(long, value_enum, default_value = "balanced")]
    profile: ProfileArg,
    #[command(flatten)]
    graph_memory: GraphMemoryArgs,
    #[command(flatten)]
    storage: StorageArgs,
    /// File of settings, in TOML [default: /etc/quire/quire.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What outlives a stop for other files.
struct ServeSession<'s> {
    settings: Vec<ServerSetting>,
    logger: &'s Logger,
    #[cfg(feature = "otlp")]
    export: &'s mut Option<crate::otlp::OtlpExport>,
}

/// Why a server has stopped.
enum ServeEnd {
    Stopped,
    /// The node needs all files of the leader. These are addresses of nodes.
    NeedsFiles(Vec<String>),
}

/// Smallest allocation, in bytes, that is returned to the system when it is freed. Most requests
/// and responses are smaller, and the largest are many times larger.
const LARGE_BYTES: usize = 4 << 20;

impl Serve {
    /// Serves with these settings. `settings` are the same, with the source of each.
    pub(crate) fn run(self, settings: Vec<ServerSetting>, out: &mut dyn Write) -> Result {
        outlive_hangups()?;
        // Where the allocator has no such setting, the server keeps freed memory.
        let _ = quire_mapped::give_back_large(LARGE_BYTES);
        self.check()?;
        let tls = self.tls.load()?;
        // A node that joins gets the access rules with its files.
        let joins = self.cluster.joins(&self.data)?;
        if !joins {
            self.check_exposure(tls.as_ref())?;
        }
        #[cfg(feature = "otlp")]
        let mut export = self.otlp.start()?;
        #[cfg(feature = "otlp")]
        let layers = export.iter().map(crate::otlp::OtlpExport::layer).collect();
        #[cfg(not(feature = "otlp"))]
        let layers = Vec::new();
        let logger = self.log.start(layers)?;
        log_start(&settings);
        let mut plan = self.cluster.plan(&self.data, self.tls.settings()?)?;
        if joins {
            self.check_exposure(tls.as_ref())?;
        }
        let mut session = ServeSession {
            settings,
            logger: &logger,
            #[cfg(feature = "otlp")]
            export: &mut export,
        };
        let mut ended = self.serve(plan.as_mut(), tls, &mut session, out)?;
        while let (ServeEnd::NeedsFiles(addresses), Some(known)) = (ended, &plan) {
            writeln!(out, "the leader no longer has the next records of this node: receiving its files")?;
            out.flush()?;
            let mut again = known.after_files(&addresses);
            again.receive(&self.data)?;
            plan = Some(again);
            let tls = self.tls.load()?;
            self.check_exposure(tls.as_ref())?;
            ended = self.serve(plan.as_mut(), tls, &mut session, out)?;
        }
        #[cfg(feature = "otlp")]
        export.into_iter().for_each(crate::otlp::OtlpExport::end);
        Ok(())
    }

    /// Checks that no address gives other machines access without protection.
    fn check_exposure(&self, tls: Option<&Arc<ServerTls>>) -> Result {
        self.addresses.check(tls, self.protection(may_have_access_control(&self.data)))
    }

    /// Serves the database once, until the server is stopped or the node needs other files.
    fn serve(
        &self,
        mut plan: Option<&mut NodePlan>,
        tls: Option<Arc<ServerTls>>,
        session: &mut ServeSession<'_>,
        out: &mut dyn Write,
    ) -> Result<ServeEnd> {
        let served = Stopwatch::start();
        let tokens = self.oidc.load()?;
        let mut builder = Database::builder(&self.data).settings(self.database_settings());
        if plan.is_some() {
            builder = builder.member(true);
        }
        let opening_watch = Stopwatch::start();
        let opening = self.graph_memory.of_server(builder).open_and_report()?;
        log_recovery(&opening, opening_watch.elapsed());
        let OpenedDatabase { database, recovery, .. } = opening;
        plan.iter_mut().try_for_each(|plan| plan.settle(&database, &self.data))?;
        log_mode(&self.data);
        if let Some(tls) = &tls {
            log_certificate(tls);
        }
        let (forwarding, settings) = (Forwarder::default(), self.server_settings()?);
        let forwards = plan.is_some().then_some(&forwarding);
        let servers = Servers::start(&database, Some(&self.data), &self.addresses, settings, tls, tokens, forwards)?;
        let node = plan.map(|plan| plan.start(&database, &self.data, servers.addresses(), &forwarding)).transpose()?;
        #[cfg(feature = "otlp")]
        session.export.iter_mut().for_each(|export| export.export_metrics(servers.metrics()));
        let has_access_control = database.access().rules().is_enabled();
        log_addresses(servers.addresses(), has_access_control);
        writeln!(out, "data        {}", self.data.display())?;
        tell_recovery(out, &recovery)?;
        match &node {
            // A node that does not lead yet does not read its state for others.
            Some(node) => writeln!(out, "cluster     node {} on {}", node.status().node, node.address())?,
            None => tell_hidden(out, &database)?,
        }
        writeln!(out, "durability  {}", database.durability())?;
        tell_addresses(out, servers.addresses(), has_access_control)?;
        if self.http.has_dashboard() {
            tell_dashboard(out, servers.addresses())?;
        }
        writeln!(out, "serving until Ctrl-C")?;
        out.flush()?;
        let status = format!("serving {}", self.data.display());
        service_manager::report_ready(&status);
        let mut watch =
            DatabaseWatch::new(database.clone(), servers.traffic(), servers.kafka_counters(), recovery.damage.len());
        let slow_sync = Cell::new(self.log.slow_sync());
        let logger = session.logger;
        let mut reload = Reload {
            settings: &mut session.settings,
            logger,
            slow_sync: &slow_sync,
            servers: &servers,
            database: &database,
        };
        let mut tls_watch = TlsWatch::new(servers.tls().cloned());
        let mut had_access_control = has_access_control;
        let look = || {
            watch.look(slow_sync.get());
            tls_watch.look();
            logger.report_repeated();
            let has_access_control = database.access().rules().is_enabled();
            if had_access_control && !has_access_control {
                servers.stop_because(StopReason::AccessDisabled);
            }
            had_access_control |= has_access_control;
            if node.as_ref().is_some_and(|node| node.failure().is_some()) {
                servers.stop_because(StopReason::NodeFailed);
            }
        };
        let reload = || {
            service_manager::report_reload();
            reload.run();
            service_manager::report_ready(&status);
        };
        let reason = servers.wait_with_reload(look, reload)?;
        service_manager::report_stop();
        let stop = Stopwatch::start();
        info!(target: TARGET, %reason, served_s = served.elapsed().as_secs(), "stopping");
        let failure = node.as_ref().and_then(ServedNode::failure);
        let needs_files = node.as_ref().and_then(ServedNode::addresses_of_files);
        node.iter().for_each(ServedNode::hand_over);
        let stopped = servers.stop();
        node.into_iter().for_each(ServedNode::stop);
        watch.look(slow_sync.get());
        drop(watch);
        #[cfg(feature = "otlp")]
        session.export.iter_mut().for_each(crate::otlp::OtlpExport::end_metrics);
        let commits = database.statistics().commits;
        // Closing syncs and saves the state. The message follows the close.
        drop(database);
        info!(target: TARGET, commits, stop_ms = millis(stop.elapsed()), "stopped");
        stopped?;
        writeln!(out, "stopped after {}", counted(commits, "commit"))?;
        match reason {
            StopReason::AccessDisabled => Err(CommandError::new(
                "access control was disabled: the server stopped, so that it lets nobody in unasked; start it again on \
                 loopback, or with --insecure-listen, to serve everybody",
            )),
            StopReason::NodeFailed => match needs_files {
                Some(addresses) => Ok(ServeEnd::NeedsFiles(addresses)),
                None => Err(CommandError::new(format!(
                    "the node of the cluster has stopped: {}",
                    failure.unwrap_or_default()
                ))),
            },
            StopReason::Interrupt | StopReason::Terminate | StopReason::Program => Ok(ServeEnd::Stopped),
        }
    }

    /// The protection of the servers without their TLS.
    pub(crate) fn protection(&self, has_access_control: bool) -> ServerProtection<'_> {
        ServerProtection { requires_certificates: None, has_access_control, data: Some(&self.data) }
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// When a setting is invalid. The message names each one.
    pub(crate) fn check(&self) -> Result {
        let database = self.database_settings().validate().map_err(CommandError::from);
        let connections = self.connections.add(&mut ServerSettings::default());
        let (kafka, http) = (self.kafka.settings().map(drop), self.http.settings().map(drop));
        let advertised = self.kafka.check_advertised(self.addresses.kafka.len());
        let (tls, oidc) = (self.tls.settings().map(drop), self.oidc.settings().map(drop));
        let cluster = self.cluster.check();
        let checked =
            [cluster, kafka, advertised, http, self.grpc.settings().map(drop), connections, tls, oidc, database];
        let problems = checked.into_iter().filter_map(|checked| match checked {
            Err(CommandError::Message(problem)) => Some(problem),
            _ => None,
        });
        let problems: Vec<_> = problems.collect();
        if problems.is_empty() { Ok(()) } else { Err(CommandError::new(problems.join("; "))) }
    }

    /// The settings of the servers.
    ///
    /// # Errors
    /// When a setting is invalid. The message names each one.
    pub(crate) fn server_settings(&self) -> Result<ServerSettings> {
        let (kafka, http, grpc) = (self.kafka.settings()?, self.http.settings()?, self.grpc.settings()?);
        let mut settings = ServerSettings { kafka, http, grpc, budget: self.memory.budget() };
        self.connections.add(&mut settings)?;
        Ok(settings)
    }

    /// The TLS settings.
    pub(crate) fn tls(&self) -> &TlsArgs {
        &self.tls
    }

    /// The log settings.
    pub(crate) fn log(&self) -> &LogArgs {
        &self.log
    }

    fn database_settings(&self) -> quire::Settings {
        let mut settings = quire::Settings::of(self.profile.into());
        settings.durability = Some(self.durability.into());
        self.storage.apply(&mut settings);
        settings
    }
}

/// Warns once of a directory that other users of the machine can open.
fn log_mode(data: &Path) {
    if let Ok(Some(mode)) = quire::tools::open_to_others(data) {
        let data = data.display();
        warn!(target: TARGET, "other users can open {data} (mode {mode:o}): run `chmod -R go= {data}`");
    }
}

/// Logs the start, with the settings that are not defaults.
fn log_start(settings: &[ServerSetting]) {
    let (version, commit, pid) = (env!("CARGO_PKG_VERSION"), env!("QUIRE_COMMIT"), std::process::id());
    let given = settings.iter().filter(|setting| setting.source != SettingSource::Default);
    let given: Vec<_> = given.map(|setting| format!("{} ({})", setting.line(), setting.source)).collect();
    info!(target: TARGET, version, commit, pid, settings = given.join(", "), "starting");
}

/// The target of the server's own events.
const TARGET: &str = "quire::server";

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Logs the result of opening the database.
fn log_recovery(opening: &OpenedDatabase, took: Duration) {
    let OpenedDatabase { recovery, replayed, .. } = opening;
    let (records, segments) = (recovery.records, recovery.segments as u64);
    let after = match *replayed {
        0 => String::new(),
        replayed => format!(", {} of them after the last checkpoint", grouped(replayed)),
    };
    let (records_text, segments_text) = (counted(records, "record"), counted(segments, "segment"));
    let ms = millis(took);
    info!(target: TARGET, records, segments, replayed, ms, "recovered {records_text} in {segments_text}{after}, in {ms} ms");
    if let Some(cut) = &recovery.cut {
        warn!(target: TARGET, cut = %cut, "cut a torn tail");
    }
    recovery.damage.iter().for_each(log_damage);
}

/// Logs the addresses of the servers. An address that other machines can reach without credentials
/// is a warning.
fn log_addresses(addresses: &Addresses, has_access_control: bool) {
    for (flag, address) in addresses.all() {
        let front_end = flag.trim_start_matches('-');
        match address.is_open() && !has_access_control {
            false => info!(target: TARGET, front_end, %address, "listening"),
            true => {
                warn!(target: TARGET, front_end, %address, "listening without authentication; other machines can reach it");
            }
        }
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

/// Most hidden objects that are named.
const HIDDEN_TOLD_MAX: usize = 16;

/// Warns of objects that Kafka clients do not see, because another object has their topic name.
fn tell_hidden(out: &mut dyn Write, database: &Database) -> Result {
    let hidden = database.read_published(|view| view.hidden_objects())?;
    for object in hidden.iter().take(HIDDEN_TOLD_MAX) {
        warn!(target: TARGET, "{object}");
        writeln!(out, "warning     {object}")?;
    }
    match hidden.len().saturating_sub(HIDDEN_TOLD_MAX) {
        0 => {}
        others => writeln!(out, "warning     Kafka clients do not see {others} other objects either")?,
    }
    Ok(())
}

/// Prints the addresses of the servers, and a warning for each one that other machines can reach
/// without credentials, or to which they send them in the clear.
pub(crate) fn tell_addresses(out: &mut dyn Write, addresses: &Addresses, has_access_control: bool) -> Result {
    for (flag, address) in addresses.all() {
        writeln!(out, "{:12}{address}", flag.trim_start_matches('-'))?;
    }
    for (_, address) in addresses.all() {
        if address.is_open() && !has_access_control {
            writeln!(out, "note: other machines can reach {address}, and there is no authentication")?;
        } else if address.is_in_clear() {
            writeln!(out, "note: other machines can reach {address}, and send their API keys without TLS")?;
        }
    }
    Ok(())
}

/// Prints the address of the dashboard for a browser on this machine.
pub(crate) fn tell_dashboard(out: &mut dyn Write, addresses: &Addresses) -> Result {
    match addresses.http.url() {
        Some(url) => Ok(writeln!(out, "dashboard   {url}/")?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Parser)]
    struct Arguments {
        #[command(flatten)]
        serve: Serve,
    }

    /// The settings of the database with this flag.
    fn settings(flag: &str, value: &str) -> serde_json::Value {
        let arguments = Arguments::try_parse_from(["serve", "--data", "d", &format!("--{flag}={value}")]);
        serde_json::to_value(arguments.expect("valid").serve.database_settings()).expect("JSON")
    }

    #[test]
    fn every_storage_flag_sets_the_field_of_its_name() {
        for flag in [
            "compress-bytes-min",
            "log-bytes-max",
            "segment-bytes",
            "commit-bytes-max",
            "sync-interval-ms",
            "checkpoint-bytes",
            "checkpoint-pause-bytes",
            "history-ms",
            "compact-interval-ms",
            "compact-percent-min",
            "compact-keys-max",
            "segments-open-max",
            "unpacked-bytes-max",
            "scrub-bytes-per-second",
            "partitions-max",
            "groups-max",
            "offset-bytes-max",
            "stores-max",
            "queues-max",
            "graphs-max",
            "request-steps-max",
        ] {
            let field = flag.replace('-', "_");
            assert_eq!(settings(flag, "77")[&field], json!(77), "{flag}");
            assert_ne!(settings("durability", "sync")[&field], json!(77), "{flag}");
        }
        assert_eq!(settings("pack-segments", "true")["pack_segments"], json!(true));
        assert_eq!(settings("durability", "os")["durability"], json!("os"));
    }

    #[test]
    fn every_invalid_setting_is_reported_at_once() {
        let arguments =
            ["serve", "--data=d", "--segment-bytes=17", "--checkpoint-bytes=18", "--kafka-idle-timeout-ms=0"];
        let serve = Arguments::try_parse_from(arguments).expect("numbers").serve;
        let Err(CommandError::Message(message)) = serve.check() else { panic!("invalid settings") };
        for problem in ["segment_bytes must be", "checkpoint_bytes must be", "idle_timeout_ms must be"] {
            assert!(message.contains(problem), "{problem}: {message}");
        }
    }
}
