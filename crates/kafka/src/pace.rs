//! The minimum rate of a client that holds memory for which others wait.
//!
//! Without a minimum rate, a few slow connections could block all large requests and fetches. Half
//! a request each, or large responses that they do not read, would be enough. While no other client
//! waits, any rate is allowed.

use std::time::Duration;

use quire_access::Deadline;
use quire_access::budget::BudgetCaller;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use crate::close_reason::CloseReason;

/// A client's rate since it got memory; see the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientPace {
    /// The time during which any rate is allowed.
    pub(crate) grace: Duration,
    /// After that, the minimum number of bytes per second.
    pub(crate) bytes_per_s: u64,
}

impl ClientPace {
    /// One megabyte a second is a hundredth of the bandwidth of a data center's network. Five
    /// seconds allow for lost packets.
    pub(crate) const USUAL: ClientPace = ClientPace { grace: Duration::from_secs(5), bytes_per_s: 1 << 20 };

    /// Whether `bytes` are too few for the time since the memory was taken.
    pub(crate) fn is_behind(&self, took: Duration, bytes: usize) -> bool {
        let due = took.saturating_sub(self.grace).as_secs_f64() * self.bytes_per_s as f64;
        took >= self.grace && bytes as f64 <= due
    }

    /// Writes a response that holds memory.
    ///
    /// # Errors
    /// [`CloseReason::Idle`] when the client reads it too slowly and others wait for the memory,
    /// [`CloseReason::Failed`] when the connection breaks.
    pub(crate) async fn write(
        &self,
        output: &mut (impl AsyncWrite + Unpin),
        answer: &[u8],
        caller: &BudgetCaller,
    ) -> Result<(), CloseReason> {
        let since = Instant::now();
        let mut left = answer;
        while !left.is_empty() {
            match timeout(self.grace, output.write(left)).await {
                Ok(Ok(0) | Err(_)) => return Err(CloseReason::Failed),
                Ok(Ok(written)) => left = &left[written..],
                Err(_) => {}
            }
            if self.is_behind(since.elapsed(), answer.len() - left.len()) && caller.is_waited_for() {
                return Err(CloseReason::Idle(Deadline::Response));
            }
        }
        output.flush().await.map_err(|_| CloseReason::Failed)
    }
}

#[cfg(test)]
mod tests {
    use quire_access::budget::{ByteBudget, ByteClaim, FrontEnd};
    use tokio::io::AsyncReadExt;

    use super::*;

    /// The bytes of a response of which the smallest budget has memory for one.
    const LARGE: usize = 700 << 10;

    fn caller(budget: &ByteBudget) -> BudgetCaller {
        budget.caller(FrontEnd::Kafka, None)
    }

    async fn claimed(budget: &ByteBudget) -> ByteClaim {
        let mut claim = caller(budget).claim();
        claim.grow_patiently(LARGE).await;
        claim
    }

    #[test]
    fn a_client_is_too_slow_only_after_the_patience_and_below_the_minimum_rate() {
        let pace = ClientPace { grace: Duration::from_secs(5), bytes_per_s: 1000 };
        assert!(!pace.is_behind(Duration::from_millis(4999), 0));
        assert!(pace.is_behind(Duration::from_secs(5), 0));
        assert!(pace.is_behind(Duration::from_secs(7), 2000));
        assert!(!pace.is_behind(Duration::from_secs(7), 2001));
    }

    #[tokio::test]
    async fn a_slow_reader_that_holds_memory_is_closed_once_others_wait_for_the_memory() {
        let budget = ByteBudget::new(ByteBudget::BYTES_LEAST);
        let pace = ClientPace { grace: Duration::from_millis(20), bytes_per_s: 1 << 20 };
        let answer = vec![1; LARGE];
        let (mut output, mut client) = tokio::io::duplex(1 << 10);
        {
            let held = claimed(&budget).await;
            let alone = timeout(5 * pace.grace, pace.write(&mut output, &answer, held.caller())).await;
            assert!(alone.is_err(), "nobody waits: it may take its time");
        }
        let held = claimed(&budget).await;
        let (ended, _held) = tokio::join!(
            async {
                let ended = pace.write(&mut output, &answer, held.caller()).await;
                drop(held);
                ended
            },
            claimed(&budget)
        );
        assert_eq!(ended, Err(CloseReason::Idle(Deadline::Response)));
        drop(output);
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.expect("what was written");
        assert!(read.len() < answer.len());
    }

    #[tokio::test]
    async fn a_reader_that_is_fast_enough_gets_everything_while_others_wait() {
        let budget = ByteBudget::new(ByteBudget::BYTES_LEAST);
        let answer: Vec<u8> = (0..LARGE).map(|i| i as u8).collect();
        let (mut output, mut client) = tokio::io::duplex(1 << 10);
        let held = claimed(&budget).await;
        let mut read = Vec::new();
        let (written, ..) = tokio::join!(
            async {
                let written = ClientPace::USUAL.write(&mut output, &answer, held.caller()).await;
                drop((held, output));
                written
            },
            claimed(&budget),
            client.read_to_end(&mut read)
        );
        assert_eq!(written, Ok(()));
        assert_eq!(read, answer);
    }
}
