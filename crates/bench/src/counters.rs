//! Counters of the processor and the kernel for one thread: cache misses and page faults.
//!
//! Many virtual machines hide the processor's counters. A counter that the kernel does not provide
//! is left out.

#[cfg(target_os = "linux")]
use perf_event::events::{Event, Hardware, Software};
#[cfg(target_os = "linux")]
use perf_event::{Builder, Counter};

/// Counters of the thread that started them, in user mode only.
#[derive(Debug)]
pub(super) struct ThreadCounters {
    #[cfg(target_os = "linux")]
    counting: Vec<(&'static str, Counter)>,
}

impl ThreadCounters {
    /// Starts the counters that are available.
    #[cfg(target_os = "linux")]
    pub(super) fn begin() -> Self {
        let mut counting = Vec::new();
        let mut count = |name, counter: std::io::Result<Counter>| {
            if let Ok(mut counter) = counter
                && counter.enable().is_ok()
            {
                counting.push((name, counter));
            }
        };
        count("cache_misses", of_this_thread(Hardware::CACHE_MISSES));
        count("page_faults", of_this_thread(Software::PAGE_FAULTS));
        ThreadCounters { counting }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn begin() -> Self {
        ThreadCounters {}
    }

    /// The counts so far, by name.
    #[cfg(target_os = "linux")]
    pub(super) fn counted(mut self) -> Vec<(&'static str, u64)> {
        let counted = self.counting.iter_mut().filter_map(|(name, counter)| {
            counter.disable().ok()?;
            Some((*name, counter.read().ok()?))
        });
        counted.collect()
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn counted(self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

#[cfg(target_os = "linux")]
fn of_this_thread(event: impl Event) -> std::io::Result<Counter> {
    Builder::new(event).build()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_touched_first_are_counted_where_the_kernel_counts() {
        const PAGES: usize = 64;
        let counters = ThreadCounters::begin();
        let mut pages = vec![0_u8; PAGES << 12];
        pages.iter_mut().step_by(1 << 12).for_each(|byte| *byte = 1);
        std::hint::black_box(&mut pages);
        let counted = counters.counted();
        let faults = counted.iter().find(|(name, _)| *name == "page_faults");
        // Elsewhere the kernel does not let this user count.
        assert!(faults.is_none_or(|(_, count)| *count > 0), "{counted:?}");
    }
}
