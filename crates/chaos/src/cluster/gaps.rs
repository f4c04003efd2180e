//! How long clients waited after each attack.

use std::fmt;
use std::time::Duration;

/// The longest gap between two acknowledged commits, after each attack.
#[derive(Debug, Default)]
pub(super) struct GapReport {
    killed: Vec<Duration>,
    stopped: Vec<Duration>,
    handed_over: Vec<Duration>,
}

impl GapReport {
    pub(super) fn killed(&mut self, gap: Duration) {
        self.killed.push(gap);
    }

    pub(super) fn stopped(&mut self, gap: Duration) {
        self.stopped.push(gap);
    }

    pub(super) fn handed_over(&mut self, gap: Duration) {
        self.handed_over.push(gap);
    }
}

impl fmt::Display for GapReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [("SIGKILL", &self.killed), ("SIGSTOP", &self.stopped), ("orderly stop", &self.handed_over)];
        for (name, gaps) in kinds.into_iter().filter(|(_, gaps)| !gaps.is_empty()) {
            let mut sorted = gaps.clone();
            sorted.sort_unstable();
            let at = |percent: usize| sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)].as_millis();
            let (p50, p99) = (at(50), at(99));
            writeln!(f, "    {name} of the leader, {} times: gap p50 {p50} ms, p99 {p99} ms", sorted.len())?;
        }
        Ok(())
    }
}
