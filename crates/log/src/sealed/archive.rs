//! Opening sealed segments, a bounded number of them at a time, and telling what of them is damaged.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quire_model::{Place, Position, ReadError, ReadErrorKind};

use super::blocks::{BadBlock, Blocks};
use super::build::{BadRecord, Built, Records, build};
use super::header::{HEADER_BYTES, IndexHeader};
use super::image::Image;
use super::index::{Index, Numbered};
use super::open::{Flaw, Open};
use super::{Mapped, Sealed, index_name};
use crate::error::{Damage, Error, Result};
use crate::identity::Identity;
use crate::packed::{BadTable, Unpacking};
use crate::record::Fault;
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
    /// How many segments stay mapped though nobody reads them.
    open_max: usize,
    /// How much of packed ones is in memory, and how much stays though nobody reads it.
    unpacking: Arc<Unpacking>,
    /// Those that stay mapped, in the order in which they were opened or last found in use.
    open: Mutex<VecDeque<Arc<Open>>>,
    /// What was found not to be as it was written, and could not be made anew.
    damage: Mutex<Vec<Damage>>,
}

impl Archive {
    pub(crate) fn new(directory: Arc<Directory>, identity: Identity, settings: &Settings) -> Self {
        Archive {
            directory,
            identity,
            open_max: settings.segments_open_max,
            unpacking: Unpacking::new(settings.unpacked_bytes_max),
            open: Mutex::default(),
            damage: Mutex::default(),
        }
    }

    /// The sealed segment whose header is this, if there is an index of it that verifies.
    ///
    /// # Errors
    /// [`Error::NewerFormat`] and [`Error::Io`].
    pub(crate) fn find(&self, of: &SegmentHeader, segment_crc: u32) -> Result<Option<Arc<Sealed>>> {
        Ok(self.find_index(of.first)?.filter(|sealed| sealed.header.segment == segment_crc))
    }

    /// The sealed segment that begins with the record `first`, as an index says that verifies; of its file nothing is known.
    ///
    /// # Errors
    /// As of [`Archive::find`].
    pub(crate) fn find_index(&self, first: Position) -> Result<Option<Arc<Sealed>>> {
        let Some((header, _)) = self.index_head(first)? else { return Ok(None) };
        let own = header.identity == self.identity && header.first == first;
        Ok(own.then(|| Arc::new(Sealed::new(header))))
    }

    /// What stands in front of the index of the segment that begins with the record `first`: header and checksums, which verify.
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

    /// Makes the index of a segment whose records, which end with `bytes`, are on the disk, and keeps it in a file.
    ///
    /// # Errors
    /// [`Error::Damaged`]; [`Error::NoSpace`] and [`Error::Io`] of writing it.
    pub(crate) fn seal(&self, bytes: &[u8], of: &SegmentHeader) -> Result<Arc<Sealed>> {
        let built = self.build(bytes, of)?;
        self.directory.write_derived(&index_name(of.first), &[&built.head, &built.body])?;
        Ok(Arc::new(Sealed::new(built.header)))
    }

    /// Has a segment stay mapped for as long as anybody knows of it: its files are about to go.
    pub(crate) fn hold(&self, sealed: &Sealed) -> Result<(), ReadError> {
        self.may_hold(sealed, TagHash::NONE)?;
        let open = self.open(sealed)?;
        self.hold_open(sealed, open);
        Ok(())
    }

    /// From now on this is the segment, mapped, and stays so for as long as anybody knows of it.
    fn hold_open(&self, sealed: &Sealed, open: Arc<Open>) {
        let mut mapped = sealed.lock();
        let before = mapped.files.upgrade();
        mapped.held = Some(open);
        // What one holds by the segment is not kept beside it: that would outlast it.
        let_go(&mut self.lock(), before.as_ref());
    }

    /// The files of a segment did not go, after all, or its index could be written; unless another has the place of the first by now.
    pub(crate) fn release(&self, sealed: &Sealed) {
        if self.map_known(sealed).is_ok() {
            sealed.lock().held = None;
        }
    }

    /// The segment that a compaction just put there, with its index.
    pub(crate) fn adopt(&self, first: Position) -> Result<Arc<Sealed>> {
        let name = segment_name(first);
        let head = self.directory.read_head(&name, COMPACTED_HEADER_BYTES)?;
        let of = SegmentHeader::decode(&head, &self.directory.path_of(&name), self.identity)?;
        self.seal_found(self.image(&of)?, &of)
    }

    /// As [`Archive::seal`]; an index that can't be written stays in memory.
    ///
    /// # Errors
    /// [`Error::Damaged`], and [`Error::Io`] when there is no memory for it.
    pub(crate) fn seal_found(&self, image: Image, of: &SegmentHeader) -> Result<Arc<Sealed>> {
        let built = self.build(&image.apart(), of)?;
        let sealed = Sealed::new(built.header);
        if !self.write(&built) {
            self.keep_in_memory(&sealed, image, &built)?;
        }
        Ok(Arc::new(sealed))
    }

    /// As [`Archive::seal_found`], with nothing written yet: that is for [`Archive::write`].
    pub(crate) fn seal_in_memory(&self, of: &SegmentHeader) -> Result<(Arc<Sealed>, Built)> {
        let image = self.image(of)?;
        let built = self.build(&image.apart(), of)?;
        let sealed = Sealed::new(built.header);
        self.keep_in_memory(&sealed, image, &built)?;
        Ok((Arc::new(sealed), built))
    }

    /// Keeps an index in its file; says whether it could.
    pub(crate) fn write(&self, built: &Built) -> bool {
        self.directory.write_derived(&index_name(built.header.first), &[&built.head, &built.body]).is_ok()
    }

    /// For as long as the log is open; whoever opens it next makes the index anew.
    fn keep_in_memory(&self, sealed: &Sealed, image: Image, built: &Built) -> Result<Arc<Open>> {
        let path = self.directory.path_of(&index_name(sealed.first()));
        let index = Index::in_memory(built).map_err(|error| Error::io("map", &path, error))?;
        let open = Arc::new(Open::new(image, index));
        self.hold_open(sealed, Arc::clone(&open));
        Ok(open)
    }

    fn build<R: Records + ?Sized>(&self, records: &R, of: &SegmentHeader) -> Result<Built> {
        build(records, of).map_err(|bad| self.bad_record(of.first, &bad))
    }

    /// The header and records of the segment of this header, from its file.
    fn image(&self, of: &SegmentHeader) -> Result<Image> {
        let file = self.directory.map_whole(&segment_name(of.first), of.bytes)?;
        Image::of(file, of, &self.unpacking).map_err(|bad| self.damaged_table(of.first, bad).into_error())
    }

    /// Whether an entry with a tag of this hash may stand in a segment.
    pub(crate) fn may_hold(&self, sealed: &Sealed, tag: TagHash) -> Result<bool, ReadError> {
        if let Some(answer) = sealed.may_hold(tag) {
            return Ok(answer);
        }
        let filter = self.ask_index(sealed, Index::filter)?;
        Ok(sealed.filter.get_or_init(|| filter).may_hold(tag))
    }

    /// Asks the index of a segment, whose own file need not be there for it; once more if the index has to be made anew.
    fn ask_index<T>(
        &self,
        sealed: &Sealed,
        mut ask: impl FnMut(&Index) -> std::result::Result<T, BadBlock>,
    ) -> Result<T, ReadError> {
        let asked = match sealed.mapped() {
            Some(open) => Some(ask(&open.index)),
            None => self.map_index(sealed).map_err(|error| unreadable(&error))?.map(|index| ask(&index)),
        };
        match asked {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(_)) | None => {
                let rebuilt = self.rebuild(sealed)?;
                ask(&rebuilt.index).map_err(|bad| self.tell(sealed, Flaw::Index(bad)))
            }
        }
    }

    /// The segment, mapped.
    pub(crate) fn open(&self, sealed: &Sealed) -> Result<Arc<Open>, ReadError> {
        if let Some(open) = sealed.mapped() {
            open.used.store(true, Ordering::Relaxed);
            let anew = if self.has_outgrown(&open) { self.open_anew(sealed) } else { None };
            return Ok(anew.unwrap_or(open));
        }
        match self.map(sealed) {
            Ok(Some(open)) => Ok(self.keep(sealed, open)),
            Ok(None) => self.rebuild(sealed),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// The segment with an index that was made anew, for that in the file is no longer as it was written.
    pub(crate) fn rebuild(&self, sealed: &Sealed) -> Result<Arc<Open>, ReadError> {
        self.rebuilt(sealed).map_err(|error| unreadable(&error))
    }

    fn rebuilt(&self, sealed: &Sealed) -> Result<Arc<Open>> {
        let (image, of) = self.map_segment(sealed)?;
        let built = self.build(&image.apart(), &of?)?;
        if self.write(&built)
            && let Some(open) = self.map(sealed)?
        {
            return Ok(self.keep(sealed, open));
        }
        self.keep_in_memory(sealed, image, &built)
    }

    /// Tells what of each tag that gives numbers stands in a segment.
    pub(crate) fn numbered(&self, sealed: &Sealed, mut tell: impl FnMut(&[Numbered<'_>])) -> Result<(), ReadError> {
        self.ask_index(sealed, |index| index.numbered().map(|numbered| tell(&numbered)))
    }

    /// Maps both files; `None` when the index is not the one that was known, or not as it was written.
    fn map(&self, sealed: &Sealed) -> Result<Option<Open>> {
        let Some(index) = self.map_index(sealed)? else { return Ok(None) };
        let (image, _) = self.map_segment(sealed)?;
        Ok(Some(Open::new(image, index)))
    }

    /// Whether so much of a packed segment is in memory that it is to go once those who read it now let go of it: as long as somebody
    /// comes before all have, it would stay and grow.
    fn has_outgrown(&self, open: &Open) -> bool {
        self.unpacking.is_over() && open.image.unpacked_bytes() > self.unpacking.open_bytes_most()
    }

    /// Maps a segment that is mapped once more, for who comes from now on; `None` when it can't be, and stays as it is mapped.
    fn open_anew(&self, sealed: &Sealed) -> Option<Arc<Open>> {
        // Under its lock: who is about to replace the files has it held before, and waits here.
        let mapped = sealed.lock();
        if mapped.held.is_some() {
            return None;
        }
        let index = self.map_index(sealed).ok()??;
        let (image, _) = self.map_known(sealed).ok()?;
        Some(self.keep_in(mapped, Open::new(image, index)))
    }

    /// Maps the index that was known; `None` when it is another, or not as it was written.
    fn map_index(&self, sealed: &Sealed) -> Result<Option<Index>> {
        let head = self.index_head(sealed.first())?;
        let Some((header, checksums)) = head.filter(|(header, _)| *header == sealed.header) else { return Ok(None) };
        let file = self.directory.map_whole(&index_name(sealed.first()), header.file_bytes())?;
        let blocks = Blocks::new(file, header.body_at(), header.body_bytes() as usize, checksums);
        Ok(Some(Index::new(header, blocks)))
    }

    /// Notes what of a segment's file is damaged beside its records, or that it is gone.
    pub(crate) fn look_at(&self, sealed: &Sealed) {
        // What is damaged is noted; that there is no memory, or no handle left, is for who reads it to meet.
        let _ = self.map_segment(sealed);
    }

    /// Maps a segment that is what it was when the log was opened, or what is left of it; that it is not whole is noted as damage.
    /// Each record is verified when it is read.
    fn map_segment(&self, sealed: &Sealed) -> Result<(Image, Result<SegmentHeader>)> {
        let error = match self.map_known(sealed) {
            Ok((image, of)) => return Ok((image, Ok(of))),
            // Who compacts it away has it held first, by everyone who has the log open: it was lost, before the log was opened or since.
            Err(error) if error.is_missing() => {
                let last = sealed.header.end.get() - 1;
                let message = format!("it is gone, and with it what stood in the records up to {last}");
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

    fn map_known(&self, sealed: &Sealed) -> Result<(Image, SegmentHeader)> {
        let name = segment_name(sealed.first());
        let path = self.directory.path_of(&name);
        let head = self.directory.read_head(&name, COMPACTED_HEADER_BYTES)?;
        let of = SegmentHeader::decode(&head, &path, self.identity)?;
        let damaged = |offset, message| Err(Error::Damaged { path, offset, position: Some(sealed.first()), message });
        if SegmentHeader::crc_of(&head) != sealed.header.segment {
            return damaged(0, "it is another segment than the log was opened with; if others compacted it since, it is whole when the log is opened again".to_owned());
        }
        let bytes = self.directory.bytes_of(&name)?;
        // Behind the records of one that was never compacted stand zeros, which nobody reads.
        let end = if of.compacted.is_some() { of.bytes } else { u64::from(sealed.header.records_end) };
        if bytes < end {
            return damaged(bytes, format!("it ends here, and its records at byte {end}"));
        }
        let image = self.image(&SegmentHeader { bytes: of.bytes.min(bytes), ..of })?;
        Ok((image.up_to(sealed.header.records_end as usize), of))
    }

    /// Maps what is there of a segment that lost its header or its end. `None` of one that a compaction left, where the header says
    /// how to read it, and of a file of something else.
    fn map_rest(&self, sealed: &Sealed) -> Result<Option<Image>> {
        let name = segment_name(sealed.first());
        let head = self.directory.read_head(&name, COMPACTED_HEADER_BYTES)?;
        let other = SegmentHeader::is_whole(&head) && SegmentHeader::crc_of(&head) != sealed.header.segment;
        let end = self.directory.bytes_of(&name)?.min(u64::from(sealed.header.records_end));
        if sealed.header.compacted || other || end <= SEGMENT_HEADER_BYTES as u64 {
            return Ok(None);
        }
        Ok(Some(Image::plain(self.directory.map_whole(&name, end)?)))
    }

    /// Has a segment that was just mapped stay so, as long as there are not too many: in place of what another thread mapped meanwhile, or of one
    /// with another index. One that is kept twice would be so once when its files go.
    fn keep(&self, sealed: &Sealed, open: Open) -> Arc<Open> {
        self.keep_in(sealed.lock(), open)
    }

    fn keep_in(&self, mut mapped: MutexGuard<'_, Mapped>, open: Open) -> Arc<Open> {
        // The lock of a segment first, and then that of all: as whoever holds one does.
        let before = mapped.files.upgrade();
        let open = Arc::new(open);
        if mapped.held.is_some() {
            mapped.held = Some(Arc::clone(&open));
            return open;
        }
        mapped.files = Arc::downgrade(&open);
        let mut all = self.lock();
        let_go(&mut all, before.as_ref());
        all.push_back(Arc::clone(&open));
        let closed = self.close_some(&mut all);
        drop(all);
        drop(mapped);
        drop(closed);
        open
    }

    /// Closes segments that nobody may be reading, when more of packed ones is in memory than may stay: for who has just let go of some.
    pub(crate) fn settle_unpacked(&self) {
        if self.unpacking.is_over() {
            let closed = self.close_some(&mut self.lock());
            drop(closed);
        }
    }

    /// Takes those out that were not used for long, as long as there are too many, or too much of them is unpacked.
    fn close_some(&self, all: &mut VecDeque<Arc<Open>>) -> Vec<Arc<Open>> {
        let mut unpacked = match self.unpacking.is_over() {
            true => all.iter().map(|open| open.image.unpacked_bytes()).sum(),
            false => 0,
        };
        let mut closed = Vec::new();
        // Second chance: what was used since it was last looked at stays. All are looked at twice at most.
        for _ in 0..2 * all.len() {
            let (too_many, too_much) = (all.len() > self.open_max, unpacked > self.unpacking.bytes_max());
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
        closed
    }

    /// How many bytes of memory packed segments take that are open, whoever reads them.
    pub(crate) fn unpacked_bytes(&self) -> u64 {
        self.unpacking.bytes()
    }

    /// Whether that is more than may stay, and enough of it is kept by one who asks that it is to let go of it.
    pub(crate) fn has_too_much_unpacked(&self, own_bytes: impl Fn() -> u64) -> bool {
        self.unpacking.is_over() && own_bytes() >= self.unpacking.own_bytes_least()
    }

    /// Verifies some of a segment: its index when it begins with the first record, and records from number `from` on, about so many
    /// bytes of them. Damage is noted, and a damaged index made anew. Gives back the number to go on with, if there is more, and
    /// how many bytes were looked at.
    pub(crate) fn scrub(&self, sealed: &Sealed, from: u32, bytes_max: u64) -> (Option<u32>, u64) {
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
        let apart = open.apart();
        for number in from..open.index.header.records {
            match open.record_apart(number, &apart) {
                Ok(record) => bytes += u64::from(record.header.length),
                // It is noted as damage, if it is.
                Err(Flaw::Record(bad)) => drop(self.bad_record(sealed.first(), &bad)),
                // It was made anew, and is in place when this is gone on with.
                Err(Flaw::Index(_)) => return (Some(number), bytes),
            }
            if bytes >= bytes_max {
                return (Some(number + 1), bytes);
            }
        }
        if open.index.header.compacted
            && let Err(Flaw::Record(bad)) = open.verify_numbers(&apart)
        {
            drop(self.bad_record(sealed.first(), &bad));
        }
        (None, bytes)
    }

    /// What a read is to be told, noted as damage if it is one of the records.
    pub(crate) fn tell(&self, sealed: &Sealed, flaw: Flaw) -> ReadError {
        match flaw {
            Flaw::Record(bad) => {
                let place = Some(Place::new(bad.position, 0));
                ReadError { place, ..unreadable(&self.bad_record(sealed.first(), &bad)) }
            }
            Flaw::Index(bad) => {
                let path = self.directory.path_of(&index_name(sealed.first()));
                let (path, offset, message) = (path.display(), bad.offset, bad.message);
                ReadError::damaged(None, format!("{path} is damaged at byte {offset}: {message}"))
            }
        }
    }

    /// What a record that could not be had is to be told as: noted as damage, unless all there is to it is a want of memory.
    fn bad_record(&self, first: Position, bad: &BadRecord) -> Error {
        let message = bad.fault.to_string();
        if matches!(bad.fault, Fault::Memory(_)) {
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

    /// What was found not to be as it was written, since the log was opened.
    pub(crate) fn damage(&self) -> Vec<Damage> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many segments are mapped though nobody may be reading them.
    pub(crate) fn open_count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes one out of those that stay mapped.
fn let_go(all: &mut VecDeque<Arc<Open>>, open: Option<&Arc<Open>>) {
    if let Some(open) = open {
        all.retain(|other| !Arc::ptr_eq(other, open));
    }
}

fn unreadable(error: &Error) -> ReadError {
    let kind = if matches!(error, Error::Io { .. }) { ReadErrorKind::Io } else { ReadErrorKind::Damaged };
    // It may be of a whole segment: where in it the entry stands is not known.
    let begins = match error {
        Error::Damaged { position, .. } => position.map(|position| Place::new(position, 0)),
        _ => None,
    };
    ReadError { kind, place: None, begins, message: error.to_string() }
}
