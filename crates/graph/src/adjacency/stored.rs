//! The adjacency as bytes, and back.
//!
//! ```text
//! slot count v | (id 16 | place u64 | version and kind u64 | changed and flags u64 | outgoing v | incoming v) ... by slot
//! free count v | (slot u32) ...
//! (words 5 * u32) ... of all outgoing edges, by slot | (words 3 * u32) ... of all incoming edges, by slot
//! ```
//!
//! Numbers and words are those in memory, so that ten million blocks are read at the speed of a copy. Loading checks what
//! would lead out of bounds or into disorder. That the bytes are the ones written is the log's affair.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};

use super::index::Index;
use super::lists::{self, List, Lists};
use super::{Adjacency, Node};
use crate::codec::decode_id;

/// The shortest a slot is.
const SLOT_BYTES_LEAST: usize = 42;

impl Adjacency {
    /// Writes it.
    pub(crate) fn save(&self, out: &mut Encoder) {
        out.varint(u64::from(self.slots()));
        for node in self.nodes.iter() {
            out.raw(node.id.as_bytes());
            for word in node.words() {
                out.u64(word);
            }
            out.varint(u64::from(node.outgoing.length)).varint(u64::from(node.incoming.length));
        }
        out.varint(self.free.len() as u64);
        for slot in &self.free {
            out.u32(*slot);
        }
        self.nodes.iter().for_each(|node| save_list(&self.outgoing, node.outgoing, out));
        self.nodes.iter().for_each(|node| save_list(&self.incoming, node.incoming, out));
    }

    /// Reads what [`Adjacency::save`] wrote, when there are so many kinds and edge types.
    pub(crate) fn load(from: &mut Decoder<'_>, seed: u64, kinds: u32, edge_types: u32) -> Result<Self, CodecError> {
        let count = from.varint_u32()?;
        check((count as usize) <= from.clone().rest().len() / SLOT_BYTES_LEAST, "as many slots as it says", from)?;
        let mut this = Adjacency::new(seed);
        this.index = Index::new(seed, count as usize);
        let mut lengths = Vec::with_capacity(count as usize);
        let mut free = 0;
        for slot in 0..count {
            let id = decode_id(from)?;
            let words = [from.u64()?, from.u64()?, from.u64()?];
            let of_length = [from.varint_u32()?, from.varint_u32()?];
            let node = Node::of_words(id, words);
            check(node.is_some(), "a slot", from)?;
            let node = node.expect("just checked");
            check(node.facts().is_none_or(|facts| u32::from(facts.kind) < kinds), "a kind of the catalogue", from)?;
            let has_edges = of_length != [0, 0];
            check(node.is_block() || node.is_used() == has_edges, "a block, an edge's end or a free slot", from)?;
            this.blocks += usize::from(node.is_block());
            free += usize::from(!node.is_used());
            lengths.push(of_length);
            let is_used = node.is_used();
            this.nodes.extend(node, 1);
            if is_used {
                check(this.index.find(id, |slot| this.nodes[slot].id).is_none(), "an id once", from)?;
                this.index.add(id, slot, |slot| this.nodes[slot].id);
            }
        }
        check(from.varint()? == free as u64, "every free slot", from)?;
        for _ in 0..free {
            let slot = from.u32()?;
            check(slot < count && !this.nodes[slot].is_used() && !this.free.contains(&slot), "a free slot", from)?;
            this.free.push(slot);
        }
        for (slot, [length, _]) in (0..).zip(&lengths) {
            this.nodes[slot].outgoing = this.load_list(*length, edge_types, from, |this| &mut this.outgoing)?;
            this.edges += *length as usize;
        }
        let mut incoming = 0;
        for (slot, [_, length]) in (0..).zip(&lengths) {
            this.nodes[slot].incoming = this.load_list(*length, edge_types, from, |this| &mut this.incoming)?;
            incoming += *length as usize;
        }
        check(this.edges == incoming, "every edge at both its ends", from)?;
        Ok(this)
    }

    /// Reads a list of so many elements.
    fn load_list<const WORDS: usize>(
        &mut self,
        length: u32,
        edge_types: u32,
        from: &mut Decoder<'_>,
        lists: impl Fn(&mut Self) -> &mut Lists<WORDS>,
    ) -> Result<List, CodecError> {
        let bytes = from.raw((length as usize).saturating_mul(WORDS * 4))?;
        let mut before: Option<[u32; WORDS]> = None;
        for element in elements::<WORDS>(bytes) {
            check(element[2] < self.slots(), "an edge to a slot that there is", from)?;
            check(u32::from(lists::edge_type(&element)) < edge_types, "an edge type of the catalogue", from)?;
            let id = |element: &[u32; WORDS]| self.nodes[element[2]].id;
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

fn save_list<const WORDS: usize>(lists: &Lists<WORDS>, list: List, out: &mut Encoder) {
    for element in lists.iter(list, None) {
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
