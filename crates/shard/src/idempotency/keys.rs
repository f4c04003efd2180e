//! The keys that are kept, and the places of their answers.
//!
//! Invariant: keys stand in the order of their records. So forgetting takes them from the front,
//! and a key that was forgotten never comes back.

use std::collections::VecDeque;
use std::mem::size_of;

use hashbrown::HashTable;
use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{At, Effects, Entry, History, ModelId, Place, Position, ReadError, Timestamp};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::entry::AnsweredCommit;
use super::{IdempotencyKey, IdempotencyMemory, IdempotencyRefusal, IdempotencySettings, answer};
use crate::commands::Replies;

/// The version of the saved form.
const VERSION: u8 = 1;

/// Most keys that one commit forgets. It adds one, so the keys soon are as few as they may be.
const FORGOTTEN_MAX: usize = 1_024;

/// The kept keys.
#[derive(Debug, Default)]
pub(crate) struct IdempotencyKeys {
    /// Of the hashes: it keeps users from choosing keys with one hash.
    seed: u64,
    /// In the order of their records.
    kept: VecDeque<KeptKey>,
    /// The number of the first of `kept`. Numbers go on with each key, and wrap around.
    first: u32,
    /// The number of the newest record of each key.
    by_hash: HashTable<u32>,
}

#[derive(Debug, Clone, Copy)]
struct KeptKey {
    /// 128 bits, so that two keys do not have the same one.
    hash: [u64; 2],
    position: u64,
    expires_micros: u64,
    /// The index of the entry in its record.
    index: u32,
}

impl KeptKey {
    fn place(&self) -> Place {
        Place::new(Position::new(self.position), self.index)
    }

    fn is_kept_at(&self, time: Timestamp) -> bool {
        time.as_micros() < self.expires_micros
    }
}

/// What is known of a key.
pub(crate) enum KeyLookup {
    /// Nothing: the models decide.
    Unknown,
    /// This is the position and time of the commit's first copy. Its replies are in place.
    Answered(At),
    Refused(IdempotencyRefusal),
}

impl IdempotencyKeys {
    /// The state before the first record.
    pub(crate) fn new(seed: u64) -> Self {
        IdempotencyKeys { seed, ..IdempotencyKeys::default() }
    }

    /// The number of keys in memory. Some may have expired.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The keys in memory, and the bytes that they take.
    pub(crate) fn memory(&self) -> IdempotencyMemory {
        let bytes = self.kept.capacity() * size_of::<KeptKey>() + self.by_hash.allocation_size();
        IdempotencyMemory { keys: self.kept.len() as u64, bytes: bytes as u64 }
    }

    /// Whether the key has an answer at a time, or another key of its hash has one.
    pub(crate) fn may_know(&self, key: &IdempotencyKey<'_>, time: Timestamp) -> bool {
        self.find(self.hash(&key.kept_text())).is_some_and(|found| found.is_kept_at(time))
    }

    /// The position of the newest commit of a key.
    pub(crate) fn position_of(&self, key: &str) -> Option<Position> {
        self.find(self.hash(key)).map(|found| Position::new(found.position))
    }

    /// Looks for the first answer to the commit of this key, as of a decision at `at`. Writes the
    /// replies of that answer to `replies`, which are empty.
    ///
    /// # Errors
    /// When the answer can't be read.
    pub(crate) fn look_up(
        &self,
        history: &dyn History,
        at: At,
        key: &IdempotencyKey<'_>,
        replies: &mut Replies,
    ) -> Result<KeyLookup, ReadError> {
        if let Err(refusal) = IdempotencyRefusal::check(key.key) {
            return Ok(KeyLookup::Refused(refusal));
        }
        let text = key.kept_text();
        let found = self.find(self.hash(&text)).filter(|found| found.is_kept_at(at.time));
        let Some(place) = found.map(KeptKey::place) else { return Ok(KeyLookup::Unknown) };
        let damaged = |message: String| ReadError::damaged(Some(place), message);
        let entry = history.entry(place)?;
        let entry = entry.ok_or_else(|| damaged("the answer of an idempotency key is missing".to_owned()))?;
        let unreadable = |error: CodecError| damaged(format!("the answer of an idempotency key: {error}"));
        let first = AnsweredCommit::decode(&entry).map_err(unreadable)?;
        if first.text != text {
            return Ok(KeyLookup::Unknown);
        }
        if first.fingerprint != key.fingerprint {
            let refusal = IdempotencyRefusal::KeyReused { key: key.key.into(), position: place.position };
            return Ok(KeyLookup::Refused(refusal));
        }
        answer::decode(first.answer, replies).map_err(unreadable)?;
        Ok(KeyLookup::Answered(At { position: place.position, time: entry.time }))
    }

    /// Adds the key to the record of its commit, with the replies, which were just decided.
    pub(crate) fn store(
        &self,
        settings: IdempotencySettings,
        key: IdempotencyKey<'_>,
        replies: &Replies,
        effects: &mut dyn Effects,
    ) {
        let at = effects.at();
        let mut answer = effects.scratch();
        answer::encode(replies, &mut answer);
        let retention_micros = settings.retention_ms.saturating_mul(1_000);
        AnsweredCommit {
            expires: at.time.plus_micros(retention_micros),
            kept_from: self.kept_from(settings, at),
            text: &key.kept_text(),
            fingerprint: key.fingerprint,
            answer: answer.as_slice(),
        }
        .push(effects);
        effects.keep(answer);
    }

    /// The position of the oldest record whose key is kept besides that of the record at `at`.
    fn kept_from(&self, settings: IdempotencySettings, at: At) -> Position {
        let expired = self.kept.iter().take(FORGOTTEN_MAX).take_while(|key| !key.is_kept_at(at.time)).count();
        let keys_max = usize::try_from(settings.keys_max.max(1)).unwrap_or(usize::MAX);
        let over = (self.kept.len() + 1).saturating_sub(keys_max);
        let forgotten = expired.max(over.min(FORGOTTEN_MAX));
        self.kept.get(forgotten).map_or(at.position, |oldest| Position::new(oldest.position))
    }

    /// Checks that [`IdempotencyKeys::apply`] can take an entry.
    pub(crate) fn check_applicable(entry: &Entry<'_>) -> Result<(), &'static str> {
        AnsweredCommit::decode(entry).map(|_| ()).map_err(|_| "its answer is unreadable")
    }

    pub(crate) fn apply(&mut self, entry: &Entry<'_>) {
        let answered = AnsweredCommit::decode(entry).expect("the log verified the entry");
        while self.kept.front().is_some_and(|oldest| oldest.position < answered.kept_from.get()) {
            self.forget_oldest();
        }
        self.keep(KeptKey {
            hash: self.hash(answered.text),
            position: entry.place.position.get(),
            expires_micros: answered.expires.as_micros(),
            index: entry.place.index,
        });
    }

    /// Whether an entry holds the answer of a kept key.
    pub(crate) fn survives(&self, entry: &Entry<'_>) -> bool {
        self.kept.binary_search_by_key(&entry.place.position.get(), |key| key.position).is_ok()
    }

    /// Writes the keys. Without any, nothing is written: programs that know no keys can then read
    /// the checkpoint.
    pub(crate) fn save_in_parts(&self, sink: &mut dyn FnMut(&[u8])) {
        if self.kept.is_empty() {
            return;
        }
        let mut out = Encoder::new();
        out.u8(VERSION).varint(self.kept.len() as u64);
        let mut before = 0;
        for KeptKey { hash, position, expires_micros, index } in &self.kept {
            out.varint(position - before).varint(u64::from(*index)).u64(*expires_micros).u64(hash[0]).u64(hash[1]);
            before = *position;
        }
        sink(Encoder::new().u8(ModelId::IDEMPOTENCY.get()).u64(out.as_slice().len() as u64).as_slice());
        sink(out.as_slice());
    }

    /// Reads the keys of a section that [`IdempotencyKeys::save_in_parts`] wrote.
    pub(crate) fn load(from: &mut Decoder<'_>, seed: u64) -> Result<Self, CodecError> {
        const fn expected(expected: &'static str) -> CodecError {
            CodecError { expected, bytes_left: 0 }
        }
        if from.u8()? != VERSION {
            return Err(expected("idempotency keys of a known version"));
        }
        let mut keys = IdempotencyKeys::new(seed);
        let mut before = 0u64;
        for _ in 0..from.varint()? {
            let (ahead, index) = (from.varint()?, from.varint_u32()?);
            let position = before.checked_add(ahead).filter(|_| ahead > 0).ok_or(expected("a later position"))?;
            let expires_micros = from.u64()?;
            keys.keep(KeptKey { hash: [from.u64()?, from.u64()?], position, expires_micros, index });
            before = position;
        }
        Ok(keys)
    }

    fn hash(&self, key: &str) -> [u64; 2] {
        let hash = xxh3_128_with_seed(key.as_bytes(), self.seed);
        [hash as u64, (hash >> 64) as u64]
    }

    fn find(&self, hash: [u64; 2]) -> Option<&KeptKey> {
        let number = self.by_hash.find(hash[0], |number| self.at(*number).hash == hash)?;
        Some(self.at(*number))
    }

    fn at(&self, number: u32) -> &KeptKey {
        &self.kept[index_of(number, self.first)]
    }

    fn keep(&mut self, key: KeptKey) {
        let number = self.first.wrapping_add(u32::try_from(self.kept.len()).expect("keys_max has 32 bits"));
        self.kept.push_back(key);
        let (kept, first) = (&self.kept, self.first);
        let hash_of = |number: &u32| kept[index_of(*number, first)].hash;
        match self.by_hash.find_mut(key.hash[0], |known| hash_of(known) == key.hash) {
            // The key had expired.
            Some(known) => *known = number,
            None => _ = self.by_hash.insert_unique(key.hash[0], number, |known| hash_of(known)[0]),
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.kept.front() else { return };
        // A later record of the same key stays.
        if let Ok(known) = self.by_hash.find_entry(oldest.hash[0], |number| *number == self.first) {
            known.remove();
        }
        self.kept.pop_front();
        self.first = self.first.wrapping_add(1);
    }
}

fn index_of(number: u32, first: u32) -> usize {
    number.wrapping_sub(first) as usize
}
