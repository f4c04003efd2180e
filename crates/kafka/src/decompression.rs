//! Decompresses batches on separate threads, with a limit for all connections.
//!
//! A few bytes of a request can demand the decompression of hundreds of megabytes, again and again.
//! All such work runs here, so that the threads that serve connections stay responsive. It runs in
//! the order of the requests.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How many batches are decompressed at a time. With the limit on the size of each, this bounds the
/// memory.
const AT_A_TIME: usize = 2;

#[derive(Debug)]
pub(crate) struct Decompressor {
    turns: Arc<Semaphore>,
}

impl Decompressor {
    pub(crate) fn new() -> Self {
        Decompressor { turns: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// Runs `work` on another thread when it is its turn. Dropping the future cancels work that has
    /// not begun.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let turn = Arc::clone(&self.turns)
            .acquire_owned()
            .await
            .expect("the semaphore stays open while connections are served");
        let done = spawn_blocking(move || {
            // The permit is returned when the work is done, even when the caller no longer waits
            // for it.
            let _turn = turn;
            work()
        });
        done.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
    }

    /// Waits until no work runs, and rejects further work.
    pub(crate) async fn end(&self) {
        let all = self.turns.acquire_many(AT_A_TIME as u32).await;
        drop(all);
        self.turns.close();
    }
}
