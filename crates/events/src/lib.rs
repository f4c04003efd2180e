//! Event stores with dynamic consistency boundaries (DCB, see <https://dcb.events>), as a model
//! over the log.
//!
//! An event has a type, tags and opaque data. A writer reads what its decision depends on with a
//! [`Query`], and appends under a [`Condition`] that nothing else matched that query since: the
//! boundary of consistency is the query, not a stream that someone drew beforehand.
//!
//! ```text
//! Append ──decide──▶ is it a repetition? do its conditions hold? ──▶ one entry an event
//!            │                                                         tags: store, type, user's tags, id
//!            └── Selection: the query as walks over tags               body: id, metadata, data
//!                    │
//!                    └──read──▶ walks merged in log order ──▶ EventView, head
//! ```
//!
//! * [`Append`], [`NewEvent`], [`Condition`]: the requests. [`AppendResult`] and [`Refusal`]: the
//!   responses.
//! * [`Query`]: items joined by OR; an item is types joined by OR and tags joined by AND.
//! * [`Events`]: the state, which is only the names of the stores and how many events each was
//!   given, and where the named [`Subscription`]s and [`SavedProjection`]s are. Everything else
//!   stays in the log.
//! * [`Events::select`] resolves a query to a [`Selection`]; [`Selection::read`] walks it.
//!
//! The cost of a condition depends on the events after its `after`, not on the size of the store:
//! each scan starts there and stops at the first match.

#![no_std]

extern crate alloc;

// The vocabulary.
mod id;
mod limits;
mod position;
mod store_number;

mod event;
mod query;
mod saved;
mod subscription;

mod command;
mod refusal;

mod check;

// Entries as bytes, and the state.
mod codec;
mod gone;
mod memory;
mod reply_codec;
mod state;

// In the order of a write, then of a read.
mod prepare;

mod touches;

mod decide;

mod applicable;
mod apply;
mod checkpoint;
mod survival;

mod erasure;
mod read;
mod retention;
mod select;
mod store_entry;

mod model;

pub use command::{Append, AppendResult, Command, Condition, Upstream};
pub use erasure::{Forgotten, ForgottenTag};
pub use event::{EventView, NewEvent};
pub use id::{EventId, NotAnEventId};
pub use limits::{
    CONDITIONS_MAX, EVENTS_MAX, FORGOTTEN_MAX, NAME_BYTES_MAX, PROJECTION_BYTES_MAX, PROJECTIONS_MAX, QUERY_WALKS_MAX,
    SOURCE_BYTES_MAX, SOURCES_MAX, SUBSCRIPTIONS_MAX, TAG_BYTES_MAX, TAGS_MAX, TYPE_BYTES_MAX,
};
pub use position::EventPosition;
pub use prepare::{AppendLookups, Preparation};
pub use query::{Query, QueryItem};
pub use read::{ReadOptions, SelectedEvents};
pub use refusal::{EventProblem, LabelProblem, NameProblem, QueryProblem, Refusal, SelectRefusal};
pub use retention::RetainedStore;
pub use saved::{SaveProjection, SavedProjection};
pub use select::Selection;
pub use state::Events;
pub use store_entry::StoreEntry;
pub use store_number::StoreNumber;
pub use subscription::{Attempts, MoveSubscription, PutSubscription, Subscription};
