//! A naive log in memory. Tests compare the real log with it, and run models over it.
//!
//! [`MemoryLog`] keeps every entry in a vector and answers each read by a scan of all entries.
//! [`World`] drives one model over it as the database does: decide, append, apply.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::codec::{Decoder, Encoder};
use crate::{
    At, DecideError, Effects, Entry, EntryKind, History, Model, NewEntry, Place, Placement, Position, ReadError,
    Sequence, SequenceRequest, Tag, Tags, Timestamp,
};

/// Every entry of a log, in order.
#[derive(Debug, Default, Clone)]
pub struct MemoryLog {
    entries: Vec<StoredEntry>,
    tail: Position,
    time: Timestamp,
    /// The next number of each tag that gives them, which outlasts the tag's entries.
    numbers: BTreeMap<Vec<u8>, Sequence>,
}

#[derive(Debug, Clone)]
struct StoredEntry {
    place: Place,
    time: Timestamp,
    kind: EntryKind,
    sequence: Option<Sequence>,
    count: u32,
    tags: Vec<u8>,
    body: Vec<u8>,
}

impl StoredEntry {
    fn view(&self) -> Entry<'_> {
        Entry {
            place: self.place,
            time: self.time,
            kind: self.kind,
            sequence: self.sequence,
            count: self.count,
            tags: Tags::from_encoded(&self.tags),
            body: &self.body,
        }
    }

    fn carries(&self, tags: &[Tag<'_>]) -> bool {
        tags.iter().all(|tag| self.view().tags.contains(*tag))
    }
}

impl MemoryLog {
    /// An empty log.
    pub fn new() -> Self {
        MemoryLog::default()
    }

    /// Begins the next record; the time never runs backwards.
    pub fn draft(&self, time: Timestamp) -> MemoryDraft<'_> {
        let at = At { position: self.tail.next(), time: time.max(self.time) };
        MemoryDraft { log: self, at, entries: Vec::new(), numbers: BTreeMap::new() }
    }

    /// Appends the entries of a finished draft and returns them as stored entries.
    pub fn append(&mut self, draft: FinishedDraft) -> impl Iterator<Item = Entry<'_>> {
        let from = self.entries.len();
        self.tail = draft.at.position;
        self.time = draft.at.time;
        self.numbers.extend(draft.numbers);
        self.entries.extend(draft.entries);
        self.entries[from..].iter().map(StoredEntry::view)
    }

    /// Drops the entries before `before` that don't survive, as a compaction does: all others keep
    /// their places, and every tag its numbers.
    pub fn compact(&mut self, before: Position, mut survives: impl FnMut(&Entry<'_>) -> bool) {
        self.entries.retain(|stored| stored.place.position >= before || survives(&stored.view()));
    }

    /// Every entry, in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.entries.iter().map(StoredEntry::view)
    }

    /// The position of the last record.
    pub fn tail(&self) -> Position {
        self.tail
    }
}

impl History for MemoryLog {
    fn entry(&self, place: Place) -> Result<Option<Entry<'_>>, ReadError> {
        Ok(self.entries().find(|entry| entry.place == place))
    }

    fn next(&self, tags: &[Tag<'_>], from: Place) -> Result<Option<Entry<'_>>, ReadError> {
        Ok(self.entries.iter().find(|stored| stored.place >= from && stored.carries(tags)).map(StoredEntry::view))
    }

    fn previous(&self, tags: &[Tag<'_>], before: Place) -> Result<Option<Entry<'_>>, ReadError> {
        Ok(self
            .entries
            .iter()
            .rev()
            .find(|stored| stored.place < before && stored.carries(tags))
            .map(StoredEntry::view))
    }

    fn seek(&self, tag: Tag<'_>, sequence: Sequence) -> Result<Option<Entry<'_>>, ReadError> {
        Ok(self.entries().find(|entry| {
            entry.tags.first() == Some(tag) && entry.sequence.is_some() && entry.next_sequence() > sequence
        }))
    }
}

/// A record in the making over a [`MemoryLog`].
#[derive(Debug)]
pub struct MemoryDraft<'l> {
    log: &'l MemoryLog,
    at: At,
    entries: Vec<StoredEntry>,
    /// The next numbers of the tags that took some.
    numbers: BTreeMap<Vec<u8>, Sequence>,
}

/// A draft that no longer borrows its log, ready to be appended to it.
#[derive(Debug)]
pub struct FinishedDraft {
    at: At,
    entries: Vec<StoredEntry>,
    numbers: BTreeMap<Vec<u8>, Sequence>,
}

impl MemoryDraft<'_> {
    /// Ends the record.
    pub fn finish(self) -> FinishedDraft {
        FinishedDraft { at: self.at, entries: self.entries, numbers: self.numbers }
    }

    /// Takes `count` numbers of a tag, and returns the first.
    fn take(&mut self, tag: Tag<'_>, sequenced: SequenceRequest) -> Sequence {
        let tag = tag.as_bytes();
        let next = self.numbers.get(tag).or_else(|| self.log.numbers.get(tag)).copied().unwrap_or(sequenced.origin);
        self.numbers.insert(tag.to_vec(), Sequence::new(next.get() + u64::from(sequenced.count)));
        next
    }
}

impl Effects for MemoryDraft<'_> {
    fn at(&self) -> At {
        self.at
    }

    fn next_place(&self) -> Place {
        Place::new(self.at.position, u32::try_from(self.entries.len()).expect("few entries"))
    }

    fn push(&mut self, entry: NewEntry<'_>) -> Placement {
        let place = self.next_place();
        let sequence = entry.sequenced.map(|sequenced| self.take(entry.tags[0], sequenced));
        let mut tags = Vec::new();
        for tag in entry.tags {
            let begin = tags.len();
            tags.resize(begin + Tags::bytes_of(*tag), 0);
            Tags::put(*tag, &mut tags[begin..]);
        }
        self.entries.push(StoredEntry {
            place,
            time: self.at.time,
            kind: entry.kind,
            sequence,
            count: entry.sequenced.map_or(0, |sequenced| sequenced.count),
            tags,
            body: entry.body.concat(),
        });
        Placement { place, sequence }
    }
}

/// One model over a [`MemoryLog`].
#[derive(Debug, Default)]
pub struct World<M> {
    /// The log up to now.
    pub log: MemoryLog,
    /// The model's state after it.
    pub model: M,
}

impl<M: Model> World<M> {
    /// An empty world.
    pub fn new() -> Self {
        World { log: MemoryLog::new(), model: M::default() }
    }

    /// Commits these commands at this time.
    ///
    /// # Errors
    /// When the model denies them; nothing has changed then.
    pub fn commit(
        &mut self,
        time: Timestamp,
        commands: &[M::Command<'_>],
    ) -> Result<Vec<M::Reply>, DecideError<M::Refusal>> {
        let mut draft = self.log.draft(time);
        let mut replies = Vec::new();
        let at = draft.at();
        self.model.decide(&self.log, at, commands, &mut draft, &mut replies)?;
        assert_eq!(replies.len(), commands.len(), "one reply per command");
        let draft = draft.finish();
        for entry in self.log.append(draft) {
            self.model.apply(&entry);
        }
        Ok(replies)
    }

    /// The state that a restart finds: a checkpoint taken after `at`, and the replay of what
    /// follows.
    ///
    /// # Panics
    /// When the model can't load its own checkpoint.
    pub fn restarted(&self, at: Position) -> M {
        let mut before = M::default();
        let mut entries = self.log.entries().peekable();
        while let Some(entry) = entries.next_if(|entry| entry.place.position <= at) {
            before.apply(&entry);
        }
        let mut checkpoint = Encoder::new();
        before.save(&mut checkpoint);
        let mut decoder = Decoder::new(checkpoint.as_slice());
        let mut after = M::load(&mut decoder).expect("a model loads its own checkpoint");
        decoder.end().expect("a model reads its whole checkpoint");
        for entry in entries {
            after.apply(&entry);
        }
        after
    }

    /// The state as bytes, to compare two of them.
    pub fn saved(model: &M) -> Vec<u8> {
        let mut out = Encoder::new();
        model.save(&mut out);
        out.into_bytes()
    }
}
