//! Saved projections: state that a client built from a store's events, under a name, and the
//! position up to which it did.
//!
//! The state is opaque and stays in the log; memory has only its place. A save names the position
//! of the save before: it is refused if another client saved in between. The state follows from the
//! events, so it may be deleted at any time and built again.

use alloc::string::String;

use quire_model::codec::{CodecError, Decoder};
use quire_model::{Entry, Place};

use crate::codec::{PROJECTION_SAVED, Role, label_of, store_of};
use crate::{EventPosition, StoreNumber};

/// Saves the state of a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SaveProjection<'c> {
    /// The store.
    pub store: &'c str,
    /// The name, in the store: any text of 1 to
    /// [`PROJECTION_BYTES_MAX`](crate::PROJECTION_BYTES_MAX) bytes. A store keeps at most
    /// [`PROJECTIONS_MAX`](crate::PROJECTIONS_MAX).
    pub name: &'c str,
    /// The version of the projection's code. A reader of another version ignores the state and
    /// builds it again.
    pub version: u32,
    /// The position of the state that this one was built from: zero when it was built from the
    /// first event. If the saved state has the same version and is after this base, another client
    /// was faster, and the save is refused.
    pub base: EventPosition,
    /// The position up to which the state was folded; at most the last event of the store.
    pub position: EventPosition,
    /// The state.
    pub state: &'c [u8],
}

/// The version and the position of a saved projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedProjection {
    /// The version of what folded it.
    pub version: u32,
    /// The position up to which the state was folded.
    pub position: EventPosition,
    /// The entry of the log that holds its state: see [`SavedProjection::state`].
    pub place: Place,
}

/// The bytes before the state.
const HEAD_BYTES: usize = 12;

impl SavedProjection {
    /// The state in the entry at [`SavedProjection::place`].
    pub fn state<'h>(entry: &Entry<'h>) -> Option<&'h [u8]> {
        if entry.kind != PROJECTION_SAVED {
            return None;
        }
        entry.body.get(HEAD_BYTES..)
    }
}

/// `| version 4 | position 8 | state … |`, except the state.
pub(crate) fn head(version: u32, position: EventPosition) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&version.to_le_bytes());
    head[4..].copy_from_slice(&position.get().to_le_bytes());
    head
}

/// Reads the store, the name, the version and the position of a projection from an entry.
pub(crate) fn saved_in<'e>(entry: &Entry<'e>) -> Result<(StoreNumber, &'e str, SavedProjection), CodecError> {
    let (store, name) = named_in(entry);
    let mut from = Decoder::new(entry.body);
    let saved = SavedProjection { version: from.u32()?, position: EventPosition::new(from.u64()?), place: entry.place };
    Ok((store, name, saved))
}

/// The projection that an entry is about.
pub(crate) fn named_in<'e>(entry: &Entry<'e>) -> (StoreNumber, &'e str) {
    let tag = entry.tags.first().expect("its tag is its projection's");
    let name = label_of(tag, Role::Projection).and_then(|name| core::str::from_utf8(name).ok());
    (store_of(tag).expect("its tag is its projection's"), name.expect("a projection's name is text"))
}

/// The projections of a store, by name.
pub(crate) type ProjectionMap = alloc::collections::BTreeMap<String, SavedProjection>;
