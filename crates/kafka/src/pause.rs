//! Pauses of long work that runs on a thread that serves connections. Other connections are served
//! meanwhile, and a client that has left is noticed.

use tokio::task::yield_now;

/// How many steps run without a pause. A step looks a partition up, for example.
pub(crate) const STEPS_AT_ONCE: usize = 256;

/// Counts steps, and pauses after every [`STEPS_AT_ONCE`] of them.
#[derive(Debug, Default)]
pub(crate) struct RegularPause {
    steps: usize,
}

impl RegularPause {
    pub(crate) async fn step(&mut self) {
        self.steps += 1;
        if self.steps == STEPS_AT_ONCE {
            self.steps = 0;
            yield_now().await;
        }
    }
}
