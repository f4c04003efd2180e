//! The turns of reads that unpack much: few at a time, whoever asks.
//!
//! A few stored bytes may stand for hundreds of megabytes. What one read unpacks is bounded, and with the turns, what all of them do.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::answer::aside;
use crate::error::Problem;

/// How many have their turn at a time.
const AT_A_TIME: usize = 2;

#[derive(Debug)]
pub(crate) struct Unpacking {
    turns: Arc<Semaphore>,
}

impl Default for Unpacking {
    fn default() -> Self {
        Unpacking { turns: Arc::new(Semaphore::new(AT_A_TIME)) }
    }
}

impl Unpacking {
    /// Makes this when it is its turn. What was not begun when the future is dropped, never is.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.expect("nobody closes it");
        aside(move || {
            // It is given back when this is made, also when nobody waits for that any more.
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
        let unpacking = Arc::new(Unpacking::default());
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
