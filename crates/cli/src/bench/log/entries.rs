//! The log alone, as a program that embeds `quire-log` has it: entries of bytes under a tag that numbers them, without a model that
//! decides on them or keeps a state of them. What other logs that are libraries offer is no more than this.

use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use quire::{Durability, ModelId, Place, Sequence};
use quire_log::{Identity, Log, Opened, Settings, SystemClock};
use quire_model::{Effects, EntryKind, History, NewEntry, Sequenced, Tag};

use super::payload::Payloads;
use super::processes::Appending;
use crate::bench::case::Run;
use crate::bench::child::{self, Other};
use crate::bench::measurement::{Measured, Recorder};
use crate::bench::memory::memory_bytes;
use crate::failure::{Failure, Result};

const TAG: &[u8] = b"bench";

const KIND: EntryKind = EntryKind { model: ModelId::new(0), kind: 1 };

/// Each takes the next number of its tag.
const NUMBERED: Option<Sequenced> = Some(Sequenced { origin: Sequence::new(1), count: 1 });

const IDENTITY: Identity = Identity { database: 1, shard: 0 };

/// What the other processes run.
const ROLE: &str = "entry-appender";

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
    fn append(&mut self) -> Result {
        let tags = [Tag::new(TAG)];
        let (_, mut draft) = self.opened.writer.begin().map_err(quire::Error::from)?;
        for payload in self.payloads.first(self.batch) {
            draft.push(NewEntry { kind: KIND, tags: &tags, sequenced: NUMBERED, body: &[payload] });
        }
        let appended = draft.append().map_err(quire::Error::from)?;
        Ok(self.opened.log.wait(appended.at.position).map_err(quire::Error::from)?)
    }
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
