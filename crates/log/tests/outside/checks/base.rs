//! The base log that receives the arbitrary files, and a full read of a log.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use quire_log::{
    Background, Components, Error, Identity, Log, LogDuty, ManualClock, OpenedLog, SegmentRun, Settings, Survival,
    crc32c,
};
use quire_model::{
    Effects, Entry, EntryKind, History, ModelId, NewEntry, Place, Position, ReadError, Sequence, SequenceRequest, Tag,
};
use tempfile::TempDir;

pub(crate) const IDENTITY: Identity = Identity { database: 0x5eed_0000_0000_0000_0000_0000_0000_0001, shard: 0 };

/// The number of records.
pub(crate) const RECORDS: u64 = 24;

/// The record after which a checkpoint is taken.
pub(crate) const CHECKPOINT: u64 = 20;

/// The tags to read along: of entries with numbers, of other entries, and of no entry.
const TAGS: [&str; 3] = ["numbers", "all", "never"];

/// An owned copy of an entry that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) place: Place,
    kind: u8,
    sequence: Option<Sequence>,
    count: u32,
    tags: Vec<Vec<u8>>,
    body: Vec<u8>,
}

impl From<Entry<'_>> for Read {
    fn from(entry: Entry<'_>) -> Self {
        Read {
            place: entry.place,
            kind: entry.kind.kind,
            sequence: entry.sequence,
            count: entry.count,
            tags: entry.tags.iter().map(|tag| tag.as_bytes().to_vec()).collect(),
            body: entry.body.to_vec(),
        }
    }
}

/// The content of a log, read in every way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    /// Read by position.
    pub(crate) all: Vec<Read>,
    /// Read along each tag, forwards and backwards.
    along: Vec<(Vec<Place>, Vec<Place>)>,
    /// Read by number.
    sought: Vec<Option<Place>>,
}

/// The files and the content of a closed log.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) answers: Answers,
}

fn settings() -> Settings {
    Settings {
        durability: quire_log::Durability::Os,
        segment_bytes: 4096,
        record_bytes_max: 3900,
        sync_interval_ms: 1 << 40,
        scrub_bytes_per_second: 0,
        pack_segments: true,
        ..Settings::default()
    }
}

/// Creates a temporary directory, in memory where the system supports it.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.expect("a folder")
}

fn open_in(path: &Path) -> Result<OpenedLog, Error> {
    let components =
        Components { clock: Arc::new(ManualClock::default()), background: Background::Caller, ..Components::default() };
    Log::open_with(path, IDENTITY, settings(), components)
}

/// Appends a record of three entries: one with numbers, one with another tag, one without tags.
pub(crate) fn append(opened: &mut OpenedLog, number: u64) -> Result<(), Error> {
    let body = format!("body of {number} ").repeat(12);
    let kind = EntryKind { model: ModelId::EVENTS, kind: 7 };
    let (numbers, all) =
        ([Tag::new(b"numbers")], [Tag::new(b"all"), Tag::new(if number.is_multiple_of(2) { b"even" } else { b"odd" })]);
    let sequenced = Some(SequenceRequest { origin: Sequence::new(1), count: 2 });
    let (_, mut draft) = opened.writer.begin()?;
    draft.push(NewEntry { kind, tags: &numbers, sequenced, body: &[body.as_bytes()] });
    draft.push(NewEntry { kind, tags: &all, sequenced: None, body: &[body.as_bytes(), body.as_bytes()] });
    draft.push(NewEntry { kind, tags: &[], sequenced: None, body: &[] });
    let position = draft.append()?.at.position;
    opened.log.reach(position)
}

impl Base {
    /// Creates several segments, all but the last with an index, and a checkpoint.
    pub(crate) fn plain() -> Base {
        let gauges = [("billing".to_owned(), 7), ("a long name ".repeat(12), 0)];
        Base::made(|opened| opened.log.tell_gauges(opened.writer.mark().position, &gauges))
    }

    /// Creates the same log with a compacted and packed part before the checkpoint.
    pub(crate) fn packed() -> Base {
        Base::made(|opened| {
            let mut even = |entries: &[Entry<'_>], answers: &mut Vec<Survival>| {
                answers.extend(entries.iter().map(|entry| Survival::from(entry.place.position.get() % 2 == 0)));
            };
            let mut compactor = opened.log.begin_compaction(|| Ok::<_, Error>(())).expect("begun").expect("alone");
            let shares = compactor.shares(u32::MAX, &mut even).expect("read");
            let (first, end) = (shares[0].first, shares.last().expect("not empty").end);
            compactor.compact(SegmentRun { first, end }, &mut even).expect("compacted");
        })
    }

    fn made(finish: impl FnOnce(&OpenedLog)) -> Base {
        let folder = folder();
        let mut opened = open_in(folder.path()).expect("opened");
        for number in 1..=RECORDS {
            append(&mut opened, number).expect("appended");
            if number == CHECKPOINT {
                opened.log.sync().expect("synced");
                opened.log.save_checkpoint(opened.writer.basis(), b"the state of all models").expect("saved");
            }
        }
        opened.log.sync().expect("synced");
        while opened.log.carry_out(LogDuty::Seal).expect("sealed") {}
        finish(&opened);
        let answers = answers(&opened).expect("sound");
        drop(opened);
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(folder.path()).expect("listed").map(|entry| entry.expect("an entry")) {
            let name = entry.file_name().into_string().expect("a name");
            if [".log", ".idx", ".checkpoint"].iter().any(|kind| name.ends_with(kind))
                || ["control", "statistics"].contains(&&name[..])
            {
                files.insert(name, fs::read(entry.path()).expect("read"));
            }
        }
        Base { files, answers }
    }

    /// Returns the names of the files of a kind.
    pub(crate) fn names(&self, kind: &str) -> Vec<&str> {
        self.files.keys().map(String::as_str).filter(|name| name.ends_with(kind)).collect()
    }

    /// Creates a directory with the files for which `leaves` returns true, and with one file of
    /// these bytes.
    pub(crate) fn with(&self, name: &str, bytes: &[u8], leaves: impl Fn(&str) -> bool) -> Shard {
        let folder = folder();
        let others = self.files.iter().filter(|(other, _)| *other != name && leaves(other));
        for (name, bytes) in others.map(|(name, bytes)| (name.as_str(), &bytes[..])).chain([(name, bytes)]) {
            fs::write(folder.path().join(name), bytes).expect("written");
        }
        Shard(folder)
    }
}

/// A directory that may hold a log.
pub(crate) struct Shard(TempDir);

impl Shard {
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn open(&self) -> Result<OpenedLog, Error> {
        open_in(self.path())
    }
}

/// Reads a log in every way. Returns an error when a part is damaged.
pub(crate) fn answers(opened: &OpenedLog) -> Result<Answers, ReadError> {
    let reader = opened.log.reader();
    let (mut all, mut from) = (Vec::new(), Place::START);
    while let Some(entry) = reader.next(&[], from)? {
        assert!(entry.place >= from, "a walk goes forwards");
        from = entry.place.after();
        all.push(Read::from(entry));
    }
    for read in &all {
        assert_eq!(reader.entry(read.place)?.map(Read::from).as_ref(), Some(read), "found by place as on the walk");
    }
    let mut along = Vec::new();
    for tag in TAGS {
        let tags = [Tag::new(tag.as_bytes())];
        let (mut forwards, mut from) = (Vec::new(), Place::START);
        while let Some(entry) = reader.next(&tags, from)? {
            assert!(entry.place >= from, "a walk goes forwards");
            from = entry.place.after();
            forwards.push(entry.place);
        }
        let (mut backwards, mut before) = (Vec::new(), Place::END);
        while let Some(entry) = reader.previous(&tags, before)? {
            assert!(entry.place < before, "a walk goes backwards");
            before = entry.place;
            backwards.push(entry.place);
        }
        along.push((forwards, backwards));
    }
    let mut sought = Vec::new();
    for number in 0..=2 * RECORDS + 2 {
        sought.push(reader.seek(Tag::new(b"numbers"), Sequence::new(number))?.map(|entry| entry.place));
    }
    Ok(Answers { all, along, sought })
}

/// Checks that all ways of reading return the same entries.
pub(crate) fn assert_consistent(answers: &Answers) {
    for (tag, (forwards, backwards)) in TAGS.iter().zip(&answers.along) {
        let carriers = answers.all.iter().filter(|read| read.tags.iter().any(|own| own == tag.as_bytes()));
        let expected: Vec<Place> = carriers.map(|read| read.place).collect();
        assert_eq!(*forwards, expected, "along {tag}");
        assert!(backwards.iter().rev().eq(&expected), "backwards along {tag}");
    }
}

/// Writes the checksum of a range, and of further ranges, at an offset, if they exist.
pub(crate) fn seal(bytes: &mut [u8], at: usize, first: Range<usize>, second: Range<usize>) {
    let pieces: Option<Vec<&[u8]>> = [first, second].into_iter().map(|range| bytes.get(range)).collect();
    if let (Some(pieces), true) = (pieces, at + 4 <= bytes.len()) {
        let crc = crc32c(&pieces.concat());
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Reads a number at an offset; 0 past the end.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> usize {
    let word = at.checked_add(4).and_then(|end| bytes.get(at..end));
    word.map_or(0, |word| u32::from_le_bytes(word.try_into().expect("four bytes")) as usize)
}

/// Returns the name of the file of a kind whose position is in the header of `bytes`, if the file
/// exists.
pub(crate) fn name_of<'b>(base: &'b Base, bytes: &[u8], kind: &str) -> &'b str {
    let position = bytes.get(40..48).map_or(0, |at| u64::from_le_bytes(at.try_into().expect("eight bytes")));
    let named = format!("{:020}{kind}", Position::new(position));
    let names = base.names(kind);
    names.iter().find(|name| **name == named).or(names.last()).expect("there is one")
}
