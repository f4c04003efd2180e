//! The share of the processors that other programs used during a case. A slow case is not compared
//! when other programs used much of the processors.

use std::fs;

/// A reading before a case, for comparison with one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OtherPrograms {
    machine: Machine,
    own: u64,
}

/// The ticks of all processors, by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Machine {
    /// Ticks of programs, of the kernel for them, and of other machines on the same processors.
    /// Interrupts are left out, because those of the case's own connections are among them.
    taken: u64,
    all: u64,
}

impl OtherPrograms {
    /// `None` when the kernel does not report it.
    pub(super) fn begin() -> Option<Self> {
        let machine = Machine::of(&fs::read_to_string("/proc/stat").ok()?)?;
        let own = own(&fs::read_to_string("/proc/self/stat").ok()?)?;
        Some(OtherPrograms { machine, own })
    }

    /// The share of all processors since the measurement began, in percent. Servers of the case
    /// count as its own after they have ended.
    pub(super) fn percent(self) -> Option<f64> {
        Some(self.percent_until(OtherPrograms::begin()?))
    }

    fn percent_until(self, now: OtherPrograms) -> f64 {
        let taken = now.machine.taken.saturating_sub(self.machine.taken);
        let all = now.machine.all.saturating_sub(self.machine.all).max(1);
        let others = taken.saturating_sub(now.own.saturating_sub(self.own));
        (others as f64 * 100.0 / all as f64).round()
    }
}

impl Machine {
    /// Parses the first line of `/proc/stat`: `cpu`, and ticks as user, nice, system, idle, iowait,
    /// irq, softirq, steal.
    fn of(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|ticks| ticks.parse().ok()).collect();
        let [user, nice, system, idle, waiting, irq, softirq, steal, ..] = ticks[..] else { return None };
        let taken = user + nice + system + steal;
        Some(Machine { taken, all: taken + idle + waiting + irq + softirq })
    }
}

/// The ticks of a process and of its children that have ended, from its line of `/proc/PID/stat`.
fn own(stat: &str) -> Option<u64> {
    // The name, in parentheses, may contain any character.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(4).map(|ticks| ticks.parse().ok());
    ticks.collect::<Option<Vec<u64>>>().filter(|ticks| ticks.len() == 4).map(|ticks| ticks.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_other_programs_excludes_the_own_processes() {
        let at = |stat, own| OtherPrograms { machine: Machine::of(stat).expect("ticks"), own };
        let before = at("cpu  100 10 50 1000 5 3 2 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n", 40);
        assert_eq!(before.machine, Machine { taken: 167, all: 1177 });
        let after = at("cpu  150 10 60 1130 5 5 5 7 0 0\n", 80);
        assert_eq!(before.percent_until(after), 10.0, "60 of 200 ticks, of which 40 are its own");
        assert_eq!(
            before.percent_until(at("cpu  110 10 50 1090 5 3 2 7 0 0\n", 80)),
            0.0,
            "ticks are counted at different times"
        );
    }

    #[test]
    fn the_ticks_of_a_process_follow_its_name() {
        let stat = "7 (a ) b) R 1 7 7 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 1 0 500";
        assert_eq!(own(stat), Some(110));
        assert_eq!(own("7 (a) R 1"), None);
        assert!(OtherPrograms::begin().is_some(), "Linux tells");
    }
}
