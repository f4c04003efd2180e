//! The fingerprint of a request: a hash of its commands.
//!
//! The commands are hashed by their fields, with numbers of one width in little-endian order. So
//! the fingerprint does not depend on the front end, the process or the machine. It is stored for
//! as long as keys are kept. A release that changes it refuses copies of commits from before the
//! release, so `fingerprints_stay_the_same` compares some.

use std::hash::{Hash, Hasher};

use xxhash_rust::xxh3::Xxh3;

use super::Fingerprint;
use crate::commands::Commands;

impl Commands<'_, '_> {
    /// The fingerprint of these commands. Times and batches are part of it: give the commands of
    /// the time zero, so that a copy with delays in place of times has the same fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        let Commands { streams, events, jobs, graph, system, author: _, audit: _, idempotency_key: _, is_dry_run: _ } =
            self;
        assert!(system.is_empty(), "a change of access takes no idempotency key");
        let mut hasher = FixedHasher(Xxh3::new());
        streams.hash(&mut hasher);
        events.hash(&mut hasher);
        jobs.hash(&mut hasher);
        graph.hash(&mut hasher);
        Fingerprint(hasher.0.digest128())
    }
}

/// A hasher with one width and byte order of numbers.
struct FixedHasher(Xxh3);

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        self.0.digest()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn write_u16(&mut self, number: u16) {
        self.write(&number.to_le_bytes());
    }

    fn write_u32(&mut self, number: u32) {
        self.write(&number.to_le_bytes());
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn write_u128(&mut self, number: u128) {
        self.write(&number.to_le_bytes());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    // Enums hash their variant as this type.
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use quire_model::{Place, Position};

    use super::*;
    use crate::events::{Append, Condition, EventPosition, NewEvent, QueryItem};
    use crate::graph::{self, PutBlock};
    use crate::jobs::{Change, Filter, JobId, JobSpec, JobState, LeaseToken, Order, States};
    use crate::streams::{Committer, TopicRef};
    use crate::{events, jobs, streams};

    /// The fingerprints of stored requests must not change between releases: see the module.
    #[test]
    fn fingerprints_stay_the_same() {
        let place = Place::new(Position::new(17), 3);
        let offset = streams::Command::CommitOffset {
            group: "billing",
            topic: TopicRef::Name("orders"),
            partition: 1,
            offset: quire_model::Sequence::new(42),
            leader_epoch: None,
            metadata: "",
            by: Committer::Anyone,
        };
        let append = events::Command::Append(Append {
            store: "orders",
            events: vec![NewEvent::new("OrderPlaced").tag("order:17").data("{}")],
            conditions: vec![Condition::fail_if_matches_after(QueryItem::new().tag("order:17"), EventPosition::new(5))],
        });
        let jobs = [
            jobs::Command::Enqueue { queue: "mails", job: JobSpec::new(b"order 17") },
            jobs::Command::Ack { job: JobId::new(place), token: LeaseToken::new(place), result: b"done" },
        ];
        let fetch = jobs::Command::Fetch {
            queues: &["mails", "bills"],
            order: Order::Weighted(&[3, 1]),
            count: 10,
            lease_micros: 30_000_000,
            worker: "worker-1",
        };
        let waiting = States::of([JobState::Pending, JobState::Retrying]);
        let filter = Filter { queue: Some("mails"), states: waiting, tags: &["eu"], ..Filter::default() };
        let bulk = jobs::Command::Bulk { filter, change: Change::Cancel { reason: "recalled" } };
        let alone = [jobs[0], fetch, bulk];
        let each = [jobs::Command::Each(&alone)];
        let put = graph::Command::PutBlock(PutBlock::new("air/routes", "EWR", "airport"));
        let (streams, events, graph) = ([offset], [append], [put]);
        let prints = [
            Commands { streams: &streams, ..Commands::default() },
            Commands { events: &events, ..Commands::default() },
            Commands { jobs: &jobs, ..Commands::default() },
            Commands { jobs: &each, ..Commands::default() },
            Commands { graph: &graph, ..Commands::default() },
            Commands { streams: &streams, events: &events, jobs: &jobs, graph: &graph, ..Commands::default() },
        ]
        .map(|commands| format!("{:032x}", commands.fingerprint().0));
        let expected = [
            "508e497dd676068e6d253cd527ed271a",
            "2f6d0f114214ecf7a6312ec9dc43df3f",
            "24bd44a4e5278f2bcbf7122cfb604b31",
            "61369ca54b63c5aaf3a8ba661bedc186",
            "f1921d5848892bd371335adf437e7395",
            "ca32644e7a82f043679dfc09ed928cf7",
        ];
        assert_eq!(prints, expected);
    }
}
