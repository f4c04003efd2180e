//! The entries of this model: tags and bodies.
//!
//! | kind | entry           | tags                                   | body |
//! |------|-----------------|----------------------------------------|------|
//! | 1    | queue created   | queue, name                            | `queue varint · name…` |
//! | 2    | enqueued        | queue, user tags                       | see [`enqueued`] |
//! | 3    | queue set       | queue                                  | `queue varint · settings`, see [`settings`] |
//! | 4    | queue cleared   | queue                                  | `queue varint`: its waiting jobs are cancelled, steps of theirs follow |
//! | 5    | queue destroyed | queue                                  | `queue varint`: it is gone, and its jobs are cancelled, steps of theirs follow |
//! | 6    | extended        | none                                   | `count varint · per job: id · deadline u64` |
//! | 7    | noted           | queue, when it has progress            | `id · flags u8 · [progress bytes] [checkpoint bytes]` |
//! | 8    | edited          | queue, of a move the new one; job      | see [`edit`] |
//! | 9    | revived         | queue, job                             | see [`edit`] |
//! | 10   | bulk begun      | none                                   | see [`bulk`] |
//! | 11   | bulk advanced   | none                                   | see [`bulk`] |
//! | 12   | key held        | none                                   | `id · 0 everywhere │ 1 · queue varint · until u64 · key…` |
//! | 13   | moved out       | queue, the one that it leaves          | `id · queue varint`: where to; the edited entry follows |
//! | 16 … | steps of jobs   | queue; of finished jobs: finished, job | see [`step`]; the kind is the cause |
//!
//! `…` takes the rest of the body. Times are microseconds since the epoch. An id is a place:
//! `position varint · index varint`.
//!
//! ```text
//! queue tag    ┌────┬─────┬────────────┐              job tag ┌────┬─────┬─────────────────┬──────────────┐
//!              │ 03 │ 'q' │ queue u32  │                      │ 03 │ 'j' │ position varint │ index varint │
//!              └────┴─────┴────────────┘                      └────┴─────┴─────────────────┴──────────────┘
//! finished tag ┌────┬─────┬────────────┬──────────┐  user tag ┌────┬─────┬─────────┐
//!              │ 03 │ 'f' │ queue u32  │ state u8 │           │ 03 │ 't' │ UTF-8 … │  the same word in every queue:
//!              └────┴─────┴────────────┴──────────┘           └────┴─────┴─────────┘  intersect with the queue's tag
//! name tag     ┌────┬─────┬─────────┐
//!              │ 03 │ 'n' │ UTF-8 … │  every queue that has, or had, the name
//!              └────┴─────┴─────────┘
//! ```
//!
//! A job's enqueue entry is found by its id, every later step by the chain: each names the place of
//! the step before. The last step of a finished job carries its tag. An entry with a queue's tag
//! takes numbers of it, from 0: one a step, and one for an entry that is no steps. They are the
//! numbers of the queue's life-cycle events ([`life`](crate::life)).

mod bulk;
mod edit;
mod effect;
mod enqueued;
mod fields;
pub(crate) mod settings;
mod step;
mod tags;

pub(crate) use bulk::{BulkAdvance, BulkChange};
pub(crate) use edit::{JobEdit, JobRevival};
pub(crate) use effect::{Effect, unreadable};
pub(crate) use enqueued::{ENQUEUED, JobEntry, StoredKey, push_enqueued};
pub(crate) use fields::{expected, queue, read_id, read_later, time, varint_u16, write_id, write_later};
pub(crate) use step::{FinalFacts, Run, Step, Steps, To};
pub(crate) use tags::{finished_tag, job_tag, jobs_of, name_tag, queue_of, queue_tag, user_tag, user_tags};
