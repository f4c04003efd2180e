//! The tagged log: one totally ordered sequence of records on disk, readable by place and along
//! tags.
//!
//! ```text
//! Writer::begin ─▶ Draft (Effects) ─▶ append ─▶ segment bytes, tag index, tail ─▶ publish ─▶ Reader (History)
//!                                                        │                            ▲
//!                                                        └─ Syncer: fdatasync ────────┘  (sync shards)
//! ```
//!
//! * [`Log`] is the shared side: readers, waiting for tickets, syncing, checkpoints. It is cheap to
//!   clone.
//! * [`Writer`] is the one appender. Its holder decides which record comes next; it is not `Clone`.
//! * A record is visible to [`Log::reader`] once it is *published*. An `os` log publishes it at
//!   once, and a `sync` log after the sync that covers it. The writer's own [`Reader`] sees every
//!   appended record.
//!
//! # Example
//! This example appends entries under a tag that numbers them, and reads them back along the tag:
//! ```
//! use std::sync::Arc;
//! use quire_log::{Identity, Log, OpenedLog, Settings, SystemClock};
//! use quire_model::{Effects, EntryKind, History, ModelId, NewEntry, Place, Sequence, SequenceRequest, Tag};
//!
//! let folder = tempfile::tempdir()?;
//! let (identity, clock) = (Identity { database: 1, shard: 0 }, Arc::new(SystemClock));
//! let OpenedLog { log, mut writer, .. } = Log::open(folder.path(), identity, Settings::default(), clock)?;
//! let (kind, tags) = (EntryKind { model: ModelId::new(9), kind: 1 }, [Tag::new(b"readings")]);
//! for reading in [b"21.5", b"21.7"] {
//!     let (_, mut draft) = writer.begin()?;
//!     let sequenced = Some(SequenceRequest { origin: Sequence::new(1), count: 1 });
//!     draft.push(NewEntry { kind, tags: &tags, sequenced, body: &[reading] });
//!     let appended = draft.append()?;
//!     log.wait(appended.basis)?;
//! }
//! let reader = log.reader();
//! let first = reader.next(&tags, Place::START)?.expect("two were appended");
//! let second = reader.next(&tags, first.place.after())?.expect("two were appended");
//! assert_eq!((first.body, second.body), (&b"21.5"[..], &b"21.7"[..]));
//! assert_eq!(second.sequence, Some(Sequence::new(2)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//! * Bytes below the tail never change.
//! * A position is given once, unless a [truncation](Writer::truncate_after) removes its record.
//! * Records are appended whole or not at all.
//! * On open, every record of a segment without a sealed index is verified. `docs/file-format.md`
//!   lists the damage that opening cuts off, and the damage that it refuses.
//! * A record of a sealed segment is verified when it is first read.
//! * After a failed sync the log acknowledges and appends nothing. It has to be opened again.
//!
//! # Out of scope
//! This crate has no knowledge of any model.

mod components;
mod error;
mod identity;
mod mark;
mod settings;
mod time;

// The handle that users hold: it wires everything below.
mod log;

// A write: the turn, the record, its sync, its publication.
mod processes;

mod append;

mod durable;

// A read.
mod read;

// The files that writes and reads use: records in segments, sealed with an index, packed.
mod record;

mod segment;

mod sealed;

mod packed;

mod storage;

mod checksum;
mod search;

// Opening again, freeing space, measuring, and examining a closed log.
mod recovery;

mod compaction;

mod statistics;

pub mod inspect;

pub mod salvage;

#[cfg(all(test, loom))]
mod explored;

pub use append::copied::RecordCopy;
pub use append::draft::Draft;
pub use append::truncate::TruncationLock;
pub use append::writer::{AppendedRecord, Turn, Writer};
pub use checksum::crc32c;
pub use compaction::{Compaction, CompactionPlan, Compactor, SegmentRun, SegmentShare, Survival, Survives};
pub use components::{Background, Components, LogDuty};
pub use durable::checkpoint::{Checkpoint, PassOn, Payload};
pub use durable::gate::{LogWatcher, WaitOutcome, Woken};
pub use durable::office::{Office, office_file};
pub use error::{Damage, Error, Result};
pub use identity::Identity;
pub use log::{Log, OpenedLog, Publication, SegmentSize, SegmentStage, SegmentSummary, Statistics};
pub use mark::{Basis, Era, Mark, Term};
pub use processes::listener::ProcessEvent;
pub use read::reader::Reader;
pub use recovery::{Recovery, TornTail};
pub use sealed::sealer::SealingFailure;
pub use settings::{Durability, Publisher, Settings};
pub use statistics::{Gauge, Gauges, Histogram, Page};
pub use storage::{Access, Disk, Gradual, Lock, Snapshot, Storage, StoredFile};
pub use time::clock::{Clock, ManualClock, SystemClock};
pub use time::deadline::WaitDeadline;
pub use time::steady::SteadyClock;
