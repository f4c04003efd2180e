//! Decompresses batches on separate threads, with a limit for all connections.
//!
//! A few bytes of a request can demand the decompression of hundreds of megabytes, again and again.
//! All such work runs here, so that the threads that serve connections stay responsive. It runs in
//! the order of the requests. Each claims memory for its client first.

use std::sync::Arc;

use kafka_protocol::ResponseError;
use quire_access::budget::BudgetCaller;
use tokio::sync::Semaphore;

use crate::errors::KafkaError;

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

    /// Runs `work` for `caller` on another thread when it is its turn. Dropping the future cancels
    /// work that has not begun.
    ///
    /// # Errors
    /// When there is too little memory, and the error of `work`.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        caller: &BudgetCaller,
        work: impl FnOnce() -> Result<T, KafkaError> + Send + 'static,
    ) -> Result<T, KafkaError> {
        let turn = Arc::clone(&self.turns)
            .acquire_owned()
            .await
            .expect("the semaphore stays open while connections are served");
        let mut claim = caller.claim();
        claim.grow(caller.share_up_to(quire::OPENED_BYTES_MAX))?;
        let done = quire_access::aside(move || {
            let _claim = claim;
            // The permit is returned when the work is done, even when the caller no longer waits
            // for it.
            let _turn = turn;
            work()
        });
        // Clients repeat a request after this error.
        done.await.map_err(|stopping| KafkaError::new(ResponseError::NetworkException, stopping.to_string()))?
    }

    /// Waits until no work runs, and rejects further work.
    pub(crate) async fn end(&self) {
        let all = self.turns.acquire_many(AT_A_TIME as u32).await;
        drop(all);
        self.turns.close();
    }
}
