//! Appends records that another node of a cluster appended, byte for byte.
//!
//! The record keeps its position, its time, its term and its numbers. It must follow the last
//! record here: the same position, checksum and term before it. So a log that differs is noticed at
//! the first record after the difference.

use quire_model::Entry;

use crate::append::writer::{Core, Writer};
use crate::durable::gate::Woken;
use crate::error::{Error, Result};
use crate::mark::Mark;
use crate::processes::turn;
use crate::record::{RecordHeader, RecordKind, RecordView, TERMINATOR_BYTES};

/// A record that another node sent, verified: its checksums, its kind and its length.
#[derive(Debug, Clone, Copy)]
pub struct RecordCopy<'a> {
    header: RecordHeader,
    bytes: &'a [u8],
}

impl<'a> RecordCopy<'a> {
    /// Verifies the record at the start of `bytes`. Other records may follow it.
    ///
    /// # Errors
    /// [`Error::InvalidCopy`] with the first defect.
    pub fn verify(bytes: &'a [u8]) -> Result<Self> {
        let invalid = |message: String| Error::InvalidCopy { message };
        let record = RecordView::verify(bytes).map_err(|fault| invalid(fault.to_string()))?;
        if record.kind() != RecordKind::Commit || record.header.entries == 0 {
            return Err(invalid(format!("record {} is not a whole commit", record.header.position)));
        }
        Ok(RecordCopy { header: record.header, bytes: record.bytes_from(0) })
    }

    /// The mark of the record.
    pub fn mark(&self) -> Mark {
        self.header.mark()
    }

    /// The record's bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The first entry of the record.
    pub fn first_entry(&self) -> Entry<'a> {
        RecordView::verified_before(self.bytes).first_entry()
    }

    /// Checks that the record is the next one after the record of `before`.
    ///
    /// # Errors
    /// [`Error::InvalidCopy`] with the difference.
    pub fn check_follows(&self, before: Mark) -> Result<()> {
        let message =
            |fault| format!("record {} of another node does not follow {before}: {fault}", self.header.position);
        self.header.follows(before).map_err(|fault| Error::InvalidCopy { message: message(fault) })
    }
}

impl Writer {
    /// Appends a record of another node after the last record. The caller must then apply it, as
    /// with a [followed](Writer::follow) record.
    ///
    /// # Errors
    /// [`Error::InvalidCopy`] when the record does not follow the last one, [`Error::TooLarge`],
    /// [`Error::NoSpace`] and [`Error::Io`]: nothing was appended.
    /// [`Error::Failed`] after a failure.
    pub fn append_copy(&mut self, record: &RecordCopy<'_>) -> Result<Woken> {
        let mut turn = self.turn()?;
        while turn.follow()?.is_some() {}
        let core = &mut turn.writer().core;
        record.check_follows(core.mark)?;
        let woken = core.append_copy(record)?;
        drop(turn);
        self.refresh();
        Ok(woken)
    }
}

impl Core {
    fn append_copy(&mut self, record: &RecordCopy<'_>) -> Result<Woken> {
        let RecordCopy { header, bytes } = *record;
        debug_assert!(turn::is_own(self.shared.control()), "only the holder of the turn appends");
        if bytes.len() as u64 > self.record_bytes_max() {
            return Err(Error::TooLarge { bytes: bytes.len() as u64, bytes_max: self.record_bytes_max() });
        }
        self.shared.check()?;
        // The reserve is the leader's to keep: what it has appended must find space here.
        self.make_room(bytes.len(), true, header.time)?;
        self.prepare_first(header.time);
        let tail = self.active.appender.settled();
        let terminator = TERMINATOR_BYTES.min(self.active.appender.len() - tail - bytes.len());
        // A writer that stops between here and the commit point leaves a record that no reader
        // sees.
        self.to_clear = true;
        if self.writes_in_place() && bytes.len() <= self.in_place_bytes_max() {
            let place = self.active.appender.bytes_mut(tail..tail + bytes.len() + terminator);
            place[..bytes.len()].copy_from_slice(bytes);
            place[bytes.len()..].fill(0);
        } else {
            let whole = bytes.len() + terminator;
            let buffer = self.buffered(0..whole);
            buffer[..bytes.len()].copy_from_slice(bytes);
            buffer[bytes.len()..].fill(0);
            self.write_buffered(tail, whole)?;
        }
        // A forgotten draft may have left notes.
        self.end_draft();
        let range = tail..tail + bytes.len();
        let view = RecordView::sealed(self.active.appender.bytes(range.clone()));
        self.tags.read(view, self.shared.seed(), &mut self.sequences);
        self.take_in(range, header.mark(), header.time);
        self.shared.clock().not_before(header.time);
        self.to_clear = false;
        Ok(self.shared.note_append(header.position, header.entries, bytes.len(), None))
    }
}
