//! Opens sealed segments, a limited number at a time, and reports their damage.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quire_model::{Place, Position, ReadError, ReadErrorKind};

use super::blocks::{BadBlock, IndexBlocks};
use super::build::{BadRecord, BuiltIndex, RecordSource, build};
use super::header::{HEADER_BYTES, IndexHeader};
use super::image::SegmentImage;
use super::index::{SealedIndex, TagNumbers};
use super::open::{Flaw, OpenSegment};
use super::{MappedFiles, SealedSegment, index_name};
use crate::error::{Damage, Error, Result, file_label};
use crate::identity::Identity;
use crate::packed::{BadTable, Unpacker};
use crate::record::RecordFault;
use crate::segment::{
    COMPACTED_HEADER_BYTES, HEADER_BYTES as SEGMENT_HEADER_BYTES, SegmentHeader, TagHash, segment_name,
};
use crate::settings::Settings;
use crate::storage::directory::Directory;

/// See the module.
#[derive(Debug)]
pub(crate) struct Archive {
    directory: Arc<Directory>,
    identity: Identity,
    /// Most segments that stay mapped without a reader.
    open_max: usize,
    /// The memory of unpacked frames, and its limit.
    unpacker: Arc<Unpacker>,
    /// The segments that stay mapped, in the order in which they were opened or last found in use.
    open: Mutex<VecDeque<Arc<OpenSegment>>>,
    /// Damage that was found and could not be repaired.
    damage: Mutex<Vec<Damage>>,
}

impl Archive {
    pub(crate) fn new(directory: Arc<Directory>, identity: Identity, settings: &Settings) -> Self {
        Archive {
            directory,
            identity,
            open_max: settings.segments_open_max,
            unpacker: Unpacker::new(settings.unpacked_bytes_max),
            open: Mutex::default(),
            damage: Mutex::default(),
        }
    }

    /// The sealed segment with this header, if it has a sound index.
    ///
    /// # Errors
    /// [`Error::NewerFormat`] and [`Error::Io`].
    pub(crate) fn find(&self, of: &SegmentHeader, segment_crc: u32) -> Result<Option<Arc<SealedSegment>>> {
        Ok(self.find_index(of.first)?.filter(|sealed| sealed.header.segment == segment_crc))
    }

    /// The sealed segment that begins with record `first`, if it has a sound index. Does not read
    /// the segment.
    ///
    /// # Errors
    /// The errors of [`Archive::find`].
    pub(crate) fn find_index(&self, first: Position) -> Result<Option<Arc<SealedSegment>>> {
        let Some((header, _)) = self.index_head(first)? else { return Ok(None) };
        let own = header.identity == self.identity && header.first == first && first <= header.end;
        Ok(own.then(|| Arc::new(SealedSegment::new(header))))
    }

    /// Reads and verifies the header and the checksums of the index of the segment that begins with
    /// `first`.
    fn index_head(&self, first: Position) -> Result<Option<(IndexHeader, Vec<u32>)>> {
        let name = index_name(first);
        let Some(fixed) = self.directory.try_read_head(&name, HEADER_BYTES)? else { return Ok(None) };
        let Some(bytes) = IndexHeader::head_bytes(&fixed) else { return Ok(None) };
        let head = self.directory.read_head(&name, bytes)?;
        let Some((header, checksums)) = IndexHeader::decode(&head, &self.directory.path_of(&name))? else {
            return Ok(None);
        };
        let whole = self.directory.bytes_of(&name)? == header.file_bytes();
        Ok(whole.then_some((header, checksums)))
    }

    /// Builds the index of a segment whose records, up to the end of `bytes`, are durable, and
    /// writes its file.
    ///
    /// # Errors
    /// [`Error::Damaged`]; [`Error::NoSpace`] and [`Error::Io`] when the index cannot be written.
    pub(crate) fn seal(&self, bytes: &[u8], of: &SegmentHeader) -> Result<Arc<SealedSegment>> {
        let built = self.build(bytes, of)?;
        assert_eq!(built.header.first, of.first, "an index has the first position of its segment");
        self.directory.write_derived(&index_name(of.first), &[&built.head, &built.body])?;
        Ok(Arc::new(SealedSegment::new(built.header)))
    }

    /// Keeps a segment mapped while any list of segments contains it, because its files are about
    /// to be removed.
    pub(crate) fn hold(&self, sealed: &SealedSegment) -> Result<(), ReadError> {
        self.may_hold(sealed, TagHash::NONE)?;
        let open = self.open(sealed)?;
        self.hold_open(sealed, open);
        Ok(())
    }

    /// Makes `open` the mapping of the segment while any list of segments contains it.
    fn hold_open(&self, sealed: &SealedSegment, open: Arc<OpenSegment>) {
        let mut mapped = sealed.lock();
        let before = mapped.files.upgrade();
        mapped.held = Some(open);
        // A held segment must not stay in the list of mapped segments, which would outlive it.
        remove_open(&mut self.lock(), before.as_ref());
    }

    /// Ends [`Archive::hold`]: the files were not removed, or the index could be written. Keeps the
    /// segment held if another segment has its name by now.
    pub(crate) fn release(&self, sealed: &SealedSegment) {
        if self.map_known(sealed).is_ok() {
            sealed.lock().held = None;
        }
    }

    /// The segment that a compaction just wrote, with a new index.
    pub(crate) fn adopt(&self, first: Position) -> Result<Arc<SealedSegment>> {
        let name = segment_name(first);
        let head = self.directory.read_head(&name, COMPACTED_HEADER_BYTES)?;
        let of = SegmentHeader::decode(&head, &self.directory.path_of(&name), self.identity)?;
        self.seal_found(self.image(&of)?, &of)
    }

    /// As [`Archive::seal`], except that an index that cannot be written stays in memory.
    ///
    /// # Errors
    /// [`Error::Damaged`], and [`Error::Io`] when no memory is available for the index.
    pub(crate) fn seal_found(&self, image: SegmentImage, of: &SegmentHeader) -> Result<Arc<SealedSegment>> {
        let built = self.build(&image.detached(), of)?;
        let sealed = SealedSegment::new(built.header);
        if !self.write(&built) {
            self.keep_in_memory(&sealed, image, &built)?;
        }
        Ok(Arc::new(sealed))
    }

    /// As [`Archive::seal_found`], without writing: the caller calls [`Archive::write`] later.
    pub(crate) fn seal_in_memory(&self, of: &SegmentHeader) -> Result<(Arc<SealedSegment>, BuiltIndex)> {
        let image = self.image(of)?;
        let built = self.build(&image.detached(), of)?;
        let sealed = SealedSegment::new(built.header);
        self.keep_in_memory(&sealed, image, &built)?;
        Ok((Arc::new(sealed), built))
    }

    /// Writes the file of an index. Returns whether that succeeded.
    pub(crate) fn write(&self, built: &BuiltIndex) -> bool {
        self.directory.write_derived(&index_name(built.header.first), &[&built.head, &built.body]).is_ok()
    }

    /// Keeps an index in memory while the log is open. The next opening rebuilds it.
    fn keep_in_memory(
        &self,
        sealed: &SealedSegment,
        image: SegmentImage,
        built: &BuiltIndex,
    ) -> Result<Arc<OpenSegment>> {
        let path = self.directory.path_of(&index_name(sealed.first()));
        let index = SealedIndex::in_memory(built).map_err(|error| Error::io("map", &path, error))?;
        let open = Arc::new(OpenSegment::new(image, index));
        self.hold_open(sealed, Arc::clone(&open));
        Ok(open)
    }

    fn build<R: RecordSource + ?Sized>(&self, records: &R, of: &SegmentHeader) -> Result<BuiltIndex> {
        build(records, of).map_err(|bad| self.bad_record(of.first, &bad))
    }

    /// The header and records of the segment with this header, from its file.
    fn image(&self, of: &SegmentHeader) -> Result<SegmentImage> {
        let file = self.directory.map_whole(&segment_name(of.first), of.bytes)?;
        SegmentImage::of(file, of, &self.unpacker).map_err(|bad| self.damaged_table(of.first, bad).into_error())
    }

    /// Whether an entry with a tag of this hash may be in a segment.
    pub(crate) fn may_hold(&self, sealed: &SealedSegment, tag: TagHash) -> Result<bool, ReadError> {
        if let Some(answer) = sealed.may_hold(tag) {
            return Ok(answer);
        }
        let filter = self.query_index(sealed, SealedIndex::filter)?;
        Ok(sealed.filter.get_or_init(|| filter).may_hold(tag))
    }

    /// Queries the index of a segment, whose own file may be missing. Rebuilds a damaged index, and
    /// queries again.
    fn query_index<T>(
        &self,
        sealed: &SealedSegment,
        mut query: impl FnMut(&SealedIndex) -> std::result::Result<T, BadBlock>,
    ) -> Result<T, ReadError> {
        let answered = match sealed.mapped() {
            Some(open) => Some(query(&open.index)),
            None => self.map_index(sealed).map_err(|error| unreadable(&error))?.map(|index| query(&index)),
        };
        match answered {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(_)) | None => {
                let rebuilt = self.rebuild(sealed)?;
                query(&rebuilt.index).map_err(|bad| self.read_error(sealed, Flaw::Index(bad)))
            }
        }
    }

    /// Maps the segment, or returns its current mapping.
    pub(crate) fn open(&self, sealed: &SealedSegment) -> Result<Arc<OpenSegment>, ReadError> {
        if let Some(open) = sealed.mapped() {
            open.used.store(true, Ordering::Relaxed);
            let reopened = if self.has_outgrown(&open) { self.reopen(sealed) } else { None };
            return Ok(reopened.unwrap_or(open));
        }
        match self.map(sealed) {
            Ok(Some(open)) => Ok(self.keep(sealed, open)),
            Ok(None) => self.rebuild(sealed),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// Rebuilds the index of a segment, because its file is damaged or missing.
    pub(crate) fn rebuild(&self, sealed: &SealedSegment) -> Result<Arc<OpenSegment>, ReadError> {
        self.rebuilt(sealed).map_err(|error| unreadable(&error))
    }

    fn rebuilt(&self, sealed: &SealedSegment) -> Result<Arc<OpenSegment>> {
        let (image, of) = self.map_segment(sealed)?;
        let built = self.build(&image.detached(), &of?)?;
        if self.write(&built)
            && let Some(open) = self.map(sealed)?
        {
            return Ok(self.keep(sealed, open));
        }
        self.keep_in_memory(sealed, image, &built)
    }

    /// Passes the numbers of each tag with sequences to `each`.
    pub(crate) fn numbered(
        &self,
        sealed: &SealedSegment,
        mut each: impl FnMut(&[TagNumbers<'_>]),
    ) -> Result<(), ReadError> {
        self.query_index(sealed, |index| index.numbered().map(|numbered| each(&numbered)))
    }

    /// Maps both files; `None` when the index is damaged or another one.
    fn map(&self, sealed: &SealedSegment) -> Result<Option<OpenSegment>> {
        let Some(index) = self.map_index(sealed)? else { return Ok(None) };
        let (image, _) = self.map_segment(sealed)?;
        Ok(Some(OpenSegment::new(image, index)))
    }

    /// Whether a packed segment has too many unpacked bytes to be shared with further readers. With
    /// a steady flow of readers it would otherwise never be released, and grow.
    fn has_outgrown(&self, open: &OpenSegment) -> bool {
        self.unpacker.is_over() && open.image.unpacked_bytes() > self.unpacker.open_bytes_most()
    }

    /// Maps a segment again, for later readers. Returns `None` when that fails; the current mapping
    /// then stays.
    fn reopen(&self, sealed: &SealedSegment) -> Option<Arc<OpenSegment>> {
        // A compactor holds the segment before it replaces the files, and waits for this lock.
        let mapped = sealed.lock();
        if mapped.held.is_some() {
            return None;
        }
        let index = self.map_index(sealed).ok()??;
        let (image, _) = self.map_known(sealed).ok()?;
        Some(self.keep_in(mapped, OpenSegment::new(image, index)))
    }

    /// Maps the index that was known; `None` when it is damaged or another one.
    fn map_index(&self, sealed: &SealedSegment) -> Result<Option<SealedIndex>> {
        let head = self.index_head(sealed.first())?;
        let Some((header, checksums)) = head.filter(|(header, _)| *header == sealed.header) else { return Ok(None) };
        let file = self.directory.map_whole(&index_name(sealed.first()), header.file_bytes())?;
        let blocks = IndexBlocks::new(file, header.body_at(), header.body_bytes() as usize, checksums);
        Ok(Some(SealedIndex::new(header, blocks)))
    }

    /// Records damage in a segment's file outside of its records, and whether the file is missing.
    pub(crate) fn check_file(&self, sealed: &SealedSegment) {
        // Damage is recorded. A shortage of memory or of file handles is left for a later reader to
        // report.
        let _ = self.map_segment(sealed);
    }

    /// Maps a known segment, or the rest of it, and records damage. Each record is verified when it
    /// is read.
    fn map_segment(&self, sealed: &SealedSegment) -> Result<(SegmentImage, Result<SegmentHeader>)> {
        let error = match self.map_known(sealed) {
            Ok((image, of)) => return Ok((image, Ok(of))),
            // A compactor removes a file only after every opening of the log holds it, so the file
            // was lost.
            Err(error) if error.is_missing() => {
                let last = sealed.header.end.get() - 1;
                let message = format!("the file is missing; its records up to {last} are lost");
                return Err(self.note(self.damage_of(sealed.first(), 0, sealed.first(), message)).into_error());
            }
            Err(error) => error,
        };
        let Error::Damaged { path, offset, position, message } = &error else { return Err(error) };
        self.note(Damage { path: path.clone(), offset: *offset, position: *position, message: message.clone() });
        match self.map_rest(sealed)? {
            Some(rest) => Ok((rest, Err(error))),
            None => Err(error),
        }
    }

    fn map_known(&self, sealed: &SealedSegment) -> Result<(SegmentImage, SegmentHeader)> {
        let name = segment_name(sealed.first());
        let path = self.directory.path_of(&name);
        let head = self.directory.read_head(&name, COMPACTED_HEADER_BYTES)?;
        let of = SegmentHeader::decode(&head, &path, self.identity)?;
        let damaged = |offset, message| Err(Error::Damaged { path, offset, position: Some(sealed.first()), message });
        if SegmentHeader::crc_of(&head) != sealed.header.segment {
            let message = "the segment differs from the one that the log was opened with; if another process compacted it, reopen the log";
            return damaged(0, message.to_owned());
        }
        let bytes = self.directory.bytes_of(&name)?;
        // Zeros follow the records of a segment that is not compacted; they are never read.
        let end = if of.compacted.is_some() { of.bytes } else { u64::from(sealed.header.records_end) };
        if bytes < end {
            return damaged(bytes, format!("the file ends here, but its records end at byte {end}"));
        }
        let image = self.image(&SegmentHeader { bytes: of.bytes.min(bytes), ..of })?;
        Ok((image.up_to(sealed.header.records_end as usize), of))
    }

    /// Maps the rest of a segment that lost its header or its end. Returns `None` for a compacted
    /// segment, which cannot be read without its header, and for another file.
    fn map_rest(&self, sealed: &SealedSegment) -> Result<Option<SegmentImage>> {
        let name = segment_name(sealed.first());
        let head = self.directory.read_head(&name, COMPACTED_HEADER_BYTES)?;
        let other = SegmentHeader::is_whole(&head) && SegmentHeader::crc_of(&head) != sealed.header.segment;
        let end = self.directory.bytes_of(&name)?.min(u64::from(sealed.header.records_end));
        if sealed.header.compacted || other || end <= SEGMENT_HEADER_BYTES as u64 {
            return Ok(None);
        }
        Ok(Some(SegmentImage::plain(self.directory.map_whole(&name, end)?)))
    }

    /// Keeps a new mapping of a segment, within the limit of open segments. It replaces a mapping
    /// that another thread has made meanwhile, or a mapping with another index. A segment is kept
    /// only once.
    fn keep(&self, sealed: &SealedSegment, open: OpenSegment) -> Arc<OpenSegment> {
        self.keep_in(sealed.lock(), open)
    }

    fn keep_in(&self, mut mapped: MutexGuard<'_, MappedFiles>, open: OpenSegment) -> Arc<OpenSegment> {
        // Lock order: first the segment, then the list of all segments.
        let before = mapped.files.upgrade();
        let open = Arc::new(open);
        if mapped.held.is_some() {
            mapped.held = Some(Arc::clone(&open));
            return open;
        }
        mapped.files = Arc::downgrade(&open);
        let mut all = self.lock();
        remove_open(&mut all, before.as_ref());
        debug_assert!(!all.iter().any(|other| Arc::ptr_eq(other, &open)), "a segment is kept once");
        all.push_back(Arc::clone(&open));
        let closed = self.evict(&mut all);
        drop(all);
        drop(mapped);
        drop(closed);
        open
    }

    /// Closes unused segments when too many bytes are unpacked. Readers call it after they release
    /// segments.
    pub(crate) fn settle_unpacked(&self) {
        if self.unpacker.is_over() {
            let closed = self.evict(&mut self.lock());
            drop(closed);
        }
    }

    /// Removes segments that were not used recently, while there are too many or too many of their
    /// bytes are unpacked.
    fn evict(&self, all: &mut VecDeque<Arc<OpenSegment>>) -> Vec<Arc<OpenSegment>> {
        let before = all.len();
        let mut unpacked = match self.unpacker.is_over() {
            true => all.iter().map(|open| open.image.unpacked_bytes()).sum(),
            false => 0,
        };
        let mut closed = Vec::new();
        // Second chance: a segment used since the last check stays. Each segment is checked at most
        // twice.
        for _ in 0..2 * all.len() {
            let (too_many, too_much) = (all.len() > self.open_max, unpacked > self.unpacker.bytes_max());
            if !too_many && !too_much {
                break;
            }
            let Some(oldest) = all.pop_front() else { break };
            let bytes = oldest.image.unpacked_bytes();
            let helps = too_many || bytes > 0;
            if oldest.used.swap(false, Ordering::Relaxed) || !helps {
                all.push_back(oldest);
            } else {
                unpacked -= bytes.min(unpacked);
                closed.push(oldest);
            }
        }
        debug_assert_eq!(all.len() + closed.len(), before, "a segment is kept or closed");
        closed
    }

    /// The memory of the open packed segments, in bytes.
    pub(crate) fn unpacked_bytes(&self) -> u64 {
        self.unpacker.bytes()
    }

    /// Whether too many bytes are unpacked, and a reader that keeps `own_bytes` of them should
    /// release some.
    pub(crate) fn has_too_much_unpacked(&self, own_bytes: impl Fn() -> u64) -> bool {
        self.unpacker.is_over() && own_bytes() >= self.unpacker.own_bytes_least()
    }

    /// Verifies part of a segment: about `bytes_max` bytes of records from number `from` on, and
    /// the index if `from` is 0. Damage is recorded, and a damaged index rebuilt. Returns the
    /// number of the next record, if any, and the count of verified bytes.
    pub(crate) fn scrub(&self, sealed: &SealedSegment, from: u32, bytes_max: u64) -> (Option<u32>, u64) {
        assert!(bytes_max > 0, "a scrub verifies at least one record");
        let Ok(open) = self.open(sealed) else { return (None, 0) };
        let mut bytes = 0;
        if from == 0 {
            bytes += open.index.header.file_bytes();
            if let Err(bad) = open.image.verify_table() {
                self.damaged_table(sealed.first(), bad);
                return (None, bytes);
            }
            if open.index.blocks.verify_all().is_err() && self.rebuild(sealed).is_err() {
                return (None, bytes);
            }
        }
        let detached = open.detached();
        for number in from..open.index.header.records {
            match open.verify_record(number, &detached) {
                Ok(record) => bytes += u64::from(record.header.length),
                // This call records damage. A shortage of memory is no damage.
                Err(Flaw::Record(bad)) => drop(self.bad_record(sealed.first(), &bad)),
                // The index was rebuilt, and the next call uses the new one.
                Err(Flaw::Index(_)) => return (Some(number), bytes),
            }
            if bytes >= bytes_max {
                return (Some(number + 1), bytes);
            }
        }
        if open.index.header.compacted
            && let Err(Flaw::Record(bad)) = open.verify_numbers(&detached)
        {
            drop(self.bad_record(sealed.first(), &bad));
        }
        (None, bytes)
    }

    /// The error that a read returns for a flaw. A damaged record is recorded as damage.
    pub(crate) fn read_error(&self, sealed: &SealedSegment, flaw: Flaw) -> ReadError {
        match flaw {
            Flaw::Record(bad) => {
                let place = Some(Place::new(bad.position, 0));
                ReadError { place, ..unreadable(&self.bad_record(sealed.first(), &bad)) }
            }
            Flaw::Index(bad) => {
                let path = self.directory.path_of(&index_name(sealed.first()));
                let (path, offset, message) = (file_label(&path), bad.offset, bad.message);
                let path = path.display();
                ReadError::damaged(None, format!("{path} is damaged at byte {offset}: {message}"))
            }
        }
    }

    /// The error for an unreadable record. It is recorded as damage, except for a shortage of
    /// memory.
    fn bad_record(&self, first: Position, bad: &BadRecord) -> Error {
        let message = bad.fault.to_string();
        if matches!(bad.fault, RecordFault::Memory(_)) {
            let source = io::Error::new(io::ErrorKind::OutOfMemory, message);
            return Error::io("unpack", &self.directory.path_of(&segment_name(first)), source);
        }
        self.note(self.damage_of(first, bad.offset, bad.position, message)).into_error()
    }

    fn damaged_table(&self, first: Position, bad: BadTable) -> Damage {
        self.note(self.damage_of(first, bad.offset, first, bad.message.to_owned()))
    }

    fn damage_of(&self, first: Position, offset: usize, position: Position, message: String) -> Damage {
        let path: PathBuf = self.directory.path_of(&segment_name(first));
        Damage { path, offset: offset as u64, position: Some(position), message }
    }

    fn note(&self, damage: Damage) -> Damage {
        let mut known = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(&damage) {
            known.push(damage.clone());
        }
        damage
    }

    /// The damage found since the log was opened.
    pub(crate) fn damage(&self) -> Vec<Damage> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The count of segments that stay mapped without a reader.
    pub(crate) fn open_count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<OpenSegment>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a segment from the list of mapped segments.
fn remove_open(all: &mut VecDeque<Arc<OpenSegment>>, open: Option<&Arc<OpenSegment>>) {
    if let Some(open) = open {
        all.retain(|other| !Arc::ptr_eq(other, open));
    }
}

fn unreadable(error: &Error) -> ReadError {
    let kind = if matches!(error, Error::Io { .. }) { ReadErrorKind::Io } else { ReadErrorKind::Damaged };
    // Damage of a whole segment does not show where in it the entry is.
    let begins = match error {
        Error::Damaged { position, .. } => position.map(|position| Place::new(position, 0)),
        _ => None,
    };
    ReadError { kind, place: None, begins, message: error.for_clients() }
}
