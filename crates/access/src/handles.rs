//! The file handles of the process: enough for the log, the rest for connections.
//!
//! A log without a file handle can not begin its next segment, so a flood of connections must never
//! take the last ones.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of file handles that are kept for the log.
pub const LOG_HANDLES: u64 = 256;

/// Raises the limit on open files to the most that the system allows without privileges. Returns
/// the new limit.
///
/// # Errors
/// When the system refuses.
pub fn raise_handle_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    // `None` means that there is no limit.
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Shares out the handles that the log leaves, in proportion to the limits on connections. Each
/// limit becomes at most its share, and at least 1.
pub fn share_out(handles: u64, limits: &mut [&mut usize]) {
    let wanted: u64 = limits.iter().map(|limit| **limit as u64).sum();
    let left = handles.saturating_sub(LOG_HANDLES);
    if wanted <= left {
        return;
    }
    for limit in limits {
        let share = u128::from(left) * **limit as u128 / u128::from(wanted);
        **limit = usize::try_from(share).expect("a share is at most the limit").max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(handles: u64, mut limits: [usize; 3], expect: [usize; 3]) {
        let [a, b, c] = &mut limits;
        share_out(handles, &mut [a, b, c]);
        assert_eq!(limits, expect);
    }

    #[test]
    fn limits_that_the_log_leaves_handles_for_stay() {
        check(20_000, [10_000, 4_096, 4_096], [10_000, 4_096, 4_096]);
        check(u64::MAX, [10_000, 4_096, 4_096], [10_000, 4_096, 4_096]);
        check(256 + 30, [10, 10, 10], [10, 10, 10]);
    }

    #[test]
    fn the_remaining_bytes_are_shared_in_proportion() {
        check(1_024, [10_000, 4_096, 4_096], [422, 172, 172]);
        check(256 + 4, [100, 50, 50], [2, 1, 1]);
        check(100, [10_000, 4_096, 4_096], [1, 1, 1]);
    }

    #[test]
    fn the_limit_is_the_most_that_the_system_allows() {
        let limit = raise_handle_limit().expect("allowed");
        let now = getrlimit(Resource::Nofile);
        assert_eq!((now.current.unwrap_or(u64::MAX), now.maximum.unwrap_or(u64::MAX)), (limit, limit));
    }
}
