//! One thread with many commits under way: it waits for the oldest only, and one sync answers many.

use std::collections::VecDeque;

use quire::{Commit, Database, Message, Outcome, Ticket};

use crate::bench::case::Run;
use crate::bench::measurement::Measured;
use crate::failure::Result;
use crate::latencies::Latencies;
use crate::opening::open;
use crate::stopwatch::Stopwatch;

const TOPIC: &str = "bench";

/// How many commits are under way.
const TICKETS: usize = 1_000;

/// Commits messages one by one, and takes the answers a thousand commits later.
pub(super) fn append(run: &Run<'_>) -> Result<Measured> {
    let database = open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database;
    let payload = vec![b'q'; run.case.payload_bytes];
    let mut under_way: VecDeque<(Stopwatch, Ticket<Outcome>)> = VecDeque::with_capacity(TICKETS);
    let mut latencies = Latencies::new();
    let answer = |(begun, ticket): (Stopwatch, Ticket<Outcome>), latencies: &mut Latencies| -> Result {
        ticket.wait()?.committed()?;
        latencies.record(begun.elapsed());
        Ok(())
    };
    let before = database.statistics();
    let watch = Stopwatch::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        if under_way.len() == TICKETS {
            // Whatever the sync that answers the oldest answers as well goes with it.
            answer(under_way.pop_front().expect("it is full"), &mut latencies)?;
        }
        let commit = Commit::new().produce(TOPIC, Message::new(&payload));
        under_way.push_back((Stopwatch::start(), database.submit(&commit)?));
    }
    for oldest in under_way {
        answer(oldest, &mut latencies)?;
    }
    let elapsed = watch.elapsed();
    let after = database.statistics();
    let syncs = (after.syncs - before.syncs).max(1);
    let measured = Measured::of_clients([latencies], elapsed);
    Ok(measured.with("commits_per_sync", (after.commits - before.commits) as f64 / syncs as f64))
}
