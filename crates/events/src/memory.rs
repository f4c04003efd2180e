//! The memory of what clients name in stores and the state keeps: sources, saved projections,
//! forgotten tags and subscriptions. The owner of the log bounds their sum.
//!
//! Each number is the size of the entry in its map, with the overhead of the map and of the
//! allocations, and the bytes of the names.

use quire_model::Creator;

use crate::{Attempts, Events, Query};

const SOURCE_BYTES: u64 = 96;
const PROJECTION_BYTES: u64 = 128;
const FORGOTTEN_BYTES: u64 = 160;
const SUBSCRIPTION_BYTES: u64 = 512;
/// An item of a subscription's query, and a type or tag in it.
const ITEM_BYTES: u64 = 80;
const LABEL_BYTES: u64 = 48;

impl Events {
    /// Returns the bytes of all sources, saved projections, forgotten tags and subscriptions in
    /// memory.
    pub fn memory_bytes(&self) -> u64 {
        self.named_bytes
    }
}

/// Returns the memory of a source.
pub(crate) fn source_memory(name: &str) -> u64 {
    SOURCE_BYTES + name.len() as u64
}

/// Returns the memory of a saved projection. Its state stays in the log.
pub(crate) fn projection_memory(name: &str) -> u64 {
    PROJECTION_BYTES + name.len() as u64
}

/// Returns the memory of a forgotten tag.
pub(crate) fn forgotten_memory(tag: &[u8]) -> u64 {
    FORGOTTEN_BYTES + tag.len() as u64
}

/// Returns the memory of a subscription.
pub(crate) fn subscription_memory(
    name: &str,
    query: &Query<'_>,
    attempts: &Attempts<'_>,
    creator: Option<&Creator>,
) -> u64 {
    let label = |bytes: usize| LABEL_BYTES + bytes as u64;
    let items = query.items.iter().map(|item| {
        let types = item.types.iter().map(|event_type| label(event_type.len()));
        ITEM_BYTES + types.chain(item.tags.iter().map(|tag| label(tag.len()))).sum::<u64>()
    });
    let creator = creator.map_or(0, Creator::memory);
    SUBSCRIPTION_BYTES + (name.len() + attempts.group_by.len()) as u64 + items.sum::<u64>() + creator
}
