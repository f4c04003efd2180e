//! The log of a server: lines on standard error, as text or as JSON.
//!
//! ```text
//! tracing event ─▶ filter: level by target ─▶ repeats: print, or count ─▶ line ─▶ queue
//!                                                                                    │
//!                                                              standard error ◀─ thread
//! ```
//!
//! * A line is one line: control characters in names are escaped, so a name cannot forge a line.
//! * A repeated line is counted, and reported once for each [`WINDOW_MS`](repeats::WINDOW_MS).
//! * A thread writes the lines. A reader of standard error that is slow stops no request; lines
//!   beyond the queue are counted as lost.
//!
//! Only events with a target of [`TARGETS`](filter::TARGETS) are printed. Events of dependencies
//! may contain what clients sent.

mod fields;
mod filter;
mod line;
mod repeats;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Args, ValueEnum};
use quire::{Clock, SystemClock};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::{Registry, reload};

use crate::failure::{CommandError, Result};
use fields::LineFields;
pub(crate) use filter::LogFilter;
use line::{LogLine, Summary};
use repeats::{LineVerdict, Repeats};
use writer::LineWriter;

/// A layer of the subscriber of this process.
pub(crate) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The flags of the log.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Log level, or levels by target, like `warn,http=debug`
    #[arg(long = "log", value_name = "FILTER", default_value = "info")]
    filter: LogFilter,
    /// Format of a line of the log
    #[arg(long = "log-format", value_enum, default_value = "text")]
    format: LogFormat,
    /// Shortest sync, in milliseconds, that the log reports as slow
    #[arg(long = "log-slow-sync-ms", value_name = "MS", default_value_t = 1_000)]
    slow_sync_ms: u64,
}

impl LogArgs {
    /// Starts the log of this process, with other layers for the same events and spans.
    ///
    /// # Errors
    /// As [`Logger::start`].
    pub(crate) fn start(&self, others: Vec<BoxedLayer>) -> Result<Logger> {
        Logger::start(&self.filter, self.format, others)
    }

    /// The filter.
    pub(crate) fn filter(&self) -> &LogFilter {
        &self.filter
    }

    /// The format.
    pub(crate) fn format(&self) -> LogFormat {
        self.format
    }

    /// The shortest sync that is slow.
    pub(crate) fn slow_sync(&self) -> Duration {
        Duration::from_millis(self.slow_sync_ms)
    }
}

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Time, level, target, message, and fields as `name=value`
    Text,
    /// One JSON object
    Json,
}

/// The log of this process. Dropping it writes the remaining lines.
#[derive(Debug)]
pub(crate) struct Logger {
    lines: Arc<Lines>,
    filter: reload::Handle<tracing_subscriber::filter::Targets, Registry>,
}

/// The layer of the log, shared with its owner.
#[derive(Debug)]
struct Lines {
    is_json: AtomicBool,
    clock: SystemClock,
    repeats: Mutex<Repeats>,
    writer: LineWriter,
}

impl Logger {
    /// Starts the log of this process, with other layers for the same events and spans.
    ///
    /// # Errors
    /// When this process has a log already, or the system has no thread left.
    pub(crate) fn start(filter: &LogFilter, format: LogFormat, mut layers: Vec<BoxedLayer>) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| CommandError::at("start the log", error);
        let writer = LineWriter::start(std::io::stderr).map_err(|error| failed(&error))?;
        let lines = Arc::new(Lines {
            is_json: AtomicBool::new(format == LogFormat::Json),
            clock: SystemClock,
            repeats: Mutex::default(),
            writer,
        });
        let (targets, filter) = reload::Layer::new(filter.targets());
        layers.push(LineLayer(Arc::clone(&lines)).with_filter(targets).boxed());
        let subscriber = Registry::default().with(layers);
        tracing::subscriber::set_global_default(subscriber).map_err(|error| failed(&error))?;
        Ok(Logger { lines, filter })
    }

    /// Replaces the filter.
    pub(crate) fn set_filter(&self, filter: &LogFilter) {
        // It fails only when the layers are gone, and the process keeps them until its end.
        let _ = self.filter.reload(filter.targets());
    }

    /// Replaces the format of further lines.
    pub(crate) fn set_format(&self, format: LogFormat) {
        self.lines.is_json.store(format == LogFormat::Json, Ordering::Relaxed);
    }

    /// Reports lines that were counted as repeated, once their time is over. Call it once a second.
    pub(crate) fn report_repeated(&self) {
        let now_ms = self.lines.now_ms();
        let ended = self.lines.repeats().ended(now_ms);
        self.lines.summarise(now_ms, &ended);
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        let now_ms = self.lines.now_ms();
        let rest = self.lines.repeats().end_all(now_ms);
        self.lines.summarise(now_ms, &rest);
        self.lines.writer.end();
    }
}

impl Lines {
    fn now_ms(&self) -> u64 {
        self.clock.now().as_millis()
    }

    fn format(&self) -> LogFormat {
        if self.is_json.load(Ordering::Relaxed) { LogFormat::Json } else { LogFormat::Text }
    }

    fn repeats(&self) -> std::sync::MutexGuard<'_, Repeats> {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn summarise(&self, now_ms: u64, ended: &[repeats::EndedWindow]) {
        for ended in ended {
            let summary = Summary { lines: ended.held, seconds: ended.ms.div_ceil(1_000) };
            let line = LogLine {
                time_ms: now_ms,
                level: *ended.metadata.level(),
                target: ended.metadata.target(),
                message: &ended.message,
                fields: &[],
                summary: Some(summary),
            };
            self.writer.write(line.in_format(self.format()));
        }
    }
}

struct LineLayer(Arc<Lines>);

impl<S: Subscriber> Layer<S> for LineLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let lines = &*self.0;
        let metadata = event.metadata();
        let fields = LineFields::of(event);
        let now_ms = lines.now_ms();
        let verdict = lines.repeats().note(now_ms, metadata, &fields);
        let ended = match verdict {
            LineVerdict::Hold => return,
            LineVerdict::Print { ended } => ended,
        };
        lines.summarise(now_ms, ended.as_slice());
        let line = LogLine {
            time_ms: now_ms,
            level: *metadata.level(),
            target: metadata.target(),
            message: fields.message(),
            fields: fields.named(),
            summary: None,
        };
        lines.writer.write(line.in_format(lines.format()));
    }
}
