//! The contract between the log, the database and the models.
//!
//! ```text
//! commands ──decide──▶ effects ──the log──▶ entries ──apply──▶ state
//!              ▲                                │
//!              └── history (the log, by tag) ◀──┘
//! ```
//!
//! * The words every part of Quire uses: [`Position`], [`Place`], [`Sequence`], [`Timestamp`],
//!   [`Tag`], [`Entry`].
//! * [`Model`]: a state machine over entries. `decide` is pure and may refuse; `apply` cannot fail.
//! * [`decide_in_order`]: the loop of `decide`, the same in every model.
//! * [`Effects`]: where `decide` puts the entries of a commit. [`History`]: how a model reads
//!   entries back.
//! * [`ResourceClaim`]: a name, or more of a limited resource, that a decision claims.
//! * [`StepBudget`]: the steps that one request may take.
//! * [`Resource`] and [`Operation`]: the vocabulary of permissions.
//! * [`CowBytes`]: bytes of a command, owned or borrowed.
//! * [`codec`]: the hand-written encoding that bodies and checkpoints are made of.
//! * [`memory`]: a naive log in memory, the oracle of the models' tests.
//!
//! A model does no I/O, reads no clock and draws no randomness: the time of a commit, and every id,
//! comes from [`At`]. This crate has no dependencies and knows no model.

#![no_std]

extern crate alloc;

mod access;
mod bytes;
mod claim;
mod contract;
mod creator;
mod decide;
mod dotted;
mod effects;
mod entry;
mod history;
mod parts;
mod position;
mod steps;
mod tag;
mod time;
mod touch;

pub mod codec;
pub mod memory;

pub use access::{Operation, Resource, ResourceKind};
pub use bytes::CowBytes;
pub use claim::{ClaimLimit, ClaimRefusal, NameKind, Release, ResourceClaim, dotted};
pub use contract::{At, DecideError, Model};
pub use creator::Creator;
pub use decide::{Stop, decide_in_order};
pub use dotted::DottedNames;
pub use effects::{BodyChecksum, Effects, NewEntry, Placement, SequenceRequest};
pub use entry::{Entry, EntryKind, ModelId, Tags};
pub use history::{History, LongReading, ReadError, ReadErrorKind};
pub use parts::Parts;
pub use position::{Place, Position, Sequence};
pub use steps::{StepBudget, steps_of_bytes, steps_of_parsing};
pub use tag::{TAG_BYTES_MAX, Tag, TagBuf};
pub use time::{Timestamp, micros_of, millis_of};
pub use touch::{PermissionRefusal, Touch, TouchTarget};
