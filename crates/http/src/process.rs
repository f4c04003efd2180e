//! Figures of this process as Prometheus names them: processor time, memory, file handles, start.
//!
//! The source is Prometheus' page "Writing client libraries", section "Process metrics". The
//! figures are read from `/proc`, so other systems than Linux have none.

use std::fs;
use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};

/// The figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessFigures {
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: u64,
    pub(crate) open_handles: u64,
    /// `None` for no limit.
    pub(crate) handles_max: Option<u64>,
    /// Since 1970.
    pub(crate) started: Duration,
}

impl ProcessFigures {
    /// Reads the figures of this process; `None` where there is no `/proc`.
    pub(crate) fn read() -> Option<Self> {
        let text = |path: &str| fs::read_to_string(path).ok();
        let (stat, limits) = (ProcessStat::parse(&text("/proc/self/stat")?)?, text("/proc/self/limits")?);
        let boot_s =
            text("/proc/stat")?.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok())?;
        let duration =
            |ticks: u64| Duration::from_millis(ticks.saturating_mul(1_000) / clock_ticks_per_second().max(1));
        Some(ProcessFigures {
            cpu: duration(stat.cpu_ticks),
            resident_bytes: stat.resident_pages * page_size() as u64,
            // One of the handles reads the list.
            open_handles: (fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1),
            handles_max: handles_max(&limits),
            started: Duration::from_secs(boot_s) + duration(stat.started_ticks),
        })
    }
}

/// The fields of `/proc/self/stat` that are used; see `proc_pid_stat(5)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    cpu_ticks: u64,
    started_ticks: u64,
    resident_pages: u64,
}

impl ProcessStat {
    fn parse(stat: &str) -> Option<Self> {
        // The name of the program may hold anything, also parentheses. The third field follows it.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let cpu_ticks = field(14)? + field(15)?;
        Some(ProcessStat { cpu_ticks, started_ticks: field(22)?, resident_pages: field(24)? })
    }
}

/// The soft limit on file handles in `/proc/self/limits`.
fn handles_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_follow_a_name_of_any_kind() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 9 0 12345 1000 77 18446744073709551615 1";
        let expected = ProcessStat { cpu_ticks: 200, started_ticks: 12_345, resident_pages: 77 };
        assert_eq!(ProcessStat::parse(stat), Some(expected));
        assert_eq!(ProcessStat::parse("7 (a"), None);
        assert_eq!(ProcessStat::parse("7 (a) S 1"), None);
    }

    #[test]
    fn a_limit_is_a_number_or_none() {
        let limits =
            |value: &str| format!("Limit  Soft Limit  Hard Limit\nMax open files            {value}   4096   files\n");
        assert_eq!(handles_max(&limits("1024")), Some(1_024));
        assert_eq!(handles_max(&limits("unlimited")), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_figures() {
        let figures = ProcessFigures::read().expect("/proc is there");
        assert!(figures.resident_bytes > 1 << 20 && figures.open_handles > 2, "{figures:?}");
        // After 2020.
        assert!(figures.started > Duration::from_secs(1_577_836_800), "{figures:?}");
    }
}
