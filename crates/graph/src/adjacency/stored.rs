//! The adjacency as bytes, and back.
//!
//! ```text
//! slot count v | (id 16 | place u64 | version and kind u64 | changed and flags u64 | outgoing v | incoming v) ... by slot
//! free count v | (slot u32) ...
//! (words 5 * u32) ... of all outgoing edges, by slot | (words 3 * u32) ... of all incoming edges, by slot
//! ```
//!
//! Numbers and words are stored as in memory, so that ten million blocks are read at the speed of a
//! copy. Loading checks everything that could lead out of bounds or break an order. The log
//! verifies that the bytes are the written ones. Saving and loading take no memory that grows with
//! the graph, except the graph itself.

use alloc::vec::Vec;

use quire_model::Parts;
use quire_model::codec::{CodecError, Decoder};

use super::index::{Index, TOGETHER};
use super::lists::{self, List, Lists};
use super::{Adjacency, Node};
use crate::codec::decode_id;
use crate::memory::MemorySource;

/// The shortest a slot is.
const SLOT_BYTES_LEAST: usize = 42;

impl Adjacency {
    /// Writes it.
    pub(crate) fn save(&self, out: &mut Parts<'_>) {
        out.encoder().varint(u64::from(self.slots()));
        for slot in 0..self.slots() {
            let (node, out) = (self.node(slot), out.encoder());
            out.raw(node.id.as_bytes());
            for word in node.words() {
                out.u64(word);
            }
            out.varint(u64::from(node.outgoing.length)).varint(u64::from(node.incoming.length));
        }
        out.encoder().varint(self.free.len() as u64);
        for slot in &self.free {
            out.encoder().u32(*slot);
        }
        (0..self.slots()).for_each(|slot| save_list(&self.outgoing, self.node(slot).outgoing, out));
        (0..self.slots()).for_each(|slot| save_list(&self.incoming, self.node(slot).incoming, out));
    }

    /// Reads the bytes of [`Adjacency::save`], for the given numbers of kinds and edge types.
    pub(crate) fn load(
        from: &mut Decoder<'_>,
        seed: u64,
        source: &MemorySource,
        kinds: u32,
        edge_types: u32,
    ) -> Result<Self, CodecError> {
        let count = from.varint_u32()?;
        check((count as usize) <= from.clone().rest().len() / SLOT_BYTES_LEAST, "the stated number of slots", from)?;
        let mut this = Adjacency::new(seed, source);
        this.index = Index::new(seed, count as usize, source.clone());
        let mut free = 0;
        let mut ids = Vec::with_capacity(TOGETHER);
        for slot in 0..count {
            let id = decode_id(from)?;
            let words = [from.u64()?, from.u64()?, from.u64()?];
            // The places of the lists are known when the lists are read.
            let [outgoing, incoming] = [from.varint_u32()?, from.varint_u32()?].map(|length| List::of(0, length));
            let node = Node::of_words(id, words);
            check(node.is_some(), "a slot", from)?;
            let mut node = node.expect("just checked");
            (node.outgoing, node.incoming) = (outgoing, incoming);
            check(node.facts().is_none_or(|facts| u32::from(facts.kind) < kinds), "a kind of the catalogue", from)?;
            check(
                node.is_block() || node.is_used() == node.has_edges(),
                "a block, an edge's end or a free slot",
                from,
            )?;
            this.blocks += usize::from(node.is_block());
            free += usize::from(!node.is_used());
            this.nodes.extend(1);
            this.nodes.set(slot, node);
            if node.is_used() {
                ids.push((id, slot));
            }
            if ids.len() == TOGETHER || slot + 1 == count {
                check(this.index.add_together(&ids, |slot| this.nodes.id(slot)), "an id once", from)?;
                ids.clear();
            }
        }
        this.load_free(free, from)?;
        for slot in 0..count {
            let list = this.nodes.node(slot).outgoing;
            if list.length > 0 {
                let list = this.load_list(list, edge_types, from, |this| &mut this.outgoing)?;
                this.nodes.set_outgoing(slot, list);
                this.edges += list.length as usize;
            }
        }
        let mut incoming = 0;
        for slot in 0..count {
            let list = this.nodes.node(slot).incoming;
            if list.length > 0 {
                let list = this.load_list(list, edge_types, from, |this| &mut this.incoming)?;
                this.nodes.set_incoming(slot, list);
                incoming += list.length as usize;
            }
        }
        check(this.edges == incoming, "every edge at both its ends", from)?;
        Ok(this)
    }

    /// Reads the `count` free slots.
    fn load_free(&mut self, count: usize, from: &mut Decoder<'_>) -> Result<(), CodecError> {
        check(from.varint()? == count as u64, "each free slot once", from)?;
        let mut seen: Vec<u64> = alloc::vec![0; if count == 0 { 0 } else { self.slots().div_ceil(64) as usize }];
        for _ in 0..count {
            let slot = from.u32()?;
            check(slot < self.slots() && !self.nodes.node(slot).is_used(), "a free slot", from)?;
            let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
            check(seen[word] & bit == 0, "a free slot once", from)?;
            seen[word] |= bit;
            self.free.push(slot);
        }
        Ok(())
    }

    /// Reads a list of as many elements as it has.
    fn load_list<const WORDS: usize>(
        &mut self,
        List { length, .. }: List,
        edge_types: u32,
        from: &mut Decoder<'_>,
        lists: impl Fn(&mut Self) -> &mut Lists<WORDS>,
    ) -> Result<List, CodecError> {
        let bytes = from.raw((length as usize).saturating_mul(WORDS * 4))?;
        let mut before: Option<[u32; WORDS]> = None;
        for element in elements::<WORDS>(bytes) {
            check(element[2] < self.slots(), "an edge to an existing slot", from)?;
            check(u32::from(lists::edge_type(&element)) < edge_types, "an edge type of the catalogue", from)?;
            let id = |element: &[u32; WORDS]| self.nodes.id(element[2]);
            let in_order = before.is_none_or(|before| {
                let keys = before[..2].cmp(&element[..2]);
                keys.then_with(|| id(&before).cmp(&id(&element))).is_lt()
            });
            check(in_order, "edges in order", from)?;
            before = Some(element);
        }
        Ok(lists(self).fill(length, elements(bytes)))
    }
}

fn save_list<const WORDS: usize>(lists: &Lists<WORDS>, list: List, out: &mut Parts<'_>) {
    for element in lists.iter(list, None) {
        let out = out.encoder();
        for word in element {
            out.u32(*word);
        }
    }
}

fn elements<const WORDS: usize>(bytes: &[u8]) -> impl Iterator<Item = [u32; WORDS]> + '_ {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    bytes.chunks_exact(WORDS * 4).map(move |bytes| core::array::from_fn(|index| word(&bytes[index * 4..][..4])))
}

fn check(holds: bool, expected: &'static str, from: &Decoder<'_>) -> Result<(), CodecError> {
    if holds { Ok(()) } else { Err(CodecError { expected, bytes_left: from.clone().rest().len() }) }
}
