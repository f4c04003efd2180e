//! A queue with a size limit, and more producers than its workers can serve.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use quire::jobs::{JobSpec, QueueChange};
use quire::{Database, Durability, ErrorKind, JobOutcome};

use crate::support::Place;

const PRODUCERS: u64 = 6;
const JOBS_EACH: u64 = 300;
const JOBS_MAX: u32 = 20;

/// Enqueues jobs, and retries each while the queue is full. Returns the number of retries.
fn produce(database: &Database, producer: u64) -> u64 {
    let mut refused = 0;
    for number in 0..JOBS_EACH {
        let payload = (producer * JOBS_EACH + number).to_le_bytes();
        loop {
            // Read before the attempt, so that space freed meanwhile ends the wait.
            let seen = database.published();
            match database.queue("q").enqueue(JobSpec::new(&payload)) {
                Ok(_) => break,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Overloaded, "{error}");
                    assert!(error.to_string().contains("retry in 100 ms"), "{error}");
                    refused += 1;
                    database.wait_after(seen, Duration::from_millis(100)).expect("it goes on");
                }
            }
        }
    }
    refused
}

#[test]
fn producers_refused_by_a_full_queue_lose_no_job_and_do_not_hang() {
    for durability in [Durability::Os, Durability::Sync] {
        let place = Place::new();
        let database = place.open(durability);
        let queue = database.queue("q");
        queue.set(QueueChange::JobsMax(Some(JOBS_MAX))).expect("set");
        let done = Mutex::new(BTreeSet::new());
        let worker = queue.worker("w").concurrency(2);
        let stop = worker.stopper();
        let refused: u64 = std::thread::scope(|scope| {
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|producer| {
                    scope.spawn({
                        let database = &database;
                        move || produce(database, producer)
                    })
                })
                .collect();
            worker
                .run(|job| {
                    let stats = database.queue("q").stats().expect("told").expect("there");
                    assert!(stats.pending + stats.active + stats.retrying <= u64::from(JOBS_MAX), "{stats:?}");
                    let number = u64::from_le_bytes(job.payload[..].try_into().expect("a number"));
                    let mut done = done.lock().expect("nobody panicked");
                    assert!(done.insert(number), "{number} was delivered before");
                    if done.len() as u64 == PRODUCERS * JOBS_EACH {
                        stop.stop();
                    }
                    JobOutcome::ack()
                })
                .expect("it ends well");
            producers.into_iter().map(|producer| producer.join().expect("a producer does not panic")).sum()
        });
        assert!(refused > 0, "the queue was full at times");
        assert_eq!(done.into_inner().expect("nobody panicked"), (0..PRODUCERS * JOBS_EACH).collect());
        drop((queue, database));

        let database = place.open(durability);
        let stats = database.queue("q").stats().expect("told").expect("there");
        assert_eq!((stats.completed, stats.dead), (PRODUCERS * JOBS_EACH, 0));
        for _ in 0..JOBS_MAX {
            database.queue("q").enqueue(JobSpec::new(b"")).expect("there is room");
        }
        let error = database.queue("q").enqueue(JobSpec::new(b"")).expect_err("the limit is kept");
        assert_eq!(error.kind(), ErrorKind::Overloaded);
    }
}
