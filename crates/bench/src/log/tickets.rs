//! One thread with many commits in flight. It waits for the oldest only, and one sync completes
//! many.

use std::collections::VecDeque;

use quire::streams::ProduceResult;
use quire::{CommitRefusal, Database, Message, Ticket};

use crate::case::CaseRun;
use crate::measurement::CaseResult;
use quire_cli::failure::Result;
use quire_cli::latencies::Latencies;
use quire_cli::opening::open;
use quire_cli::stopwatch::Stopwatch;

/// The outcome of a commit.
type CommitTicket = Ticket<std::result::Result<ProduceResult, CommitRefusal>>;

const TOPIC: &str = "bench";

/// Commits in flight.
const TICKETS: usize = 1_000;

/// Commits messages one by one, and takes each outcome a thousand commits later.
pub(super) fn append(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database;
    let topic = database.topic(TOPIC);
    let payload = vec![b'q'; run.case.payload_bytes];
    let mut producer = topic.producer();
    let mut under_way: VecDeque<(Stopwatch, CommitTicket)> = VecDeque::with_capacity(TICKETS);
    let mut latencies = Latencies::new();
    let answer = |(begun, ticket): (Stopwatch, CommitTicket), latencies: &mut Latencies| -> Result {
        ticket.wait()?.map_err(quire::Error::from)?;
        latencies.record(begun.elapsed());
        Ok(())
    };
    let before = database.statistics();
    let watch = Stopwatch::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        if under_way.len() == TICKETS {
            // The sync of the oldest commit completes others as well.
            answer(under_way.pop_front().expect("the window of pending commits is full"), &mut latencies)?;
        }
        under_way.push_back((Stopwatch::start(), producer.submit(&[Message::new(&payload)])?));
    }
    for oldest in under_way {
        answer(oldest, &mut latencies)?;
    }
    let elapsed = watch.elapsed();
    let after = database.statistics();
    let syncs = (after.syncs - before.syncs).max(1);
    let measured = CaseResult::of_clients([latencies], elapsed);
    Ok(measured.with("commits_per_sync", (after.commits - before.commits) as f64 / syncs as f64))
}
