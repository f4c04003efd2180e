//! A log to test: its directory, its settings, and its readable content.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use quire_log::{Durability, Error, Identity, Log, ManualClock, OpenedLog, Reader, Settings, Writer, crc32c};
use quire_model::{
    BodyChecksum, Effects, Entry, EntryKind, History, ModelId, NewEntry, Place, Position, Sequence, SequenceRequest,
    Tag,
};
use tempfile::TempDir;

pub(crate) const IDENTITY: Identity = Identity { database: 0x5eed_0000_0000_0000_0000_0000_0000_0001, shard: 0 };
pub(crate) const BOTH: [Durability; 2] = [Durability::Os, Durability::Sync];

/// Small segments, so that few records fill several segments. Syncs and scrubs happen only on
/// request.
pub(crate) fn settings(durability: Durability) -> Settings {
    Settings {
        durability,
        segment_bytes: 4096,
        record_bytes_max: 3900,
        sync_interval_ms: 1 << 40,
        scrub_bytes_per_second: 0,
        ..Settings::default()
    }
}

/// A temporary directory with a log.
pub(crate) struct Shard {
    directory: TempDir,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<ManualClock>,
}

impl Shard {
    pub(crate) fn new(settings: Settings) -> Self {
        // Most tests open a log many times and do not depend on the device.
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        let directory = directory.expect("a temporary directory can be made");
        Shard { directory, settings, clock: Arc::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn try_open(&self) -> Result<OpenedLog, Error> {
        Log::open(self.path(), IDENTITY, self.settings.clone(), Arc::clone(&self.clock) as _)
    }

    pub(crate) fn open(&self) -> OpenedLog {
        self.try_open().unwrap_or_else(|error| panic!("the log opens, and not: {error}"))
    }

    /// Returns the current files, even while the log is open.
    pub(crate) fn snapshot(&self) -> Snapshot {
        // The control file is read first, so that its positions are no newer than the segments.
        let mut paths = vec![self.path().join("control")];
        paths.extend(fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path()));
        let mut files = BTreeMap::new();
        for path in paths {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            // The background creates and renames the next segment meanwhile.
            if let Ok(bytes) = fs::read(&path) {
                files.entry(name).or_insert(bytes);
            }
        }
        Snapshot { files, settings: self.settings.clone() }
    }

    /// Returns the names of the files, except the spare, which the background creates and removes.
    pub(crate) fn names(&self) -> Vec<String> {
        self.snapshot().files.into_keys().filter(|name| name != "spare").collect()
    }
}

/// The files of a shard at one moment.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    settings: Settings,
}

impl Snapshot {
    /// Creates a shard with these files.
    pub(crate) fn shard(&self) -> Shard {
        let shard = Shard::new(self.settings.clone());
        for (name, bytes) in &self.files {
            fs::write(shard.path().join(name), bytes).unwrap();
        }
        shard
    }

    /// Returns a copy with one file changed.
    pub(crate) fn with(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut changed = self.clone();
        change(changed.files.get_mut(name).unwrap_or_else(|| panic!("there is a file {name}")));
        changed
    }

    /// Returns a copy with a file added or replaced.
    pub(crate) fn with_file(&self, name: &str, bytes: &[u8]) -> Self {
        let mut changed = self.clone();
        changed.files.insert(name.to_owned(), bytes.to_vec());
        changed
    }

    /// Returns a copy without a file.
    pub(crate) fn without(&self, name: &str) -> Self {
        let mut changed = self.clone();
        assert!(changed.files.remove(name).is_some(), "there is a file {name}");
        changed
    }

    /// Returns a copy without indexes, so that opening verifies each record.
    pub(crate) fn without_indexes(&self) -> Self {
        let mut changed = self.clone();
        changed.files.retain(|name, _| !name.ends_with(".idx"));
        changed
    }

    /// Returns the names of the segments, in order.
    pub(crate) fn segments(&self) -> Vec<String> {
        self.files.keys().filter(|name| name.ends_with(".log")).cloned().collect()
    }

    /// Returns the segment and the bytes of every record, as defined by the format page.
    pub(crate) fn records(&self) -> Vec<(String, Range<usize>)> {
        let mut records = Vec::new();
        for name in self.segments() {
            let bytes = &self.files[&name];
            let mut at = 64;
            while at + 8 <= bytes.len() && bytes[at..at + 8] != [0; 8] {
                let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
                records.push((name.clone(), at..at + length));
                at += length;
            }
        }
        records
    }

    /// Checks that a directory still has these files, byte for byte, except for the control file.
    pub(crate) fn assert_unchanged(&self, shard: &Shard) {
        let mut now = shard.snapshot().files;
        let mut then = self.files.clone();
        for files in [&mut now, &mut then] {
            files.retain(|name, _| ["log", "checkpoint", "cut"].iter().any(|kind| name.ends_with(&format!(".{kind}"))));
        }
        assert!(now == then, "the files are as they were: {:?}, {:?}", now.keys(), then.keys());
    }
}

/// The kind of entries whose bodies have a checksum.
pub(crate) const COVERED: u8 = 8;

/// An entry to push or an entry that was read, as an owned value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) kind: u8,
    pub(crate) tags: Vec<Vec<u8>>,
    /// The origin of the first tag's numbers, and the count of numbers of the entry.
    pub(crate) sequenced: Option<(u64, u32)>,
    pub(crate) body: Vec<u8>,
}

impl Item {
    pub(crate) fn plain(tags: &[&str], body: impl Into<Vec<u8>>) -> Self {
        let tags = tags.iter().map(|tag| tag.as_bytes().to_vec()).collect();
        Item { kind: 7, tags, sequenced: None, body: body.into() }
    }

    pub(crate) fn numbered(tag: &str, count: u32, body: impl Into<Vec<u8>>) -> Self {
        Item { sequenced: Some((1, count)), ..Item::plain(&[tag], body) }
    }

    /// Creates an entry whose body has a checksum. The log stores the checksum of a large body.
    pub(crate) fn covered(tags: &[&str], body: impl Into<Vec<u8>>) -> Self {
        Item { kind: COVERED, ..Item::plain(tags, body) }
    }

    /// Returns its length in a record, as defined by the format page.
    pub(crate) fn bytes(&self) -> usize {
        let tags: usize = self.tags.iter().map(|tag| if tag.len() < 128 { 1 } else { 2 } + tag.len()).sum();
        let numbers = self.sequenced.map_or(0, |(_, count)| if count > 1 { 12 } else { 8 });
        let checksum = if self.kind == COVERED && self.body.len() >= 256 { 8 } else { 0 };
        10 + numbers + checksum + tags + self.body.len()
    }

    /// Pushes the entry, with the body in two pieces.
    pub(crate) fn push(&self, effects: &mut impl Effects) -> Option<Sequence> {
        let tags: Vec<Tag<'_>> = self.tags.iter().map(|tag| Tag::new(tag)).collect();
        let (front, back) = self.body.split_at(self.body.len() / 3);
        let sequenced = self.sequenced.map(|(origin, count)| SequenceRequest { origin: Sequence::new(origin), count });
        let kind = EntryKind { model: ModelId::EVENTS, kind: self.kind };
        let expected = effects.next_place();
        let entry = NewEntry { kind, tags: &tags, sequenced, body: &[front, back] };
        let covered = BodyChecksum { crc32c: crc32c(&self.body), bytes: self.body.len() };
        let placed = if self.kind == COVERED { effects.push_covered(entry, covered) } else { effects.push(entry) };
        assert_eq!(placed.place, expected);
        placed.sequence
    }
}

/// An owned copy of an entry that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) place: Place,
    pub(crate) time: u64,
    pub(crate) kind: EntryKind,
    pub(crate) sequence: Option<Sequence>,
    pub(crate) count: u32,
    pub(crate) tags: Vec<Vec<u8>>,
    pub(crate) body: Vec<u8>,
}

impl From<Entry<'_>> for Read {
    fn from(entry: Entry<'_>) -> Self {
        Read {
            place: entry.place,
            time: entry.time.as_micros(),
            kind: entry.kind,
            sequence: entry.sequence,
            count: entry.count,
            tags: entry.tags.iter().map(|tag| tag.as_bytes().to_vec()).collect(),
            body: entry.body.to_vec(),
        }
    }
}

/// Reads all entries visible to a reader.
pub(crate) fn contents(reader: &impl History) -> Vec<Read> {
    let mut all = Vec::new();
    let mut from = Place::START;
    while let Some(entry) = reader.next(&[], from).unwrap() {
        from = entry.place.after();
        all.push(Read::from(entry));
    }
    all
}

/// Appends one record.
pub(crate) fn append(writer: &mut Writer, items: &[Item]) -> Position {
    try_append(writer, items).unwrap_or_else(|error| panic!("the record is appended, and not: {error}"))
}

pub(crate) fn try_append(writer: &mut Writer, items: &[Item]) -> Result<Position, Error> {
    let (_, mut draft) = writer.begin().unwrap();
    for item in items {
        item.push(&mut draft);
    }
    draft.append().map(|appended| appended.at.position)
}

/// Returns record `number` of most tests: three entries, one of which has numbers.
pub(crate) fn sample(number: u64) -> Vec<Item> {
    let body = format!("body of {number} ").into_bytes();
    vec![
        Item::numbered("numbers", 2, body.clone()),
        Item::covered(&["even", "all"][(number % 2) as usize..], body.repeat(24)),
        Item::plain(&[], Vec::new()),
    ]
}

/// Creates an open shard with `records` published sample records.
pub(crate) fn filled(durability: Durability, records: u64) -> (Shard, OpenedLog) {
    let shard = Shard::new(settings(durability));
    let mut opened = shard.open();
    extend(&mut opened, records);
    (shard, opened)
}

/// Appends sample records up to `records`.
pub(crate) fn extend(opened: &mut OpenedLog, records: u64) {
    let from = opened.writer.mark().position.get() + 1;
    for number in from..=records {
        assert_eq!(append(&mut opened.writer, &sample(number)), Position::new(number));
    }
    opened.log.reach(Position::new(records)).unwrap();
}

/// Checks that the log holds exactly `records` sample records.
pub(crate) fn assert_samples(reader: &Reader, records: u64) {
    let found = contents(reader);
    assert_eq!(found.len() as u64, records * 3);
    for (index, read) in found.iter().enumerate() {
        let number = index as u64 / 3 + 1;
        let item = &sample(number)[index % 3];
        assert_eq!(read.place, Place::new(Position::new(number), index as u32 % 3));
        assert_eq!((&read.tags, &read.body), (&item.tags, &item.body));
        assert_eq!(read.sequence, item.sequenced.map(|_| Sequence::new(2 * number - 1)));
    }
}

pub(crate) fn segment_name(first: u64) -> String {
    format!("{first:020}.log")
}
