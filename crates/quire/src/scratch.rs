//! Memory that a thread keeps from one commit to the next. A thread that commits usually commits
//! again.

use std::cell::Cell;

use quire_shard::Replies;

use crate::streams::wire::BatchBuilder;

/// Limit of the kept memory: replies, batch builders, and bytes of each builder.
const REPLIES_MAX: usize = 64;
const BUILDERS_MAX: usize = 16;
const BUILDER_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static REPLIES: Cell<Replies> = const { Cell::new(Replies::new()) };
    static BUILDERS: Cell<Vec<BatchBuilder>> = const { Cell::new(Vec::new()) };
}

/// Calls `commit` with memory for its replies.
pub(crate) fn with_replies<T>(commit: impl FnOnce(&mut Replies) -> T) -> T {
    // A thread that is ending no longer has kept memory.
    let mut replies = REPLIES.try_with(Cell::take).unwrap_or_default();
    let committed = commit(&mut replies);
    if replies.capacity() <= REPLIES_MAX {
        let _ = REPLIES.try_with(|room| room.set(replies));
    }
    committed
}

/// Returns an empty batch builder.
pub(crate) fn builder() -> BatchBuilder {
    let mut builder = with_builders(Vec::pop).flatten().unwrap_or_default();
    builder.clear();
    builder
}

/// Keeps a builder for the next commit.
pub(crate) fn keep(builder: BatchBuilder) {
    with_builders(|kept| {
        if kept.len() < BUILDERS_MAX && builder.capacity_bytes() <= BUILDER_BYTES_MAX {
            kept.push(builder);
        }
    });
}

fn with_builders<T>(change: impl FnOnce(&mut Vec<BatchBuilder>) -> T) -> Option<T> {
    let changed = BUILDERS.try_with(|room| {
        let mut builders = room.take();
        let changed = change(&mut builders);
        room.set(builders);
        changed
    });
    changed.ok()
}
