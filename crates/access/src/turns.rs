//! Limits the number of concurrent long reads, and of requests to other servers.
//!
//! * Reads that decompress much: a few stored bytes may decompress to hundreds of megabytes. Each
//!   read has a limit, and the turns limit all reads of a front end together.
//! * Batches of subscriptions and pages: hundreds of clients that read the past at once would have
//!   as many threads, and commits would wait for a processor.
//! * Requests to an OpenID provider: browsers that sign in would have as many threads while the
//!   provider does not answer.
//!
//! A read waits for its turn before it gets a thread, so waiting reads do not use up the threads of
//! other work.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many reads decompress at a time.
const DECOMPRESSIONS: usize = 2;

/// How many browsers sign in at a time.
const LOGINS: usize = 8;

/// The turns of long reads of one kind. Clones share them.
#[derive(Debug, Clone)]
pub struct ReadTurns {
    turns: Arc<Semaphore>,
}

impl ReadTurns {
    /// The turns of reads that decompress much: two at a time.
    pub fn of_decompression() -> Self {
        ReadTurns::of(DECOMPRESSIONS)
    }

    /// The turns of batches and pages: as many at a time as there are processors.
    pub fn of_batches() -> Self {
        ReadTurns::of(available_parallelism().map_or(1, NonZero::get))
    }

    /// The turns of requests to an OpenID provider: eight at a time.
    pub fn of_logins() -> Self {
        ReadTurns::of(LOGINS)
    }

    fn of(count: usize) -> Self {
        ReadTurns { turns: Arc::new(Semaphore::new(count)) }
    }

    /// Waits for a turn. Turns are given in order.
    pub async fn turn(&self) -> ReadTurn {
        let permit = Arc::clone(&self.turns).acquire_owned().await;
        ReadTurn { _permit: permit.expect("the semaphore stays open") }
    }
}

/// The turns of reads that become long on a thread: as many at a time as there are processors.
/// Clones share them.
///
/// They are not those of [`ReadTurns`]: such a read has its turn before it gets a thread. If all
/// threads waited for turns, and all turns for threads, none would end.
#[derive(Debug, Clone)]
pub struct ThreadTurns(ReadTurns);

impl Default for ThreadTurns {
    fn default() -> Self {
        ThreadTurns(ReadTurns::of_batches())
    }
}

impl ThreadTurns {
    /// Waits for a turn, on a thread of a runtime that may wait.
    ///
    /// # Panics
    /// On a thread that serves connections.
    pub fn turn(&self) -> ReadTurn {
        Handle::current().block_on(self.0.turn())
    }
}

/// The turn of one read, which ends when it is dropped.
#[derive(Debug)]
pub struct ReadTurn {
    _permit: OwnedSemaphorePermit,
}

impl ReadTurn {
    /// Returns `work` for another thread. The turn ends with the work, even when the caller no
    /// longer waits for its result.
    pub fn hold<T>(self, work: impl FnOnce() -> T) -> impl FnOnce() -> T {
        move || {
            let _turn = self;
            work()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_read_on_the_only_thread_ends_while_all_other_turns_wait_for_a_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().expect("started");
        let (batches, threads) = (ReadTurns::of_batches(), ThreadTurns::default());
        runtime.block_on(async {
            let (go_on, waits) = mpsc::channel::<()>();
            let long = tokio::task::spawn_blocking(move || {
                waits.recv().expect("the test goes on");
                drop(threads.turn());
            });
            let mut others = Vec::new();
            while batches.turns.available_permits() > 0 {
                others.push(tokio::task::spawn_blocking(batches.turn().await.hold(|| ())));
            }
            go_on.send(()).expect("it waits");
            long.await.expect("it ends");
            for other in others {
                other.await.expect("it ends");
            }
        });
    }

    #[tokio::test]
    async fn the_third_read_waits_until_one_of_two_is_done_even_when_its_caller_has_left() {
        let unpacking = ReadTurns::of_decompression();
        let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let mut ends = Vec::new();
        let mut made = Vec::new();
        for number in 0..3 {
            let (end, ended) = mpsc::channel::<()>();
            let (unpacking, began) = (unpacking.clone(), began.clone());
            let task = tokio::spawn(async move {
                let make = move || {
                    began.send(number).expect("the test waits");
                    let _ = ended.recv();
                };
                tokio::task::spawn_blocking(unpacking.turn().await.hold(make)).await
            });
            ends.push(end);
            made.push(task);
            if number < DECOMPRESSIONS {
                assert_eq!(begun.recv().await, Some(number));
            }
        }
        made[0].abort();
        assert!((&mut made[0]).await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(unpacking.turns.available_permits(), 0, "work that has begun keeps its turn until it is done");
        assert!(begun.try_recv().is_err());
        ends.remove(0);
        assert_eq!(begun.recv().await, Some(2));
        ends.clear();
        for task in made.drain(1..) {
            assert!(task.await.expect("no panic").is_ok());
        }
    }
}
