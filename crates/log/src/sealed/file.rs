//! The file of an index, read without opening the log.

use std::path::Path;
use std::sync::Arc;

use quire_mapped::Appender;
use quire_model::{Position, Sequence, Tag, Timestamp};

use super::blocks::IndexBlocks;
use super::header::{HEADER_BYTES, IndexHeader};
use super::index::SealedIndex;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::storage::Storage;

/// The content of a sealed segment's index, fully verified.
#[derive(Debug)]
pub struct IndexFile {
    /// The log of the segment.
    pub identity: Identity,
    /// The first record of the segment, and the position after the last.
    pub first: Position,
    /// See `first`.
    pub end: Position,
    /// The time of the last record.
    pub time: Timestamp,
    /// The count of records.
    pub records: u32,
    /// The count of entries.
    pub entries: u32,
    /// The count of tags.
    pub tags: u32,
    /// The bytes of the filter, which excludes most tags that the segment does not hold.
    pub filter_bytes: u64,
    /// Whether the segment is compacted.
    pub compacted: bool,
    /// The tags with sequences, in the order of their bytes.
    pub numbered: Vec<NumberedTag>,
}

/// The numbers that the entries of a segment take from a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedTag {
    tag: Vec<u8>,
    /// The first number in the segment, and the number after the last.
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
    /// Reads the file of an index, of any log. Returns `None` when it does not verify.
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
        let index = SealedIndex::new(header, IndexBlocks::new(memory.view(), 0, body.len(), checksums));
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
