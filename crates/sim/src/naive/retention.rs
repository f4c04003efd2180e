//! Retention: the expired messages and events, and the expired history of graphs.

use super::{Message, Naive, NaiveReply, Part, Topic};

/// The commits of one retention run.
#[derive(Debug)]
pub(crate) struct NaiveRetention {
    /// Whether any retention is set.
    pub(crate) looks: bool,
    pub(crate) commits: Vec<ExpiredCommit>,
}

/// A commit that deletes something.
#[derive(Debug, Clone)]
pub(crate) struct ExpiredCommit {
    pub(crate) part: Part,
    /// Whether the commit is certain. A compaction may already have removed the data that it would
    /// delete.
    pub(crate) certain: bool,
}

impl Naive {
    /// The expired data of the records up to `published`. Topics come first, the older ones before
    /// the others, and the graph last.
    pub(crate) fn past_its_time(&self, now: u64, published: u64) -> NaiveRetention {
        let mut goes = NaiveRetention { looks: false, commits: Vec::new() };
        let mut topics: Vec<_> = self.topics.iter().collect();
        topics.sort_by_key(|(_, topic)| topic.number);
        for (&name, topic) in topics {
            if topic.compacts || topic.kept_ms.is_none() && topic.kept_bytes.is_none() {
                continue;
            }
            goes.looks = true;
            let mut start = topic.start.max(topic.kept_bytes.map_or(0, |bytes| topic.start_with(bytes)));
            if let Some(kept_ms) = topic.kept_ms {
                let keep_from_ms = (now / 1000).saturating_sub(kept_ms);
                let old = topic.messages.iter().skip(usize::try_from(start).expect("small"));
                let old = old.take_while(|message| message.record <= published && message.time_ms < keep_from_ms);
                start += old.count() as u64;
            }
            let start = self.unread(name).map_or(start, |unread| unread.min(start));
            if start > topic.start {
                let part = Part::DeleteRecords { topic: name, before: Some(start), keep_unread: true };
                goes.commits.push(ExpiredCommit { part, certain: true });
            }
        }
        for (&name, store) in &self.stores {
            let Some(kept_ms) = store.kept_ms else { continue };
            goes.looks = true;
            let keep_from = now.saturating_sub(kept_ms * 1000);
            let old = |at: usize| store.events[at].record <= published && store.events[at].time < keep_from;
            // Times are ordered by position.
            let up_to = (0..store.events.len()).take_while(|at| old(*at)).count();
            if up_to as u64 > store.trimmed {
                let seen = store.events[..up_to].iter().any(|event| !event.gone);
                let part = Part::Trim { store: name, up_to: up_to as u64 };
                goes.commits.push(ExpiredCommit { part, certain: seen || !self.compacted });
            }
        }
        if let Some(kept_ms) = self.graph.kept_ms {
            goes.looks = true;
            if let Some(from) = self.graph.last_before(now.saturating_sub(kept_ms * 1000), published) {
                goes.commits.push(ExpiredCommit { part: Part::TrimGraph { from }, certain: true });
            }
        }
        goes
    }

    /// The first message that a protecting group has not read.
    pub(super) fn unread(&self, topic: usize) -> Option<u64> {
        let protected = &self.topics.get(&topic)?.protected;
        protected.iter().map(|group| self.offsets.get(&(*group, topic)).copied().unwrap_or_default()).min()
    }

    /// Adopts the position up to which a store was trimmed, which may differ for events that were
    /// already deleted. Returns whether the position is possible.
    pub(crate) fn trimmed_up_to(&mut self, store: usize, up_to: u64) -> bool {
        let Some(store) = self.stores.get_mut(&store) else { return up_to == 0 };
        store.trimmed = up_to;
        let there = usize::try_from(up_to).ok().and_then(|up_to| store.events.get(..up_to));
        there.is_some_and(|events| events.iter().all(|event| event.gone))
    }

    /// The position up to which a store was trimmed.
    pub(crate) fn trimmed(&self, store: usize) -> u64 {
        self.stores.get(&store).map_or(0, |store| store.trimmed)
    }
}

impl Topic {
    /// The last offset from which at least `bytes` bytes remain; 0 when there are fewer.
    fn start_with(&self, bytes: u64) -> u64 {
        let mut behind = 0;
        let found = self.messages.iter().rposition(|message| {
            behind += message.batch_bytes();
            behind >= bytes
        });
        found.map_or(0, |offset| offset as u64)
    }
}

impl Message {
    /// The message's size in the log, as a Kafka record batch of one record.
    fn batch_bytes(&self) -> u64 {
        /// Before the records.
        const HEADER_BYTES: usize = 61;
        let varint = |number: usize| if number < 64 { 1 } else { 2 };
        let value = self.text().map_or(1, |text| varint(text.len()) + text.len());
        // One byte each for the attributes, the time delta, the offset delta and the number of
        // headers; then the key and the value.
        let record = 4 + varint(self.key().len()) + self.key().len() + value;
        (HEADER_BYTES + varint(record) + record) as u64
    }
}

impl NaiveReply {
    /// The size of an append without events.
    pub(crate) const NOTHING: NaiveReply = NaiveReply::Appended { positions: None, duplicate: false };
}
