//! The largest sizes and counts that are accepted.
//!
//! The size of an event's data and metadata has no limit here: the log limits the size of a record.

/// The most bytes in the name of a store.
pub const NAME_BYTES_MAX: usize = 255;
/// The most bytes in an event's type.
pub const TYPE_BYTES_MAX: usize = 255;
/// The most bytes in a tag.
pub const TAG_BYTES_MAX: usize = 255;
/// The most tags on an event, and in a query item.
pub const TAGS_MAX: usize = 64;
/// The most events in an append.
pub const EVENTS_MAX: usize = 65_536;
/// The most conditions on an append.
pub const CONDITIONS_MAX: usize = 256;
/// The most walks that a query may take: an item counts once for each type that it names, and once
/// when it names none.
pub const QUERY_WALKS_MAX: usize = 4_096;

/// The most bytes in the name of a source.
pub const SOURCE_BYTES_MAX: usize = 255;
/// The most sources that a store reads from.
pub const SOURCES_MAX: usize = 1_024;
/// The most named subscriptions, of all stores.
pub const SUBSCRIPTIONS_MAX: usize = 1_024;
/// The largest number of forgotten tags of a store. Their names are kept in memory, with about 150
/// bytes each.
pub const FORGOTTEN_MAX: usize = 1 << 20;
/// The most bytes in the name of a saved projection.
pub const PROJECTION_BYTES_MAX: usize = 255;
/// The most saved projections of a store.
pub const PROJECTIONS_MAX: usize = 65_536;

// An entry carries at most 255 tags: the store's, the type's, the user's and the id's.
const _: () = assert!(TAGS_MAX + 3 <= 255);
// In a stored tag, a model's byte, a role and a store's number precede the user's bytes.
const _: () = assert!(TAG_BYTES_MAX + 7 <= quire_model::TAG_BYTES_MAX);
const _: () = assert!(TYPE_BYTES_MAX + 7 <= quire_model::TAG_BYTES_MAX);
