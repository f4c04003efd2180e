//! The commits of clients.

use std::time::Duration;

use fastrand::Rng;
use quire::events::{Command, Condition, EventPosition, NewEvent, Query, QueryItem};
use quire::{Commit, Message, NewBlock, NewEdge, NewJob};

/// A commit of any model. Some are refused, for example because a key was used by another commit.
pub(super) fn draw_commit<'c>(random: &mut Rng, value: u64, text: &'c str) -> Commit<'c> {
    let store = *random.choice(&["events/one", "events/two"]).expect("some");
    let tag = *random.choice(&["red", "green"]).expect("some");
    let block = |random: &mut Rng| *random.choice(&["a", "b", "c"]).expect("some");
    let mut commit = Commit::new();
    for _ in 0..random.u32(1..3) {
        let event = NewEvent::new("Made").tag(tag).data(text);
        commit = match random.u32(0..9) {
            0..2 => commit.append(store, [event]),
            2 => {
                let query = Query::from(QueryItem::new().tag(tag));
                let after = EventPosition::new(random.u64(0..40));
                commit.append_if(store, [event], [Condition::fail_if_matches_after(query, after)])
            }
            3..5 => commit.produce("topic", Message::new(text)),
            5..7 => {
                let wait = Duration::from_millis(random.u64(0..4_000));
                commit.enqueue("queue", NewJob::new(text).run_at(wait))
            }
            7 => commit.put_block("graph", NewBlock::new(block(random), "kind").content(text)),
            _ => {
                let (from, to) = (block(random), block(random));
                commit.put_edge("graph", NewEdge::new(from, "links", to).allow_missing(true))
            }
        };
    }
    if random.u32(0..8) == 0 {
        // A compaction drops what it deletes.
        commit = commit.part(Command::Forget { store, tag: tag.as_bytes() });
    }
    if random.u32(0..4) == 0 {
        commit = commit.idempotency_key(format!("key {}", value % 12));
    }
    commit
}
