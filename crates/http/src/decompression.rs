//! Limits the number of concurrent reads that decompress much.
//!
//! A few stored bytes may decompress to hundreds of megabytes. Each read has a limit, and the turns
//! limit all of them together.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::error::Problem;
use crate::response::aside;

/// How many reads decompress at a time.
const AT_A_TIME: usize = 2;

#[derive(Debug)]
pub(crate) struct DecompressionTurns {
    turns: Arc<Semaphore>,
}

impl Default for DecompressionTurns {
    fn default() -> Self {
        DecompressionTurns { turns: Arc::new(Semaphore::new(AT_A_TIME)) }
    }
}

impl DecompressionTurns {
    /// Runs `make` when it is its turn. Dropping the future cancels work that has not begun.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.expect("the semaphore stays open");
        aside(move || {
            // The permit is returned when the work is done, even when the caller no longer waits
            // for it.
            let _turn = turn;
            make()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn who_comes_third_waits_until_one_of_two_is_done_also_when_nobody_waits_for_that() {
        let unpacking = Arc::new(DecompressionTurns::default());
        let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let mut ends = Vec::new();
        let mut made = Vec::new();
        for number in 0..3 {
            let (end, ended) = mpsc::channel::<()>();
            let (unpacking, began) = (Arc::clone(&unpacking), began.clone());
            let task = tokio::spawn(async move {
                let make = move || {
                    began.send(number).expect("the test waits");
                    let _ = ended.recv();
                    Ok(())
                };
                unpacking.aside(make).await
            });
            ends.push(end);
            made.push(task);
            if number < AT_A_TIME {
                assert_eq!(begun.recv().await, Some(number));
            }
        }
        made[0].abort();
        assert!((&mut made[0]).await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(unpacking.turns.available_permits(), 0, "what was begun has its turn until it is done");
        assert!(begun.try_recv().is_err());
        ends.remove(0);
        assert_eq!(begun.recv().await, Some(2));
        ends.clear();
        for task in made.drain(1..) {
            assert!(task.await.expect("no panic").is_ok());
        }
    }
}
