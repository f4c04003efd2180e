//! What a thread keeps from one commit to the next, for its memory alone: who commits tends to do
//! so again.

use std::cell::Cell;

use quire_shard::Replies;

use crate::streams::wire::BatchBuilder;

/// How many answers there is room for at most in what is kept, how many builders of batches are
/// kept, and how many bytes each may have.
const REPLIES_MAX: usize = 64;
const BUILDERS_MAX: usize = 16;
const BUILDER_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static REPLIES: Cell<Replies> = const { Cell::new(Replies::new()) };
    static BUILDERS: Cell<Vec<BatchBuilder>> = const { Cell::new(Vec::new()) };
}

/// Does something with room for the answers to a commit.
pub(crate) fn with_replies<T>(commit: impl FnOnce(&mut Replies) -> T) -> T {
    // A thread that ends has none to give any more.
    let mut replies = REPLIES.try_with(Cell::take).unwrap_or_default();
    let committed = commit(&mut replies);
    if replies.capacity() <= REPLIES_MAX {
        let _ = REPLIES.try_with(|room| room.set(replies));
    }
    committed
}

/// A builder of batches that holds no record.
pub(crate) fn builder() -> BatchBuilder {
    let mut builder = with_builders(Vec::pop).flatten().unwrap_or_default();
    builder.clear();
    builder
}

/// Takes a builder that is no longer needed.
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
