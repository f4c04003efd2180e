//! The suite `log`: the cost of a commit, and of reading it.

mod append;
mod checkpoints;
mod entries;
mod groups;
mod packed;
mod payload;
mod processes;
mod reads;
mod sealed;
mod seen;
mod threads;
mod tickets;

use super::case::Case;
use quire::Durability;

pub(super) use entries::{EntryAppender, EntryWatcher};
pub(super) use processes::AppenderProcess;
pub(super) use seen::WatcherProcess;

/// The default payload of an entry, in bytes: the usual size of an event, and the size at which
/// other logs are compared.
const PAYLOAD_BYTES: usize = 116;

/// The payload of an event with a few dozen fields in JSON, in bytes.
const LARGE_PAYLOAD_BYTES: usize = 840;

/// Messages in a log that is opened.
const MANY: usize = 10_000_000;

/// The cases, in the order in which they run.
pub(super) const CASES: &[Case] = &[
    append("append-single", 1, Durability::Os, 500_000),
    append("append-batch-10", 10, Durability::Os, 100_000),
    append("append-batch-100", 100, Durability::Os, 20_000),
    append("append-batch-1000", 1_000, Durability::Os, 2_000),
    append("append-batch-10000", 10_000, Durability::Os, 300),
    Case {
        what: "fetch the next batch of messages, copied out",
        run: append::read_back,
        ..append("read-back", 1_000, Durability::Os, 1_000)
    },
    row(
        "append-10k",
        "produce one message and wait for the commit, ten thousand in a row, after as many bytes of zeros",
        10_000,
    ),
    row(
        "append-1m",
        "produce one message and wait for the commit, a million in a row, after as many bytes of zeros",
        1_000_000,
    ),
    row(
        "append-10m",
        "produce one message and wait for the commit, ten million in a row, after as many bytes of zeros",
        10_000_000,
    ),
    large(append("append-840", 1, Durability::Os, 200_000)),
    large(append("append-840-batch-10", 10, Durability::Os, 20_000)),
    large(append("append-840-batch-100", 100, Durability::Os, 3_000)),
    large(append("append-840-batch-1000", 1_000, Durability::Os, 300)),
    large(append("append-840-batch-10000", 10_000, Durability::Os, 60)),
    entry(append("entry-append", 1, Durability::Os, 500_000)),
    Case {
        what: "append ten million entries to the log alone, one by one, after as many bytes of zeros",
        run: entries::append_at_length,
        ..append("entry-append-10m", 1, Durability::Os, 10_000_000)
    },
    entry(append("entry-append-batch-10000", 10_000, Durability::Os, 300)),
    entry(large(append("entry-append-840", 1, Durability::Os, 200_000))),
    entry(large(append("entry-append-840-batch-10000", 10_000, Durability::Os, 60))),
    Case {
        what: "append one entry to the log alone, in several processes",
        clients: 2,
        processes: 2,
        run: entries::append_together,
        ..append("entry-append-processes-2", 1, Durability::Os, 200_000)
    },
    Case {
        what: "read along their tag what was just appended to the log alone in records of their own",
        run: entries::tail,
        ..append("entry-tail-read", 256, Durability::Os, 4_000)
    },
    Case {
        what: "read by its place once more one entry of a hundred million in the log alone, appended ten at a time",
        run: entries::random_among_many,
        ..append("entry-random-read-100m", 1, Durability::Os, 500_000)
    },
    Case {
        what: "append one entry to the log alone, and have it in another process that looks all the time",
        clients: 2,
        processes: 2,
        run: entries::seen_spinning,
        ..append("entry-seen-spinning", 1, Durability::Os, 100_000)
    },
    Case {
        what: "read in place what was just produced in messages of their own",
        run: reads::tail,
        ..append("tail-read", 256, Durability::Os, 4_000)
    },
    Case {
        what: "read in place one message of ten thousand",
        run: reads::random::<10_000>,
        ..append("random-read-10k", 1, Durability::Os, 500_000)
    },
    Case {
        what: "read in place one message of a million",
        run: reads::random::<1_000_000>,
        ..append("random-read-1m", 1, Durability::Os, 500_000)
    },
    Case {
        what: "read in place one message of ten million",
        run: reads::random::<10_000_000>,
        ..append("random-read-10m", 1, Durability::Os, 500_000)
    },
    Case {
        what: "read in place once more one message of a hundred million, produced ten at a time",
        run: reads::random_among_many,
        ..append("random-read-100m", 1, Durability::Os, 500_000)
    },
    read_threads("random-read-threads-2", 2),
    read_threads("random-read-threads-8", 8),
    Case {
        what: "read in place one message of ten million, in 64 MiB of memory",
        run: reads::pressed,
        ..append("random-read-pressed", 1, Durability::Os, 5_000)
    },
    Case {
        what: "read in place one message of a million that nothing has in memory",
        run: reads::cold,
        ..append("read-cold", 1, Durability::Os, 300)
    },
    Case {
        what: "read events with a tag that none of a hundred sealed segments holds",
        run: sealed::walk_absent,
        ..append("walk-absent-100", 1, Durability::Os, 200_000)
    },
    Case {
        what: "read events with a tag that each of a hundred sealed segments holds",
        run: sealed::walk_present,
        ..append("walk-present-100", 1, Durability::Os, 10_000)
    },
    large(Case {
        what: "read one message of two hundred thousand in packed segments",
        run: packed::random,
        ..append("random-read-packed", 1, Durability::Os, 50_000)
    }),
    Case {
        what: "open a cleanly closed log of so many messages",
        run: append::reopen,
        ..append("reopen", MANY, Durability::Os, 3)
    },
    large(Case {
        what: "open a log of 10 GB that was closed in order, of messages that were produced a thousand at a time",
        run: append::reopen_large,
        ..append("reopen-10gb", 12_000_000, Durability::Os, 3)
    }),
    Case {
        what: "open a log of so many messages whose process was killed behind the last",
        processes: 2,
        run: processes::recover,
        ..append("recover", MANY, Durability::Os, 1)
    },
    Case {
        what: "commit an offset of a consumer group",
        payload_bytes: 0,
        run: groups::ack,
        ..append("group-ack", 1, Durability::Os, 500_000)
    },
    Case {
        what: "produce one message while the state, a million jobs, is saved over and over",
        run: checkpoints::commit_meanwhile,
        ..append("append-checkpoints", 1, Durability::Os, 2_000_000)
    },
    Case {
        what: "produce one message, and have it in another process that looks all the time",
        clients: 2,
        processes: 2,
        run: seen::spinning,
        ..append("seen-spinning", 1, Durability::Os, 100_000)
    },
    Case {
        what: "produce one message, and have it in another process that sleeps until it comes",
        clients: 2,
        processes: 2,
        run: seen::sleeping,
        ..append("seen-sleeping", 1, Durability::Os, 2_000)
    },
    Case {
        what: "produce one message while the state, a million jobs, is saved over and over",
        run: checkpoints::commit_meanwhile,
        ..append("append-checkpoints", 1, Durability::Sync, 30_000)
    },
    append("append-single", 1, Durability::Sync, 1_000),
    Case {
        what: "append one entry to the log alone, in turn with bare writes of as many bytes, each with its sync",
        run: entries::append_beside_bare,
        ..append("entry-append", 1, Durability::Sync, 2_000)
    },
    append("append-batch-10", 10, Durability::Sync, 1_000),
    append("append-batch-100", 100, Durability::Sync, 500),
    append("append-batch-1000", 1_000, Durability::Sync, 200),
    append("append-batch-10000", 10_000, Durability::Sync, 50),
    large(append("append-840", 1, Durability::Sync, 1_000)),
    large(append("append-840-batch-100", 100, Durability::Sync, 300)),
    large(append("append-840-batch-10000", 10_000, Durability::Sync, 20)),
    threads("append-threads-2", 2, Durability::Os, 200_000),
    threads("append-threads-4", 4, Durability::Os, 200_000),
    threads("append-threads-8", 8, Durability::Os, 200_000),
    processes("append-processes-2", 2, Durability::Os, 200_000),
    processes("append-processes-4", 4, Durability::Os, 200_000),
    processes("append-processes-8", 8, Durability::Os, 200_000),
    large(threads("append-840-threads-2", 2, Durability::Os, 200_000)),
    large(threads("append-840-threads-4", 4, Durability::Os, 200_000)),
    large(threads("append-840-threads-8", 8, Durability::Os, 200_000)),
    large(processes("append-840-processes-2", 2, Durability::Os, 200_000)),
    large(processes("append-840-processes-4", 4, Durability::Os, 200_000)),
    large(processes("append-840-processes-8", 8, Durability::Os, 200_000)),
    batches(100, threads("append-threads-4-batch-100", 4, Durability::Os, 10_000)),
    batches(100, processes("append-processes-4-batch-100", 4, Durability::Os, 10_000)),
    threads("append-threads-2", 2, Durability::Sync, 2_000),
    threads("append-threads-4", 4, Durability::Sync, 4_000),
    threads("append-threads-8", 8, Durability::Sync, 5_000),
    threads("append-threads-128", 128, Durability::Sync, 50_000),
    processes("append-processes-2", 2, Durability::Sync, 2_000),
    processes("append-processes-4", 4, Durability::Sync, 4_000),
    processes("append-processes-8", 8, Durability::Sync, 8_000),
    large(threads("append-840-threads-2", 2, Durability::Sync, 2_000)),
    large(threads("append-840-threads-4", 4, Durability::Sync, 4_000)),
    large(threads("append-840-threads-8", 8, Durability::Sync, 5_000)),
    large(processes("append-840-processes-2", 2, Durability::Sync, 2_000)),
    large(processes("append-840-processes-4", 4, Durability::Sync, 4_000)),
    large(processes("append-840-processes-8", 8, Durability::Sync, 8_000)),
    batches(100, threads("append-threads-4-batch-100", 4, Durability::Sync, 2_000)),
    batches(100, processes("append-processes-4-batch-100", 4, Durability::Sync, 2_000)),
    Case {
        what: "produce one message, with a thousand under way that are not kept yet",
        run: tickets::append,
        ..append("append-tickets-1000", 1, Durability::Sync, 200_000)
    },
];

const fn row(name: &'static str, what: &'static str, ops: u64) -> Case {
    Case { what, run: append::append_at_length, ..append(name, 1, Durability::Os, ops) }
}

const fn entry(case: Case) -> Case {
    Case { what: "append entries to the log alone, under a tag that numbers them", run: entries::append, ..case }
}

const fn large(case: Case) -> Case {
    Case { payload_bytes: LARGE_PAYLOAD_BYTES, ..case }
}

const fn batches(batch: usize, case: Case) -> Case {
    Case { batch, ..case }
}

const fn threads(name: &'static str, clients: u32, durability: Durability, ops: u64) -> Case {
    Case {
        what: "produce and wait for the commit, in several threads",
        clients,
        run: threads::append,
        ..append(name, 1, durability, ops)
    }
}

const fn read_threads(name: &'static str, clients: u32) -> Case {
    Case {
        what: "read in place one message of a million, in several threads",
        clients,
        run: reads::random_in_threads,
        ..append(name, 1, Durability::Os, 500_000)
    }
}

const fn processes(name: &'static str, processes: u32, durability: Durability, ops: u64) -> Case {
    Case {
        what: "produce and wait for the commit, in several processes",
        clients: processes,
        processes,
        run: processes::append,
        ..append(name, 1, durability, ops)
    }
}

const fn append(name: &'static str, batch: usize, durability: Durability, ops: u64) -> Case {
    Case {
        suite: "log",
        name,
        what: "produce a batch of messages and wait for the commit",
        durability,
        payload_bytes: PAYLOAD_BYTES,
        clients: 1,
        processes: 1,
        batch,
        ops,
        run: append::append,
    }
}
