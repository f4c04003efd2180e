//! Reads: one job, its history, searches, life-cycle events, and when a fetch is worth while.
//!
//! They are methods of [`Jobs`](crate::Jobs). Ids and times come from memory, everything else from
//! the log.

mod chain;
mod fetchable;
mod history;
mod life;
mod logged;
mod names;
mod oldest;
mod overview;
mod queue_entry;
mod search;
mod view;
mod walk;

pub use chain::{JobEvent, Transition};
pub use history::HistoryPage;
pub use life::{LifeEvent, LifeFilter, LifeProgress, LifeReading, QueueLog};
pub use logged::Status;
pub(crate) use logged::{LastStep, ended, enqueued_at, noted_at, payload_at};
pub use overview::BulkOrigin;
pub use queue_entry::QueueEntry;
pub(crate) use search::Bounds;
pub use search::{JobPage, SEARCH_LOOKED_AT_MAX};
pub use view::JobView;
