//! The forgotten tags of a store, and the entries that the log still holds for them. Erasure uses
//! this to remove the bytes.

use alloc::vec::Vec;

use quire_model::{Entry, History, Place, ReadError};

use crate::codec::{FORGOTTEN, Role, TagList, store_of};
use crate::gone::DeletedEvents;
use crate::{EventPosition, Events, StoreNumber};

/// The forgotten tags of a store at one moment. A copy is cheap, however many tags there are.
#[derive(Debug, Clone)]
pub struct Forgotten {
    store: StoreNumber,
    gone: DeletedEvents,
}

/// A forgotten tag of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgottenTag {
    store: StoreNumber,
    tag: Vec<u8>,
}

impl ForgottenTag {
    /// The tag that this entry forgets; `None` for other entries.
    #[inline]
    pub fn of(entry: &Entry<'_>) -> Option<Self> {
        if entry.kind != FORGOTTEN {
            return None;
        }
        let store = entry.tags.first().and_then(store_of)?;
        let (_, tag) = entry.body.split_first_chunk::<8>()?;
        Some(ForgottenTag { store, tag: tag.into() })
    }
}

impl Events {
    /// The forgotten tags of the stores that have any.
    pub fn forgotten(&self) -> Vec<Forgotten> {
        let of = |(_, store)| Forgotten { store, gone: self.gone(store).clone() };
        self.stores().map(of).filter(|forgotten| forgotten.gone.forgotten_count() > 0).collect()
    }
}

impl Forgotten {
    /// Every tag.
    pub fn tags(&self) -> impl Iterator<Item = ForgottenTag> {
        self.gone.forgotten().map(|tag| ForgottenTag { store: self.store, tag: tag.into() })
    }

    /// Whether the tag is of this store.
    pub fn is_of(&self, tag: &ForgottenTag) -> bool {
        self.store == tag.store
    }

    /// The first event from a place on that a forgotten tag deletes and the log still has.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn held(&self, history: &dyn History, tag: &ForgottenTag, mut from: Place) -> Result<Option<Place>, ReadError> {
        let Some(up_to) = self.gone.forgotten_up_to(&tag.tag) else { return Ok(None) };
        let tags = TagList::of(Role::Tag, self.store, &tag.tag);
        while let Some(entry) = history.next(&[tags.first()], from)? {
            if entry.sequence.map(EventPosition::from).is_some_and(|position| position > up_to) {
                return Ok(None);
            }
            if self.gone.has(&entry) {
                return Ok(Some(entry.place));
            }
            from = entry.place.after();
        }
        Ok(None)
    }
}
