//! The file of an index, looked at without opening the log.

use std::path::Path;
use std::sync::Arc;

use quire_mapped::Appender;
use quire_model::{Position, Sequence, Tag, Timestamp};

use super::blocks::Blocks;
use super::header::{HEADER_BYTES, IndexHeader};
use super::index::Index;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::storage::Storage;

/// What the index of a sealed segment says, every byte of which verified.
#[derive(Debug)]
pub struct IndexFile {
    /// The log that it is of.
    pub identity: Identity,
    /// The first record of the segment, and the position that follows the last one.
    pub first: Position,
    /// See `first`.
    pub end: Position,
    /// When the last record was appended.
    pub time: Timestamp,
    /// How many records the segment has.
    pub records: u32,
    /// How many entries those have.
    pub entries: u32,
    /// How many tags those carry.
    pub tags: u32,
    /// The bytes of the filter that tells which tags the segment does not hold.
    pub filter_bytes: u64,
    /// Whether it is of a segment that a compaction rewrote.
    pub compacted: bool,
    /// The tags that give numbers, in the order of their bytes.
    pub numbered: Vec<NumberedTag>,
}

/// What of a tag that gives numbers stands in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedTag {
    tag: Vec<u8>,
    /// The first number in the segment, and the one that follows the last.
    pub first: Sequence,
    /// See `first`.
    pub next: Sequence,
    /// The position of the first entry.
    pub position: Position,
}

impl NumberedTag {
    /// The tag.
    pub fn tag(&self) -> Tag<'_> {
        Tag::new(&self.tag)
    }
}

impl IndexFile {
    /// Reads one, of whatever log; `None` when it does not verify.
    ///
    /// # Errors
    /// [`Error::NewerFormat`] and [`Error::Io`].
    pub fn read(storage: &Arc<dyn Storage>, path: &Path) -> Result<Option<Self>> {
        let bytes = storage.read(path).map_err(|error| Error::io("read", path, error))?;
        let head = &bytes[..bytes.len().min(HEADER_BYTES)];
        let Some(body_at) = IndexHeader::head_bytes(head).filter(|body_at| *body_at <= bytes.len()) else {
            return Ok(None);
        };
        let (head, body) = bytes.split_at(body_at);
        let Some((header, checksums)) = IndexHeader::decode(head, path)? else { return Ok(None) };
        if header.file_bytes() != bytes.len() as u64 {
            return Ok(None);
        }
        let mut memory = Appender::in_memory(body.len()).map_err(|error| Error::io("read", path, error))?;
        memory.bytes_mut(0..body.len()).copy_from_slice(body);
        memory.settle(body.len());
        let index = Index::new(header, Blocks::new(memory.view(), 0, body.len(), checksums));
        let Ok(numbered) = index.blocks.verify_all().and_then(|()| index.numbered()) else { return Ok(None) };
        let numbered = numbered.iter().map(|numbered| NumberedTag {
            tag: numbered.tag.as_bytes().to_vec(),
            first: numbered.first,
            next: numbered.next,
            position: numbered.position,
        });
        let IndexHeader { identity, first, end, time, records, entries, tags, filter_bytes, compacted, .. } = header;
        let numbered = numbered.collect();
        Ok(Some(IndexFile { identity, first, end, time, records, entries, tags, filter_bytes, compacted, numbered }))
    }
}
