//! The log alone, as a program that embeds `quire-log` has it: entries of bytes under a tag that numbers them, without a model that
//! decides on them or keeps a state of them. What other logs that are libraries offer is no more than this.

use std::convert::Infallible;
use std::fs::File;
use std::hint::{black_box, spin_loop};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use quire::{Durability, ModelId, Place, Position, Sequence};
use quire_log::{Identity, Log, Opened, Settings, SystemClock};
use quire_model::{Effects, EntryKind, History, NewEntry, Sequenced, Tag};

use super::payload::Payloads;
use super::processes::Appending;
use super::reads::{again, scattered};
use super::seen;
use crate::bench::case::Run;
use crate::bench::child::{self, Other};
use crate::bench::measurement::{Measured, Recorder};
use crate::bench::memory::memory_bytes;
use crate::bench::room::require_room;
use crate::bench::zeros::write_zeros;
use crate::failure::{Failure, Result};
use crate::latencies::Latencies;
use crate::promise::Promise;
use crate::stopwatch::{Counter, Stopwatch};

const TAG: &[u8] = b"bench";

const KIND: EntryKind = EntryKind { model: ModelId::new(0), kind: 1 };

/// Each takes the next number of its tag.
const NUMBERED: Option<Sequenced> = Some(Sequenced { origin: Sequence::new(1), count: 1 });

const IDENTITY: Identity = Identity { database: 1, shard: 0 };

/// What the other processes run.
const ROLE: &str = "entry-appender";
const WATCHER: &str = "entry-watcher";

/// What an entry of [`random_among_many`] takes at most, its share of the index included, in bytes.
const MANY_BYTES: u64 = 190;

/// How many entries a reader asks for at a time.
const FEW: usize = 64;

/// A log, and what is appended to it.
struct Entries {
    opened: Opened,
    payloads: Payloads,
    batch: usize,
}

impl Entries {
    fn open(path: &Path, durability: Durability, payload_bytes: usize, batch: usize) -> Result<Self> {
        let failed = |error| Failure::at("make the folder of a log", error);
        std::fs::create_dir_all(path).map_err(failed)?;
        let settings = Settings { durability, ..Settings::default() };
        let opened = Log::open(path, IDENTITY, settings, Arc::new(SystemClock)).map_err(quire::Error::from)?;
        Ok(Entries { opened, payloads: Payloads::of(payload_bytes), batch })
    }

    fn of(run: &Run<'_>) -> Result<Self> {
        Entries::open(&run.path, run.case.durability, run.case.payload_bytes, run.case.batch)
    }

    /// Appends one record of as many entries as the case has in a batch, and waits until it is kept.
    #[inline]
    fn append(&mut self) -> Result {
        append_all(&mut self.opened, self.payloads.first(self.batch))
    }
}

#[inline]
fn append_all<'p>(opened: &mut Opened, payloads: impl Iterator<Item = &'p [u8]>) -> Result {
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
    what: Appending,
}

impl EntryAppender {
    /// Appends so often when it is told to, and says how many nanoseconds each time took.
    ///
    /// # Errors
    /// What the log fails with.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result {
        let Appending { data, durability, ops, batch, bytes } = &self.what;
        let mut entries = Entries::open(data, (*durability).into(), *bytes, *batch)?;
        child::repeat(*ops, out, || entries.append())
    }
}

/// Another process that looks all the time whether there is an entry that it has not seen.
#[derive(Debug, Args)]
pub(crate) struct EntryWatcher {
    /// The database
    data: PathBuf,
    /// What its commits promise
    #[arg(value_enum)]
    durability: Promise,
    /// How many entries it sees
    entries: usize,
}

impl EntryWatcher {
    /// Sees so many entries, and then says how many nanoseconds each was on its way, a line each.
    ///
    /// # Errors
    /// What the log fails with.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result {
        let Entries { mut opened, .. } = Entries::open(&self.data, self.durability.into(), 0, 1)?;
        let (mut took, counter) = (Vec::with_capacity(self.entries), Counter::new());
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

/// To another process that looks all the time.
pub(super) fn seen_spinning(run: &Run<'_>) -> Result<Measured> {
    let Entries { mut opened, .. } = Entries::of(run)?;
    let watcher = Other::start(WATCHER, &run.path, run.case.durability, &[run.ops])?;
    seen::hand_over(run, watcher, seen::spin, |payload| append_all(&mut opened, std::iter::once(payload)))
}

/// Reads one entry at a time, all over a log of a hundred million, which were appended as many at a time as the case has in a batch.
pub(super) fn random_among_many(run: &Run<'_>) -> Result<Measured> {
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
            let entry = reader.entry(place).map_err(|error| Failure::new(error.to_string()))?;
            assert!(entry.is_some_and(|entry| black_box(entry.body).len() == run.case.payload_bytes), "it is there");
            recorder.lap();
        }
        Ok(recorder)
    };
    again(read_all)
}

/// Appends records, each waited for; with the memory that is taken in the end.
pub(super) fn append(run: &Run<'_>) -> Result<Measured> {
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

/// What a record of one entry of 116 bytes takes of a log.
const RECORD_BYTES: u64 = 192;

/// As [`append`], behind as many zeros, of which is told what they took.
pub(super) fn append_at_length(run: &Run<'_>) -> Result<Measured> {
    let zeros = write_zeros(&run.path, run.ops * RECORD_BYTES)?;
    Ok(append(run)?.with("zeros_ns", zeros.as_nanos() as f64 / run.ops as f64))
}

/// Appends records to a `sync` log, and in turn, as many at a time, writes and syncs as many bytes of blocks that were written before, in a
/// file beside it: the median of those is told, too.
pub(super) fn append_beside_bare(run: &Run<'_>) -> Result<Measured> {
    const ROUND: u64 = 50;
    const BLOCKS_BYTES: usize = 4 << 20;
    let mut entries = Entries::of(run)?;
    entries.append()?;
    let (before, mut at) = (entries.opened.log.appended_bytes(), 0);
    entries.append()?;
    let record = vec![b'q'; (entries.opened.log.appended_bytes() - before) as usize];
    let failed = |error| Failure::at("write without Quire", error);
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

/// Reads along the tag what was appended a moment ago, in records of one entry each, so many in a row.
pub(super) fn tail(run: &Run<'_>) -> Result<Measured> {
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
            reader.next_few(&tags, from, FEW, &mut found).map_err(|error| Failure::new(error.to_string()))?;
            let Some(last) = found.last() else { break };
            from = last.place.after();
            seen += found.iter().filter(|entry| black_box(entry.body).len() == run.case.payload_bytes).count();
        }
        recorder.lap();
        assert_eq!(seen, run.case.batch, "every entry is seen once");
    }
    Ok(recorder.finish())
}

/// As many processes as the case has, this one among them, share its operations.
pub(super) fn append_together(run: &Run<'_>) -> Result<Measured> {
    let mut entries = Entries::of(run)?;
    entries.append()?;
    let each = run.ops.div_ceil(run.case.processes.into());
    let numbers = [each, run.case.batch as u64, run.case.payload_bytes as u64];
    let start = |_| Other::start(ROLE, &run.path, run.case.durability, &numbers);
    let others = (1..run.case.processes).map(start).collect::<Result<Vec<_>>>()?;
    let measured = child::together(run, others, each, || entries.append())?;
    entries.append()?;
    let ops = 2 + each * u64::from(run.case.processes);
    assert_eq!(entries.opened.log.published().get(), ops, "every record has a position of its own");
    Ok(measured)
}
