//! Lists of blocks: by kind, by tag, by source, and by a test of their metadata.
//!
//! Blocks are listed kind by kind, in the order in which the graph first saw the kinds; within a
//! kind, in the order of their last puts. A kind and a tag are scanned along their tags in the log,
//! where outdated puts are skipped. A source or a test is checked for each block in between. So a
//! page costs time for skipped entries, and ends with a cursor after a bounded number of them.

use alloc::vec::Vec;

use quire_model::{History, Place, Position, ReadError, Tag, TagBuf};

use super::past::Past;
use crate::codec::Effect;
use crate::names::narrow;
use crate::{Block, BlockFilter, BlockId, Graph, tags};

/// The blocks to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListPlan<'p> {
    /// The filter that listed blocks match.
    pub filter: BlockFilter<'p>,
    /// The beginning of the source of listed blocks.
    pub source_prefix: &'p str,
}

/// The point at which a list continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListCursor {
    /// The number of the kind.
    pub kind: u16,
    /// The first place to examine.
    pub place: Place,
}

impl ListCursor {
    /// At the beginning.
    pub const START: ListCursor = ListCursor { kind: 0, place: Place::START };
}

/// Whether the caller wants more blocks.
pub type Wants = core::ops::ControlFlow<()>;

impl Graph {
    /// Visits every block that the plan selects, as of a position, from a cursor on. Ends when
    /// `show` breaks, `looks_max` entries were read, or the steps of the history are used up.
    /// Returns the cursor to continue from; `None` at the end.
    ///
    /// The pages as of one position together visit every block of that position once, whatever is
    /// committed in between.
    ///
    /// # Errors
    /// When an entry can't be read.
    pub fn list(
        &self,
        history: &dyn History,
        at: Position,
        plan: &ListPlan<'_>,
        from: ListCursor,
        looks_max: usize,
        show: &mut dyn FnMut(&Block<'_>) -> Wants,
    ) -> Result<Option<ListCursor>, ReadError> {
        let kinds: Vec<u32> = match plan.filter.kinds {
            [] => (u32::from(from.kind)..self.kinds.count()).collect(),
            kinds => {
                let mut numbers: Vec<u32> = kinds.iter().filter_map(|kind| self.kinds.number(kind)).collect();
                numbers.sort_unstable();
                numbers.dedup();
                numbers.retain(|kind| *kind >= u32::from(from.kind));
                numbers
            }
        };
        let users: Vec<TagBuf> = plan.filter.tags.iter().map(|tag| tags::user(self.number, tag)).collect();
        self.check_history(at)?;
        let past = Past::at(history, self.number, at);
        let mut looks = 0;
        for kind in kinds {
            let of_kind = tags::kind(self.number, kind);
            let tags: Vec<Tag<'_>> = core::iter::once(of_kind.tag()).chain(users.iter().map(TagBuf::tag)).collect();
            let kind = narrow(kind);
            let mut place = if kind == from.kind { from.place } else { Place::START };
            loop {
                let entry = match history.next(&tags, place) {
                    Ok(Some(entry)) => entry,
                    Ok(None) => break,
                    // The list continues at the last examined place.
                    Err(error) => match error.reached_place().filter(|reached| *reached > place) {
                        Some(place) => return Ok(Some(ListCursor { kind, place })),
                        None if looks > 0 && error.is_too_costly() => return Ok(Some(ListCursor { kind, place })),
                        None => return Err(error),
                    },
                };
                if entry.place.position > at {
                    break;
                }
                if looks == looks_max {
                    return Ok(Some(ListCursor { kind, place: entry.place }));
                }
                looks += 1;
                place = entry.place.after();
                let Effect::BlockPut(put) = Effect::of(&entry) else { panic!("entry {} puts a block", entry.place) };
                match self.newest(&past, put.id, at) {
                    Ok(newest) if newest == Some(entry.place) => {}
                    Ok(_) => continue,
                    Err(error) if looks > 1 && error.is_too_costly() => {
                        return Ok(Some(ListCursor { kind, place: entry.place }));
                    }
                    Err(error) => return Err(error),
                }
                let block = self.shown(entry, put);
                let is_asked = match block.source.starts_with(plan.source_prefix) {
                    false => false,
                    true => match plan.filter.matches_beyond_kind(&block, history) {
                        Err(error) if looks > 1 && error.is_too_costly() => {
                            return Ok(Some(ListCursor { kind, place: entry.place }));
                        }
                        matches => matches?,
                    },
                };
                if is_asked && show(&block).is_break() {
                    return Ok(Some(ListCursor { kind, place }));
                }
            }
        }
        Ok(None)
    }

    /// Returns the place of the newest put of a block at a position.
    fn newest(&self, past: &Past<'_>, id: BlockId, at: Position) -> Result<Option<Place>, ReadError> {
        match self.adjacency.find(id).filter(|node| node.changed() <= at) {
            Some(node) => Ok(node.facts().map(|facts| facts.place)),
            None => Ok(past.block(id)?.map(|(entry, _)| entry.place)),
        }
    }

    /// Missing blocks that have edges, each with its slot: at most `count_max`, among `looks_max`
    /// slots from `slot` on. Also returns the slot to continue from, `None` at the end. Their order
    /// has no meaning. The slot of a missing block stays the same while it is missing, also after a
    /// restart.
    pub fn missing_blocks(&self, from: u32, count_max: usize, looks_max: u32) -> (Vec<(u32, BlockId)>, Option<u32>) {
        let end = from.saturating_add(looks_max).min(self.adjacency.slots());
        let nodes = (from..end).map(|slot| (slot, self.adjacency.node(slot)));
        let missing = nodes.filter(|(_, node)| node.is_missing()).map(|(slot, node)| (slot, node.id()));
        let missing: Vec<_> = missing.take(count_max).collect();
        let end = missing.last().filter(|_| missing.len() == count_max).map_or(end, |(slot, _)| slot + 1);
        (missing, (end < self.adjacency.slots()).then_some(end))
    }
}
