//! The tagged log: one totally ordered sequence of records on disk, readable by place and along tags.
//!
//! ```text
//! Writer::begin ─▶ Draft (Effects) ─▶ append ─▶ segment bytes, tag index, tail ─▶ publish ─▶ Reader (History)
//!                                                        │                            ▲
//!                                                        └─ Syncer: fdatasync ────────┘  (sync shards)
//! ```
//!
//! * [`Log`] is the shared side: readers, tickets' waiting, syncing, checkpoints. Cheap to clone.
//! * [`Writer`] is the one appender. Whoever holds it decides what comes next; it is not `Clone`.
//! * A record is visible to [`Log::reader`] once it is *published*: at once in an `os` log, after the sync that covers it
//!   in a `sync` log. The writer's own [`Reader`] sees every appended record.
//!
//! # Example
//! Entries under a tag that numbers them, read back along it:
//! ```
//! use std::sync::Arc;
//! use quire_log::{Identity, Log, Opened, Settings, SystemClock};
//! use quire_model::{Effects, EntryKind, History, ModelId, NewEntry, Place, Sequence, Sequenced, Tag};
//!
//! let folder = tempfile::tempdir()?;
//! let (identity, clock) = (Identity { database: 1, shard: 0 }, Arc::new(SystemClock));
//! let Opened { log, mut writer, .. } = Log::open(folder.path(), identity, Settings::default(), clock)?;
//! let (kind, tags) = (EntryKind { model: ModelId::new(9), kind: 1 }, [Tag::new(b"readings")]);
//! for reading in [b"21.5", b"21.7"] {
//!     let (_, mut draft) = writer.begin()?;
//!     let sequenced = Some(Sequenced { origin: Sequence::new(1), count: 1 });
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
//! # What can be relied on
//! * Bytes below the tail never change; a position is given once; records are appended whole or not at all.
//! * On open, every record of a segment without a sealed index is verified; see `docs/file-format.md` for what is cut and what
//!   is refused. A record of a sealed segment is verified when it is first read.
//! * After a failed sync nothing is acknowledged any more and nothing is appended: the log has to be opened anew.
//!
//! # What is not here
//! Any knowledge of a model.

mod components;
mod error;
mod identity;
mod mark;
mod settings;
mod time;

// What users hold: it wires everything below.
mod log;

// A write: the turn, the record, its sync, its publication.
mod processes;

mod append;

mod durable;

// A read.
mod read;

// The files that both go through: records in segments, sealed with an index, packed.
mod record;

mod segment;

mod sealed;

mod packed;

mod storage;

mod checksum;
mod search;

// Opening again, making room, measuring, and examining a closed log.
mod recovery;

mod compaction;

mod statistics;

pub mod inspect;

#[cfg(all(test, loom))]
mod explored;

pub use append::draft::Draft;
pub use append::writer::{Appended, Turn, Writer};
pub use checksum::crc32c;
pub use compaction::{Compaction, CompactionPlan, Compactor, SegmentRun, SegmentShare, Survival, Survives};
pub use components::{Background, Components, Duty};
pub use durable::checkpoint::{Checkpoint, PassOn, Payload};
pub use durable::gate::{Slept, Woken};
pub use durable::office::Office;
pub use error::{Damage, Error, Result};
pub use identity::Identity;
pub use log::{Log, Opened, Publication, SegmentSize, Statistics};
pub use mark::{Basis, Era, Mark, Term};
pub use processes::listener::Heard;
pub use read::reader::Reader;
pub use recovery::{Recovery, TornTail};
pub use settings::{Durability, Publisher, Settings};
pub use statistics::{Gauge, Gauges, Histogram, Page};
pub use storage::{Access, Disk, Gradual, Lock, Snapshot, Storage, StoredFile};
pub use time::clock::{Clock, ManualClock, SystemClock};
pub use time::deadline::Deadline;
pub use time::steady::SteadyClock;
