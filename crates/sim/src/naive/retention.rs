//! What is kept for a time only: which messages and events are past it, and how much of the graph's past.

use super::{Answer, Message, Naive, Part, Topic};

/// What one look at retention lets go of, a commit each.
#[derive(Debug)]
pub(crate) struct Goes {
    /// Whether anything is kept for a time only.
    pub(crate) looks: bool,
    pub(crate) commits: Vec<Goner>,
}

/// A commit that lets something go.
#[derive(Debug, Clone)]
pub(crate) struct Goner {
    pub(crate) part: Part,
    /// Whether it has to be. What it would let go of may be gone with a compaction, and is then no reason for it.
    pub(crate) certain: bool,
}

impl Naive {
    /// What is past its time, of the records up to `published`. Topics come first, the older ones before the others, and the graph last.
    pub(crate) fn past_its_time(&self, now: u64, published: u64) -> Goes {
        let mut goes = Goes { looks: false, commits: Vec::new() };
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
                goes.commits.push(Goner { part, certain: true });
            }
        }
        for (&name, store) in &self.stores {
            let Some(kept_ms) = store.kept_ms else { continue };
            goes.looks = true;
            let keep_from = now.saturating_sub(kept_ms * 1000);
            let old = |at: usize| store.events[at].record <= published && store.events[at].time < keep_from;
            // Times follow positions.
            let up_to = (0..store.events.len()).take_while(|at| old(*at)).count();
            if up_to as u64 > store.trimmed {
                let seen = store.events[..up_to].iter().any(|event| !event.gone);
                let part = Part::Trim { store: name, up_to: up_to as u64 };
                goes.commits.push(Goner { part, certain: seen || !self.compacted });
            }
        }
        if let Some(kept_ms) = self.graph.kept_ms {
            goes.looks = true;
            if let Some(from) = self.graph.last_before(now.saturating_sub(kept_ms * 1000), published) {
                goes.commits.push(Goner { part: Part::TrimGraph { from }, certain: true });
            }
        }
        goes
    }

    /// The first message that a group has not read for which it is kept.
    pub(super) fn unread(&self, topic: usize) -> Option<u64> {
        let protected = &self.topics.get(&topic)?.protected;
        protected.iter().map(|group| self.offsets.get(&(*group, topic)).copied().unwrap_or_default()).min()
    }

    /// Takes over up to where a store was trimmed, which of events that were gone already need not be what it would be here.
    /// Says whether it can be.
    pub(crate) fn trimmed_up_to(&mut self, store: usize, up_to: u64) -> bool {
        let Some(store) = self.stores.get_mut(&store) else { return up_to == 0 };
        store.trimmed = up_to;
        let there = usize::try_from(up_to).ok().and_then(|up_to| store.events.get(..up_to));
        there.is_some_and(|events| events.iter().all(|event| event.gone))
    }

    /// Up to where a store was trimmed.
    pub(crate) fn trimmed(&self, store: usize) -> u64 {
        self.stores.get(&store).map_or(0, |store| store.trimmed)
    }
}

impl Topic {
    /// The last offset that has at least so many bytes from it on; 0 when there are not so many.
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
    /// What stands in the log for it: a batch of its own, as Kafka has it.
    fn batch_bytes(&self) -> u64 {
        /// Before the records.
        const HEADER_BYTES: usize = 61;
        let varint = |number: usize| if number < 64 { 1 } else { 2 };
        let value = self.text().map_or(1, |text| varint(text.len()) + text.len());
        // Attributes, time and offset in the batch, no headers; the key.
        let record = 4 + varint(self.key().len()) + self.key().len() + value;
        (HEADER_BYTES + varint(record) + record) as u64
    }
}

impl Answer {
    /// Of an append without events.
    pub(crate) const NOTHING: Answer = Answer::Appended { positions: None, duplicate: false };
}
