//! Where compressed batches are unpacked: on threads of their own, and few at a time for all connections together.
//!
//! A few bytes of a request can ask for hundreds of megabytes to be unpacked, again and again. Whatever does so is run here, so that
//! the threads that serve connections go on serving them, and takes its turn: who asks for one thing more stands behind everybody
//! who asked before.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How much is worked at, at a time: with what one of them may unpack, this bounds the memory.
const AT_A_TIME: usize = 2;

#[derive(Debug)]
pub(crate) struct Unpacking {
    turns: Arc<Semaphore>,
}

impl Unpacking {
    pub(crate) fn new() -> Self {
        Unpacking { turns: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// Does this when it is its turn, elsewhere. What was not begun when the future is dropped, never is.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let turn =
            Arc::clone(&self.turns).acquire_owned().await.expect("nobody closes it while connections are served");
        let done = spawn_blocking(move || {
            // It is given back when the work is done, also when nobody waits for that any more.
            let _turn = turn;
            work()
        });
        done.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
    }

    /// Waits until nothing is worked at; nobody may ask any more.
    pub(crate) async fn end(&self) {
        let all = self.turns.acquire_many(AT_A_TIME as u32).await;
        drop(all);
        self.turns.close();
    }
}
