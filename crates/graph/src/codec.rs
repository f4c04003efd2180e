//! The effects of the model, and their encoding as entries.
//!
//! An effect is decided fact: names have numbers, versions are given. Encoding and decoding are
//! each other's inverse.
//!
//! ```text
//! kind            body (v: varint, +: length and bytes, *: the rest)
//! 1 GraphNamed    graph v | name *
//! 2 KindNamed     graph v | number v | name *
//! 3 EdgeTypeNamed graph v | number v | name *
//! 4 BlockPut      graph v | id 16 | version v | kind v | name + (empty: none) | source + | metadata + | content *
//! 5 BlockDeleted  graph v | id 16
//! 6 EdgePut       graph v | source 16 | edge type v | target 16 | properties *
//! 7 EdgeDeleted   graph v | source 16 | edge type v | target 16
//! 8 RetentionSet  graph v | milliseconds of history + 1 v (0: for ever) | versions v
//! 9 HistoryTrimmed graph v | first position v
//! ```
//!
//! A block's user tags are not in the body: they are tags of the entry.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder};
use quire_model::{Effects, Entry, EntryKind, ModelId, NewEntry, Placement, Position, Tag, TagBuf};

use crate::{BlockId, Retention, Version, tags};

/// An effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect<'a> {
    GraphNamed { graph: u32, name: &'a str },
    KindNamed { graph: u32, number: u32, name: &'a str },
    EdgeTypeNamed { graph: u32, number: u32, name: &'a str },
    BlockPut(BlockPut<'a>),
    BlockDeleted { graph: u32, id: BlockId },
    EdgePut { graph: u32, key: EdgeKey, properties: &'a [u8] },
    EdgeDeleted { graph: u32, key: EdgeKey },
    RetentionSet { graph: u32, retention: Retention },
    HistoryTrimmed { graph: u32, from: Position },
}

/// A block as the log stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockPut<'a> {
    pub(crate) graph: u32,
    pub(crate) id: BlockId,
    pub(crate) version: Version,
    pub(crate) kind: u32,
    pub(crate) name: Option<&'a str>,
    pub(crate) source: &'a str,
    pub(crate) metadata: &'a [u8],
    pub(crate) content: &'a [u8],
}

/// An edge: its source, its type, its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EdgeKey {
    pub(crate) near: BlockId,
    pub(crate) edge_type: u32,
    pub(crate) far: BlockId,
}

const GRAPH_NAMED: u8 = 1;
const KIND_NAMED: u8 = 2;
const EDGE_TYPE_NAMED: u8 = 3;
const BLOCK_PUT: u8 = 4;
const BLOCK_DELETED: u8 = 5;
const EDGE_PUT: u8 = 6;
const EDGE_DELETED: u8 = 7;
const RETENTION_SET: u8 = 8;
const HISTORY_TRIMMED: u8 = 9;

/// Whether entries of this kind set the retention of a graph. The state has these settings, so no
/// reader needs the entries.
pub(crate) fn is_setting(kind: EntryKind) -> bool {
    matches!(kind.kind, RETENTION_SET | HISTORY_TRIMMED)
}

impl<'a> Effect<'a> {
    /// Adds the entry of this effect. `user_tags` are the tags of a block, without duplicates;
    /// other effects have none.
    pub(crate) fn push(&self, user_tags: &[&str], effects: &mut dyn Effects) -> Placement {
        let mut head = Head::new();
        match *self {
            Effect::GraphNamed { graph, name } => {
                head.varint(u64::from(graph));
                add(GRAPH_NAMED, &[tags::catalogue().tag()], &[head.as_slice(), name.as_bytes()], effects)
            }
            Effect::KindNamed { graph, number, name } => {
                head.varint(u64::from(graph)).varint(u64::from(number));
                add(KIND_NAMED, &[tags::catalogue().tag()], &[head.as_slice(), name.as_bytes()], effects)
            }
            Effect::EdgeTypeNamed { graph, number, name } => {
                head.varint(u64::from(graph)).varint(u64::from(number));
                add(EDGE_TYPE_NAMED, &[tags::catalogue().tag()], &[head.as_slice(), name.as_bytes()], effects)
            }
            Effect::BlockPut(block) => block.push(user_tags, effects),
            Effect::BlockDeleted { graph, id } => {
                head.varint(u64::from(graph)).raw(id.as_bytes());
                let of_block = [tags::block, tags::source, tags::target, tags::deleted].map(|tag| tag(graph, id));
                let [block, source, target, deleted] = of_block.each_ref().map(|tag| tag.tag());
                let all = tags::graph(graph);
                add(BLOCK_DELETED, &[block, all.tag(), source, target, deleted], &[head.as_slice()], effects)
            }
            Effect::EdgePut { graph, key, properties } => add_edge(EDGE_PUT, graph, key, properties, effects),
            Effect::EdgeDeleted { graph, key } => add_edge(EDGE_DELETED, graph, key, &[], effects),
            Effect::RetentionSet { graph, retention: Retention { history_ms, versions } } => {
                let history = history_ms.map_or(0, |ms| ms.saturating_add(1));
                head.varint(u64::from(graph)).varint(history).varint(versions);
                add(RETENTION_SET, &[tags::catalogue().tag()], &[head.as_slice()], effects)
            }
            Effect::HistoryTrimmed { graph, from } => {
                head.varint(u64::from(graph)).varint(from.get());
                add(HISTORY_TRIMMED, &[tags::catalogue().tag()], &[head.as_slice()], effects)
            }
        }
    }

    /// Decodes an entry.
    ///
    /// # Panics
    /// When [`Effect::push`] did not write it: the log has verified the entry.
    pub(crate) fn of(entry: &Entry<'a>) -> Self {
        assert_eq!(entry.kind.model, ModelId::GRAPH, "entry {} is another model's", entry.place);
        match Effect::decode(entry.kind.kind, entry.body) {
            Ok(effect) => effect,
            Err(error) => panic!("entry {} is not a graph's: {error}", entry.place),
        }
    }

    /// Like [`Effect::of`], for entries that a newer program may have written.
    ///
    /// # Errors
    /// When the bytes are not what [`Effect::push`] writes.
    pub(crate) fn read(entry: &Entry<'a>) -> Result<Self, CodecError> {
        Effect::decode(entry.kind.kind, entry.body)
    }

    /// Decodes the body of an entry of this kind.
    ///
    /// # Errors
    /// When the bytes are not what [`Effect::push`] writes.
    fn decode(kind: u8, body: &'a [u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        let graph = from.varint_u32()?;
        let effect = match kind {
            GRAPH_NAMED => Effect::GraphNamed { graph, name: rest_as_str(&mut from)? },
            KIND_NAMED => Effect::KindNamed { graph, number: from.varint_u32()?, name: rest_as_str(&mut from)? },
            EDGE_TYPE_NAMED => {
                Effect::EdgeTypeNamed { graph, number: from.varint_u32()?, name: rest_as_str(&mut from)? }
            }
            BLOCK_PUT => Effect::BlockPut(BlockPut::decode(graph, &mut from)?),
            BLOCK_DELETED => Effect::BlockDeleted { graph, id: decode_id(&mut from)? },
            EDGE_PUT => Effect::EdgePut { graph, key: decode_edge(&mut from)?, properties: from.rest() },
            EDGE_DELETED => Effect::EdgeDeleted { graph, key: decode_edge(&mut from)? },
            RETENTION_SET => {
                let (history_ms, versions) = (from.varint()?.checked_sub(1), from.varint()?);
                Effect::RetentionSet { graph, retention: Retention { history_ms, versions } }
            }
            HISTORY_TRIMMED => Effect::HistoryTrimmed { graph, from: Position::new(from.varint()?) },
            _ => return Err(CodecError { expected: "a kind of entry that graphs have", bytes_left: body.len() }),
        };
        from.end()?;
        Ok(effect)
    }
}

impl<'a> BlockPut<'a> {
    fn push(&self, user_tags: &[&str], effects: &mut dyn Effects) -> Placement {
        let (name, source) = (self.name.unwrap_or_default(), self.source);
        let (mut head, mut source_head, mut metadata_head) = (Head::new(), Head::new(), Head::new());
        head.varint(u64::from(self.graph)).raw(self.id.as_bytes()).varint(self.version.get());
        head.varint(u64::from(self.kind)).varint(name.len() as u64);
        source_head.varint(source.len() as u64);
        metadata_head.varint(self.metadata.len() as u64);
        let [head, source_head, metadata_head] = [&head, &source_head, &metadata_head].map(Head::as_slice);
        let body = [head, name.as_bytes(), source_head, source.as_bytes(), metadata_head, self.metadata, self.content];

        let (id, all) = (tags::block(self.graph, self.id), tags::graph(self.graph));
        let kind = tags::kind(self.graph, self.kind);
        let own = [id.tag(), all.tag(), kind.tag()];
        if user_tags.is_empty() {
            return add(BLOCK_PUT, &own, &body, effects);
        }
        let users: Vec<TagBuf> = user_tags.iter().map(|tag| tags::user(self.graph, tag)).collect();
        let tags: Vec<Tag<'_>> = own.into_iter().chain(users.iter().map(TagBuf::tag)).collect();
        add(BLOCK_PUT, &tags, &body, effects)
    }

    /// Decodes an entry that puts a block; `None` for another entry. Reads of many blocks use it
    /// instead of [`Effect::of`].
    ///
    /// # Panics
    /// As [`Effect::of`].
    #[inline]
    pub(crate) fn of(entry: &Entry<'a>) -> Option<Self> {
        if entry.kind != (EntryKind { model: ModelId::GRAPH, kind: BLOCK_PUT }) {
            return None;
        }
        let mut from = Decoder::new(entry.body);
        match from.varint_u32().and_then(|graph| BlockPut::decode(graph, &mut from)) {
            Ok(put) => Some(put),
            Err(error) => panic!("entry {} is not a graph's: {error}", entry.place),
        }
    }

    #[inline]
    fn decode(graph: u32, from: &mut Decoder<'a>) -> Result<Self, CodecError> {
        Ok(BlockPut {
            graph,
            id: decode_id(from)?,
            version: Version::new(from.varint()?),
            kind: from.varint_u32()?,
            name: Some(from.str()?).filter(|name| !name.is_empty()),
            source: from.str()?,
            metadata: from.bytes()?,
            content: from.rest(),
        })
    }
}

fn add(kind: u8, tags: &[Tag<'_>], body: &[&[u8]], effects: &mut dyn Effects) -> Placement {
    let kind = EntryKind { model: ModelId::GRAPH, kind };
    effects.push(NewEntry { kind, tags, sequenced: None, body })
}

fn add_edge(kind: u8, graph: u32, key: EdgeKey, properties: &[u8], effects: &mut dyn Effects) -> Placement {
    let (source, all, target) = (tags::source(graph, key.near), tags::graph(graph), tags::target(graph, key.far));
    let mut head = Head::new();
    head.varint(u64::from(graph)).raw(key.near.as_bytes());
    head.varint(u64::from(key.edge_type)).raw(key.far.as_bytes());
    add(kind, &[source.tag(), all.tag(), target.tag()], &[head.as_slice(), properties], effects)
}

/// The first bytes of a body, made on the stack, since every put makes them: at most two ids and
/// three numbers.
struct Head {
    bytes: [u8; 64],
    length: usize,
}

impl Head {
    fn new() -> Self {
        Head { bytes: [0; 64], length: 0 }
    }

    /// Writes as [`Encoder::varint`](quire_model::codec::Encoder::varint) does.
    #[inline]
    fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.bytes[self.length] = (value as u8) | 0x80;
            self.length += 1;
            value >>= 7;
        }
        self.bytes[self.length] = value as u8;
        self.length += 1;
        self
    }

    #[inline]
    fn raw(&mut self, id: &[u8; 16]) -> &mut Self {
        self.bytes[self.length..self.length + 16].copy_from_slice(id);
        self.length += 16;
        self
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn decode_edge(from: &mut Decoder<'_>) -> Result<EdgeKey, CodecError> {
    Ok(EdgeKey { near: decode_id(from)?, edge_type: from.varint_u32()?, far: decode_id(from)? })
}

/// Reads the 16 bytes of an id.
pub(crate) fn decode_id(from: &mut Decoder<'_>) -> Result<BlockId, CodecError> {
    let bytes = from.raw(16)?;
    Ok(BlockId::new(bytes.try_into().expect("16 bytes were requested")))
}

fn rest_as_str<'a>(from: &mut Decoder<'a>) -> Result<&'a str, CodecError> {
    let bytes = from.rest();
    core::str::from_utf8(bytes).map_err(|_| CodecError { expected: "UTF-8 text", bytes_left: bytes.len() })
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use quire_model::memory::MemoryLog;
    use quire_model::{Position, Timestamp};

    use super::*;

    /// Writes the effect and gives its entry's kind, body and number of tags.
    fn written(effect: &Effect<'_>, user_tags: &[&str]) -> (u8, Vec<u8>, Vec<String>) {
        let mut log = MemoryLog::new();
        let mut draft = log.draft(Timestamp::ZERO);
        assert_eq!(effect.push(user_tags, &mut draft).place.position, Position::new(1));
        let draft = draft.finish();
        let entry = log.append(draft).next().expect("one entry");
        assert_eq!(Effect::of(&entry), *effect);
        (entry.kind.kind, entry.body.into(), tags::users(entry.tags).map(String::from).collect())
    }

    proptest! {
        #[test]
        fn written_bodies_are_read_back_and_cut_ones_are_refused(
            (graph, number, version) in any::<(u32, u32, u64)>(),
            (near, far) in any::<([u8; 16], [u8; 16])>(),
            (name, source) in (".{1,9}", ".{0,9}"),
            (metadata, content) in (vec(any::<u8>(), 0..200), vec(any::<u8>(), 0..9)),
            user_tags in vec(".{1,5}", 0..4),
        ) {
            let (id, version) = (BlockId::new(near), Version::new(version));
            let key = EdgeKey { near: id, edge_type: number, far: BlockId::new(far) };
            let user_tags: Vec<&str> = user_tags.iter().map(String::as_str).collect();
            let named = BlockPut {
                graph, id, version, kind: number, name: Some(&name), source: &source, metadata: &metadata, content: &content,
            };
            let effects = [
                Effect::GraphNamed { graph, name: &name },
                Effect::KindNamed { graph, number, name: &name },
                Effect::EdgeTypeNamed { graph, number, name: &name },
                Effect::BlockPut(named),
                Effect::BlockPut(BlockPut { name: None, ..named }),
                Effect::BlockDeleted { graph, id },
                Effect::EdgePut { graph, key, properties: &content },
                Effect::EdgeDeleted { graph, key },
                Effect::RetentionSet { graph, retention: Retention { history_ms: None, versions: version.get() } },
                Effect::RetentionSet { graph, retention: Retention { history_ms: Some(version.get() / 2), versions: 0 } },
                Effect::HistoryTrimmed { graph, from: Position::new(version.get()) },
            ];
            for effect in effects {
                let own_tags = if matches!(effect, Effect::BlockPut(_)) { &user_tags[..] } else { &[] };
                let (kind, body, tags) = written(&effect, own_tags);
                prop_assert_eq!(tags, own_tags);
                for cut in 0..body.len() {
                    prop_assert_ne!(Effect::decode(kind, &body[..cut]), Ok(effect));
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(kind in 0u8..11, body in vec(any::<u8>(), 0..80)) {
            let _ = Effect::decode(kind, &body);
        }
    }
}
