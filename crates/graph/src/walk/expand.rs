//! The expansion of a block: its neighbours, as of the walk's position.

use quire_model::ReadError;

use super::met::{BlockVisit, VisitState};
use super::tokens::NONE;
use super::{Link, WalkInput, Walker};
use crate::adjacency::Node;
use crate::read::{Past, Types, block_entry};
use crate::{BlockId, End, Graph};

/// The point in the edges of a block at which a walk has paused.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EdgeCursor {
    /// The number of finished pairs of an end and a range of types.
    part: usize,
    after: Option<(u16, BlockId)>,
    /// The number of edges noted before this block's.
    pub(super) links: usize,
}

/// An edge, seen from the block that is expanded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Far {
    pub(super) id: BlockId,
    pub(super) slot: u32,
    pub(super) edge_type: u16,
    pub(super) end: End,
}

impl<'g> WalkInput<'g> {
    fn past(self, at: quire_model::Position) -> Past<'g> {
        Past::at(self.history, self.graph.number, at)
    }

    /// The block's node, if it is still as it was at the position.
    fn settled(self, id: BlockId, at: quire_model::Position) -> Option<Node> {
        self.graph.adjacency.find(id).filter(|node| node.changed() <= at)
    }

    /// Whether a block was there at the position.
    pub(super) fn is_there(self, id: BlockId, at: quire_model::Position) -> Result<bool, ReadError> {
        match self.settled(id, at) {
            Some(node) => Ok(node.is_block()),
            None if at == quire_model::Position::MAX => Ok(false),
            None => Ok(self.past(at).block(id)?.is_some()),
        }
    }
}

impl<'g> WalkInput<'g> {
    /// Whether a block was there or had edges at the position.
    pub(super) fn knows(self, id: BlockId, at: quire_model::Position) -> Result<bool, ReadError> {
        self.graph.knows_at(self.history, id, at)
    }
}

impl Walker<'_> {
    /// The slot of a block, when slots are what blocks are known by.
    pub(super) fn slot_of(&mut self, id: BlockId, graph: &Graph) -> u32 {
        if !self.tokens.is_by_slot() {
            return NONE;
        }
        graph.adjacency.slot(id).unwrap_or_else(|| {
            // Slots were freed since the walk's position, before the state was loaded.
            self.tokens.by_id(&self.met, &graph.adjacency);
            NONE
        })
    }

    /// The number of a block that was met.
    #[inline]
    pub(super) fn number(&self, id: BlockId, slot: u32, graph: &Graph) -> Option<u32> {
        if self.tokens.is_by_slot() {
            self.tokens.of_slot(slot)
        } else {
            self.tokens.of_id(id, &self.met, &graph.adjacency)
        }
    }

    /// Notes a block that was not met before.
    #[inline]
    pub(super) fn meet(&mut self, met: BlockVisit, graph: &Graph) {
        self.met.push(met);
        self.tokens.add(&self.met, &graph.adjacency);
    }

    /// Calls `take` for the block at the far end of every edge of the block with this number, as of
    /// the walk's position, for about `edges` edges. Returns whether those were all; otherwise, the
    /// next call continues.
    pub(super) fn expand(
        &mut self,
        number: u32,
        ground: WalkInput<'_>,
        left: &mut usize,
        mut take: impl FnMut(&mut Self, Far) -> Result<bool, ReadError>,
    ) -> Result<bool, ReadError> {
        let BlockVisit { id, slot, .. } = self.met[number as usize];
        let adjacency = &ground.graph.adjacency;
        let slot = if self.tokens.is_by_slot() { Some(slot) } else { adjacency.slot(id) };
        let settled = slot.filter(|slot| adjacency.node(*slot).changed() <= self.at);
        let Some(slot) = settled else {
            self.cursor.part = 0;
            self.cursor.after = None;
            self.edges.truncate(self.cursor.links);
            return self.expand_from_log(id, ground, left, take);
        };
        let ends = self.plan.direction.ends();
        let parts = ends.len() * self.types().len();
        while self.cursor.part < parts {
            let (end, types) = self.part(self.cursor.part);
            for hop in adjacency.hops(slot, end, types, self.cursor.after) {
                let far = Far { id: BlockId::MIN, slot: hop.far, edge_type: hop.edge_type, end };
                if !take(self, far)? {
                    return Ok(true);
                }
                *left -= 1;
                if *left == 0 {
                    self.cursor.after = Some((hop.edge_type, adjacency.id(hop.far)));
                    return Ok(false);
                }
            }
            self.cursor.part += 1;
            self.cursor.after = None;
        }
        self.cursor = EdgeCursor { links: self.edges.len(), ..EdgeCursor::default() };
        Ok(true)
    }

    fn expand_from_log(
        &mut self,
        id: BlockId,
        ground: WalkInput<'_>,
        left: &mut usize,
        mut take: impl FnMut(&mut Self, Far) -> Result<bool, ReadError>,
    ) -> Result<bool, ReadError> {
        let past = ground.past(self.at);
        for end in self.plan.direction.ends() {
            for (edge_type, far) in past.edges(id, *end)? {
                if !self.types().contains(edge_type) {
                    continue;
                }
                let slot = self.slot_of(far, ground.graph);
                if !take(self, Far { id: far, slot, edge_type, end: *end })? {
                    return Ok(true);
                }
            }
        }
        // These edges are dear; the walk pauses behind them.
        *left = 1;
        self.cursor = EdgeCursor { links: self.edges.len(), ..EdgeCursor::default() };
        Ok(true)
    }

    pub(super) fn types(&self) -> &Types {
        &self.resolved.as_ref().expect("the walk has begun").types
    }

    /// The end and the range of types of a part of a block's edges.
    fn part(&self, part: usize) -> (End, (u16, u16)) {
        let types = self.types();
        let range = types.range(part % types.len()).expect("a part is of a range");
        (self.plan.direction.ends()[part / types.len()], range)
    }

    /// The number of the block at the far end of an edge, met now if it was not before.
    pub(super) fn meet_far(&mut self, from: u32, far: Far, ground: WalkInput<'_>) -> Result<(u32, bool), ReadError> {
        // By slot: only new blocks need their ids. By id: lists give slots, the log gives ids.
        let is_by_slot = self.tokens.is_by_slot();
        let id_of = |far: Far| {
            if far.id == BlockId::MIN && far.slot != NONE { ground.graph.adjacency.id(far.slot) } else { far.id }
        };
        let id = if is_by_slot { BlockId::MIN } else { id_of(far) };
        if let Some(number) = self.number(id, far.slot, ground.graph) {
            return Ok((number, false));
        }
        let id = if is_by_slot { id_of(far) } else { id };
        let depth = self.met[from as usize].depth.saturating_add(1);
        let state = self.judge(id, ground)?;
        let (edge_type, end) = (far.edge_type, far.end);
        self.meet(BlockVisit { id, slot: far.slot, from, depth, edge_type, end, state }, ground.graph);
        Ok(((self.met.len() - 1) as u32, true))
    }

    /// Applies the filter to a block.
    fn judge(&self, id: BlockId, ground: WalkInput<'_>) -> Result<VisitState, ReadError> {
        let filter = &self.plan.filter;
        if !self.plan.with_missing && !ground.is_there(id, self.at)? {
            return Ok(VisitState::Barred);
        }
        if filter.is_empty() || self.plan.exempt == Some(id) || self.matches(id, ground)? {
            return Ok(VisitState::Seen);
        }
        Ok(if self.plan.through_others { VisitState::SeenOther } else { VisitState::Barred })
    }

    fn matches(&self, id: BlockId, ground: WalkInput<'_>) -> Result<bool, ReadError> {
        let filter = &self.plan.filter;
        let kinds = &self.resolved.as_ref().expect("the walk has begun").kinds;
        let is_kind = |kind: u16| filter.kinds.is_empty() || kinds.contains(&kind);
        let (entry, put) = match ground.settled(id, self.at) {
            Some(node) => {
                let Some(facts) = node.facts().filter(|facts| is_kind(facts.kind)) else { return Ok(false) };
                if !filter.reads() {
                    return Ok(true);
                }
                block_entry(ground.history, facts.place)?
            }
            None => {
                let Some(found) = ground.past(self.at).block(id)? else { return Ok(false) };
                found
            }
        };
        let block = ground.graph.shown(entry, put);
        Ok(is_kind(crate::names::narrow(put.kind)) && filter.matches_beyond_kind(&block, ground.history)?)
    }

    /// Notes an edge, when edges are asked for. Along both directions every edge is met from its
    /// source.
    pub(super) fn note(&mut self, near: u32, far: Far, number: u32) {
        if !self.plan.with_edges {
            return;
        }
        let edge_type = far.edge_type;
        match (far.end, self.plan.direction) {
            (End::Target, _) => self.edges.push(Link { source: near, edge_type, target: number }),
            (End::Source, crate::Direction::Incoming) => {
                self.edges.push(Link { source: number, edge_type, target: near });
            }
            (End::Source, _) => {}
        }
    }
}
