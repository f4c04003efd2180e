//! The log alone, as a program with `quire-log` uses it: entries of bytes under a numbered tag. No
//! model decides on them or keeps a state. Other log libraries offer the same.

use std::convert::Infallible;
use std::fs::File;
use std::hint::{black_box, spin_loop};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use quire::{Durability, ModelId, Place, Position, Sequence};
use quire_log::{Identity, Log, OpenedLog, Settings, SystemClock};
use quire_model::{Effects, EntryKind, History, NewEntry, SequenceRequest, Tag};

use super::payload::Payloads;
use super::processes::AppendArgs;
use super::reads::{again, scattered};
use super::seen;
use crate::case::CaseRun;
use crate::child::{self, CaseProcess};
use crate::measurement::{CaseResult, Recorder};
use crate::memory::memory_bytes;
use crate::room::require_room;
use crate::zeros::write_zeros;
use quire_cli::durability::DurabilityArg;
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::stopwatch::{CycleCounter, Stopwatch};

const TAG: &[u8] = b"bench";

const KIND: EntryKind = EntryKind { model: ModelId::new(0), kind: 1 };

/// Each entry takes the next number of its tag.
const NUMBERED: Option<SequenceRequest> = Some(SequenceRequest { origin: Sequence::new(1), count: 1 });

const IDENTITY: Identity = Identity { database: 1, shard: 0 };

/// The command of the other processes.
const ROLE: &str = "entry-appender";
const WATCHER: &str = "entry-watcher";

/// Most bytes of an entry of [`random_among_many`], including its share of the index.
const MANY_BYTES: u64 = 190;

/// Entries per read.
const FEW: usize = 64;

/// A log, and the entries to append.
struct Entries {
    opened: OpenedLog,
    payloads: Payloads,
    batch: usize,
}

impl Entries {
    fn open(path: &Path, durability: Durability, payload_bytes: usize, batch: usize) -> Result<Self> {
        let failed = |error| CommandError::at("create the directory of a log", error);
        std::fs::create_dir_all(path).map_err(failed)?;
        let settings = Settings { durability, ..Settings::default() };
        let opened = Log::open(path, IDENTITY, settings, Arc::new(SystemClock)).map_err(quire::Error::from)?;
        Ok(Entries { opened, payloads: Payloads::of(payload_bytes), batch })
    }

    fn of(run: &CaseRun<'_>) -> Result<Self> {
        Entries::open(&run.path, run.case.durability, run.case.payload_bytes, run.case.batch)
    }

    /// Appends one record with as many entries as the case's batch, and waits until it is durable.
    #[inline]
    fn append(&mut self) -> Result {
        append_all(&mut self.opened, self.payloads.first(self.batch))
    }
}

#[inline]
fn append_all<'p>(opened: &mut OpenedLog, payloads: impl Iterator<Item = &'p [u8]>) -> Result {
    let tags = [Tag::new(TAG)];
    let (_, mut draft) = opened.writer.begin().map_err(quire::Error::from)?;
    for payload in payloads {
        draft.push(NewEntry { kind: KIND, tags: &tags, sequenced: NUMBERED, body: &[payload] });
    }
    let appended = draft.append().map_err(quire::Error::from)?;
    Ok(opened.log.wait(appended.basis).map_err(quire::Error::from)?)
}

/// Another process that appends entries.
#[derive(Debug, Args)]
pub(crate) struct EntryAppender {
    #[command(flatten)]
    what: AppendArgs,
}

impl EntryAppender {
    /// Appends at the start signal, and reports the time of each append in nanoseconds.
    ///
    /// # Errors
    /// The errors of the log.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result {
        let AppendArgs { data, durability, ops, batch, bytes } = &self.what;
        let mut entries = Entries::open(data, (*durability).into(), *bytes, *batch)?;
        child::repeat(*ops, out, || entries.append())
    }
}

/// Another process that spins until it sees each new entry.
#[derive(Debug, Args)]
pub(crate) struct EntryWatcher {
    /// Directory of the database
    data: PathBuf,
    /// Durability of commits
    #[arg(value_enum)]
    durability: DurabilityArg,
    /// Number of entries
    entries: usize,
}

impl EntryWatcher {
    /// Sees `ops` entries, and then prints the delay of each one in nanoseconds, one per line.
    ///
    /// # Errors
    /// The errors of the log.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result {
        let Entries { mut opened, .. } = Entries::open(&self.data, self.durability.into(), 0, 1)?;
        let (mut took, counter) = (Vec::with_capacity(self.entries), CycleCounter::new());
        child::ready(out)?;
        while took.len() < self.entries {
            if opened.writer.follow().map_err(quire::Error::from)?.is_none() {
                spin_loop();
                continue;
            }
            let Ok(()) = opened.writer.take_in_appended(|entry| {
                took.push(seen::on_its_way(entry.body, &counter));
                Ok::<_, Infallible>(())
            });
        }
        took.into_iter().try_for_each(|nanos| writeln!(out, "{nanos}"))?;
        Ok(())
    }
}

/// Delay from an append to another process that spins.
pub(super) fn seen_spinning(run: &CaseRun<'_>) -> Result<CaseResult> {
    let Entries { mut opened, .. } = Entries::of(run)?;
    let watcher = CaseProcess::start(WATCHER, &run.path, run.case.durability, &[run.ops])?;
    seen::hand_over(run, watcher, seen::spin, |payload| append_all(&mut opened, std::iter::once(payload)))
}

/// Reads one entry at a time from a log of a hundred million. Their batch is that of the case.
pub(super) fn random_among_many(run: &CaseRun<'_>) -> Result<CaseResult> {
    const ENTRIES: u64 = 100_000_000;
    const RECORD: usize = 10;
    require_room(&run.path, ENTRIES * MANY_BYTES)?;
    let mut entries = Entries { batch: RECORD, ..Entries::of(run)? };
    let first = entries.opened.log.published().next();
    for op in 0..ENTRIES / RECORD as u64 {
        run.go_on(op)?;
        entries.append()?;
    }
    let reader = entries.opened.log.reader();
    let read_all = |mut recorder: Recorder| {
        for op in 0..run.ops {
            run.go_on(op)?;
            recorder.restart();
            let number = scattered(op, ENTRIES);
            let position = Position::new(first.get() + number / RECORD as u64);
            let place = Place::new(position, (number % RECORD as u64) as u32);
            let entry = reader.entry(place).map_err(|error| CommandError::new(error.to_string()))?;
            assert!(
                entry.is_some_and(|entry| black_box(entry.body).len() == run.case.payload_bytes),
                "the entry exists"
            );
            recorder.lap();
        }
        Ok(recorder)
    };
    again(read_all)
}

/// Appends records, waits for each, and reports the memory at the end.
pub(super) fn append(run: &CaseRun<'_>) -> Result<CaseResult> {
    let mut entries = Entries::of(run)?;
    for op in 0..(run.ops / 10).clamp(1, 10_000) {
        run.go_on(op)?;
        entries.append()?;
    }
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        entries.append()?;
        recorder.lap();
    }
    Ok(recorder.finish().with("memory_bytes", memory_bytes()))
}

/// Bytes of the log per record of one entry of 116 bytes.
const RECORD_BYTES: u64 = 192;

/// As [`append`], after as many zeros, whose time is reported.
pub(super) fn append_at_length(run: &CaseRun<'_>) -> Result<CaseResult> {
    let zeros = write_zeros(&run.path, run.ops * RECORD_BYTES)?;
    Ok(append(run)?.with("zeros_ns", zeros.as_nanos() as f64 / run.ops as f64))
}

/// Appends records to a `sync` log. In turn, writes and syncs as many bytes of existing blocks in
/// another file, and reports their median.
pub(super) fn append_beside_bare(run: &CaseRun<'_>) -> Result<CaseResult> {
    const ROUND: u64 = 50;
    const BLOCKS_BYTES: usize = 4 << 20;
    let mut entries = Entries::of(run)?;
    entries.append()?;
    let (before, mut at) = (entries.opened.log.appended_bytes(), 0);
    entries.append()?;
    let record = vec![b'q'; (entries.opened.log.appended_bytes() - before) as usize];
    let failed = |error| CommandError::at("write without Quire", error);
    let bare = File::create_new(run.path.join("bare")).map_err(failed)?;
    bare.write_all_at(&vec![b'q'; BLOCKS_BYTES], 0).and_then(|()| bare.sync_all()).map_err(failed)?;
    let mut bares = Latencies::new();
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        if op % ROUND == 0 {
            let mut watch = Stopwatch::start();
            for _ in 0..ROUND {
                bare.write_all_at(&record, at).and_then(|()| bare.sync_data()).map_err(failed)?;
                at = (at + record.len() as u64) % (BLOCKS_BYTES - record.len()) as u64;
                bares.record(watch.lap());
            }
            recorder.restart();
        }
        entries.append()?;
        recorder.lap();
    }
    Ok(recorder.finish().with("bare_p50_ns", bares.quantile_ns(0.5) as f64))
}

/// Reads `batch` recent entries along their tag. Each one is in a record of its own.
pub(super) fn tail(run: &CaseRun<'_>) -> Result<CaseResult> {
    let mut entries = Entries { batch: 1, ..Entries::of(run)? };
    let tags = [Tag::new(TAG)];
    let mut from = Place::START;
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        for _ in 0..run.case.batch {
            entries.append()?;
        }
        recorder.restart();
        let reader = entries.opened.log.reader();
        let (mut seen, mut found) = (0, Vec::with_capacity(FEW));
        while seen < run.case.batch {
            found.clear();
            reader.next_few(&tags, from, FEW, &mut found).map_err(|error| CommandError::new(error.to_string()))?;
            let Some(last) = found.last() else { break };
            from = last.place.after();
            seen += found.iter().filter(|entry| black_box(entry.body).len() == run.case.payload_bytes).count();
        }
        recorder.lap();
        assert_eq!(seen, run.case.batch, "every entry is seen once");
    }
    Ok(recorder.finish())
}

/// The processes of the case, with this one among them, share its operations.
pub(super) fn append_together(run: &CaseRun<'_>) -> Result<CaseResult> {
    let mut entries = Entries::of(run)?;
    entries.append()?;
    let each = run.ops.div_ceil(run.case.processes.into());
    let numbers = [each, run.case.batch as u64, run.case.payload_bytes as u64];
    let start = |_| CaseProcess::start(ROLE, &run.path, run.case.durability, &numbers);
    let others = (1..run.case.processes).map(start).collect::<Result<Vec<_>>>()?;
    let measured = child::together(run, others, each, || entries.append())?;
    entries.append()?;
    let ops = 2 + each * u64::from(run.case.processes);
    assert_eq!(entries.opened.log.published().get(), ops, "every record has a position of its own");
    Ok(measured)
}
