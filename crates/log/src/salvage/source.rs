//! A segment of a damaged log: every whole record in it, whatever is damaged around the records.
//!
//! The header is trusted if it verifies. Otherwise the file's name gives the first position, and
//! the bytes give the form of the segment. After damage, reading continues at the next whole
//! record: first where the damaged record says that it ends, then at each possible byte.

use std::path::Path;

use quire_model::Position;

use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::inspect::{UnpackError, UnpackedSegment};
use crate::packed::FrameTable;
use crate::record::{
    ALIGNMENT, HEADER_BYTES as RECORD_HEADER_BYTES, RecordFault, RecordHeader, RecordKind, RecordView,
};
use crate::recovery::{bytes_before_zeros, find_record};
use crate::segment::{COMPACTED_HEADER_BYTES, HEADER_BYTES, SegmentHeader, segment_name};

/// The segment in a file, as far as it can be read.
pub(super) struct SourceSegment {
    /// The header; `None` when it is damaged.
    pub(super) header: Option<SegmentHeader>,
    /// The first byte and the description of damage outside of the records.
    pub(super) damage: Option<(u64, String)>,
    /// The bytes of the file.
    pub(super) file: Vec<u8>,
    form: Form,
}

/// How the file stores records.
enum Form {
    /// Commits without gaps, after a header of 64 bytes.
    Plain,
    /// Records of a compacted segment.
    Compacted,
    /// Records of a compacted segment, unpacked.
    Packed(UnpackedSegment),
    /// Nothing can be read.
    Unreadable,
}

/// A part of a segment.
pub(super) enum SourcePart<'s> {
    /// A whole record at an offset of the image.
    Record(usize, RecordView<'s>),
    /// Damaged bytes: their first byte in the file, a description, and the bytes from there on.
    Damage(u64, String, &'s [u8]),
}

/// The result of reading a segment to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceEnd {
    /// The offset in the image after the last whole record.
    pub(super) offset: usize,
    /// Whether every byte was read as it was written.
    pub(super) is_whole: bool,
}

impl SourceSegment {
    /// Reads the segment `first` of the log `identity` from the bytes of its file.
    ///
    /// # Errors
    /// [`Error::NewerFormat`]: the segment may be intact.
    pub(super) fn new(file: Vec<u8>, path: &Path, first: Position, identity: Identity) -> Result<Self> {
        let header = match SegmentHeader::decode(&file, path, identity) {
            Ok(header) if header.first == first => Ok(header),
            Ok(header) => {
                let name = segment_name(header.first);
                Err((40, format!("the file contains another segment, whose name is {name}"), false))
            }
            Err(Error::Damaged { offset, message, .. }) => Err((offset, message, !SegmentHeader::is_whole(&file))),
            Err(error) => return Err(error),
        };
        Ok(match header {
            Ok(header) => {
                let (form, damage) = Form::known(&file, &header);
                SourceSegment { header: Some(header), damage, file, form }
            }
            Err((offset, message, is_own)) => {
                let form = if is_own { Form::guessed(&file, first) } else { Form::Unreadable };
                SourceSegment { header: None, damage: Some((offset, message)), file, form }
            }
        })
    }

    /// The header and the records, unpacked.
    pub(super) fn image(&self) -> &[u8] {
        if let Form::Packed(unpacked) = &self.form { &unpacked.image } else { &self.file }
    }

    /// Whether the file is packed.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self.form, Form::Packed(_))
    }

    /// Whether the segment is a compacted one, whose positions may have gaps.
    pub(super) fn is_compacted(&self) -> bool {
        matches!(self.form, Form::Compacted | Form::Packed(_))
    }

    /// Passes every whole record from position `first` on and before `end` to `visit`, in order,
    /// and each damage between them.
    pub(super) fn read<'s>(
        &'s self,
        first: Position,
        end: Position,
        mut visit: impl FnMut(SourcePart<'s>),
    ) -> SourceEnd {
        let mut offset = if self.is_compacted() { COMPACTED_HEADER_BYTES } else { HEADER_BYTES };
        let mut is_whole = self.damage.is_none();
        if matches!(self.form, Form::Unreadable) {
            let (offset, message) = self.damage.clone().unwrap_or_default();
            visit(SourcePart::Damage(offset, message, &[]));
            return SourceEnd { offset: HEADER_BYTES, is_whole: false };
        }
        let image = self.image();
        let mut before = self.header.map(|header| header.before());
        let mut expected = first;
        let mut read_to = offset;
        // The record of the numbers ends a compacted segment.
        let mut is_ended = false;
        while !is_ended {
            let here = image.get(offset..).unwrap_or_default();
            let fault = match self.verify(here, expected, end) {
                Ok(record) => match before.map_or(Ok(()), |before| record.header.follows_remains(before)) {
                    Ok(()) => {
                        is_ended = record.kind() == RecordKind::Numbers;
                        before = Some(record.header.mark());
                        expected = record.header.position.next();
                        visit(SourcePart::Record(offset, record));
                        offset += record.header.length as usize;
                        read_to = offset;
                        continue;
                    }
                    Err(fault) => {
                        // A record of another history, and so are all that follow it.
                        visit(SourcePart::Damage(self.byte_of(offset), fault.to_string(), here));
                        return SourceEnd { offset: read_to, is_whole: false };
                    }
                },
                Err(fault) => fault,
            };
            let next = self.next_record(offset, expected, end);
            let is_clean = fault == RecordFault::End && bytes_before_zeros(here) == 0;
            if next.is_none() && is_clean && !self.is_compacted() {
                break;
            }
            is_whole = false;
            let fault = self.frame_fault(offset).unwrap_or(fault);
            visit(SourcePart::Damage(self.byte_of(offset), fault.to_string(), here));
            match next {
                // No valid record before it can confirm the chain.
                Some(next) => (offset, before) = (next, None),
                None => break,
            }
        }
        SourceEnd { offset: read_to, is_whole }
    }

    /// Verifies the record at the start of `bytes`, which must be of this segment and at or after
    /// `expected`.
    fn verify<'s>(&self, bytes: &'s [u8], expected: Position, end: Position) -> Result<RecordView<'s>, RecordFault> {
        let record = RecordView::verify(bytes)?;
        let found = record.header.position;
        match (record.kind(), self.is_compacted()) {
            (RecordKind::Commit, false) | (RecordKind::Remains, true) if found >= end => {
                Err(RecordFault::Position { found, expected })
            }
            (RecordKind::Commit, false) | (RecordKind::Remains | RecordKind::Numbers, true) if found >= expected => {
                Ok(record)
            }
            (RecordKind::Commit, false) | (RecordKind::Remains | RecordKind::Numbers, true) => {
                Err(RecordFault::Position { found, expected })
            }
            _ => Err(RecordFault::Kind(bytes[36])),
        }
    }

    /// Returns the offset of the next whole record after damage at `offset`.
    fn next_record(&self, offset: usize, expected: Position, end: Position) -> Option<usize> {
        let image = self.image();
        if let Form::Packed(unpacked) = &self.form {
            // A frame verifies as a whole.
            let (at, _) = unpacked.next_frame(offset)?;
            return self.verify(&image[at..], expected, end).is_ok().then_some(at);
        }
        let here = image.get(offset..)?;
        // The end that the damaged record states, so that no bytes within its bodies count as
        // records.
        let length = here.get(4..8).map(|length| u32::from_le_bytes(length.try_into().expect("four bytes")) as usize);
        let stated = length.filter(|length| *length >= RECORD_HEADER_BYTES && length.is_multiple_of(ALIGNMENT));
        if let Some(at) = stated.and_then(|length| offset.checked_add(length))
            && image.get(at..).is_some_and(|rest| self.verify(rest, expected, end).is_ok())
        {
            return Some(at);
        }
        let rest = here.get(ALIGNMENT..)?;
        if self.is_compacted() {
            let candidates = (0..bytes_before_zeros(rest)).step_by(ALIGNMENT);
            let is_record = |at: &usize| self.verify(&rest[*at..], expected, end).is_ok();
            return candidates
                .filter(|at| rest.len() - at >= RECORD_HEADER_BYTES)
                .find(is_record)
                .map(|at| offset + ALIGNMENT + at);
        }
        let (at, position) = find_record(rest, expected)?;
        (position < end).then_some(offset + ALIGNMENT + at)
    }

    /// The byte of the file to report for a byte of the image.
    pub(super) fn byte_of(&self, offset: usize) -> u64 {
        if let Form::Packed(unpacked) = &self.form { unpacked.byte_of(offset) as u64 } else { offset as u64 }
    }

    fn frame_fault(&self, offset: usize) -> Option<RecordFault> {
        if let Form::Packed(unpacked) = &self.form { unpacked.damaged(offset) } else { None }
    }
}

impl Form {
    /// The form that a header states, and damage outside of the records.
    fn known(file: &[u8], header: &SegmentHeader) -> (Self, Option<(u64, String)>) {
        match header.compacted.map(|compacted| compacted.packed) {
            None => (Form::Plain, None),
            Some(None) => (Form::Compacted, None),
            Some(Some(image)) => match UnpackedSegment::of(file, image) {
                Ok(unpacked) => (Form::Packed(unpacked), None),
                Err(UnpackError::Table(bad)) => (Form::Unreadable, Some((bad.offset as u64, bad.message.to_owned()))),
                Err(UnpackError::Memory(fault)) => (Form::Unreadable, Some((0, fault.to_string()))),
            },
        }
    }

    /// The form of a segment whose header is damaged.
    fn guessed(file: &[u8], first: Position) -> Self {
        let begins_at = |at: usize, kind: RecordKind| {
            let record = file.get(at..).and_then(|bytes| RecordView::verify(bytes).ok());
            record.is_some_and(|record| record.kind() == kind && record.header.position >= first)
        };
        if begins_at(HEADER_BYTES, RecordKind::Commit) {
            return Form::Plain;
        }
        if [RecordKind::Remains, RecordKind::Numbers].into_iter().any(|kind| begins_at(COMPACTED_HEADER_BYTES, kind)) {
            return Form::Compacted;
        }
        // The frames of a packed segment have checksums of their own.
        let unpacked = FrameTable::image_of(file).and_then(|image| UnpackedSegment::of(file, image).ok());
        match unpacked {
            Some(unpacked) => Form::Packed(unpacked),
            // The first record is damaged, too.
            None if SegmentHeader::is_of_compacted(file) => Form::Compacted,
            None => Form::Plain,
        }
    }
}

/// Returns the checksum that a record at `position` has, if the bytes of a segment hold it.
pub(super) fn chain_at(segment: &SourceSegment, first: Position, position: Position) -> Option<u32> {
    if let Some(compacted) = segment.header.and_then(|header| header.compacted)
        && compacted.end == position.next()
    {
        return Some(compacted.chain);
    }
    let mut chain = None;
    segment.read(first, Position::MAX, |part| {
        if let SourcePart::Record(_, record) = part {
            let RecordHeader { position: found, crc, previous, .. } = record.header;
            if record.kind() == RecordKind::Commit {
                // The record itself, or the next one, which names it.
                chain = chain.or((found == position).then_some(crc)).or((found == position.next()).then_some(previous));
            }
        }
    });
    chain
}
