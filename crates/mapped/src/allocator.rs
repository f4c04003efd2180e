//! Returns freed allocations to the system.

/// Makes the allocator return every freed allocation of at least `bytes` bytes to the system. The
/// setting applies to the whole process. Returns whether it took effect. Call it before starting
/// threads: with other threads running it does nothing.
///
/// GNU's allocator maps a large allocation separately, and unmaps it when it is freed. But each
/// unmapped allocation raises the threshold for large, up to 32 MiB. Smaller ones lie in the heaps
/// of the threads, which keep most of them. A server that had answered two hundred requests of 25
/// MB each, on many threads, kept one to two gigabytes.
///
/// A configured threshold stays fixed ([mallopt(3)]). The cost: the system hands out zeroed memory,
/// page by page. Other allocators are left unchanged.
///
/// [mallopt(3)]: https://man7.org/linux/man-pages/man3/mallopt.3.html
pub fn give_back_large(bytes: usize) -> bool {
    imp::give_back_large(bytes)
}

/// Returns all unused pages of the allocator's heaps to the system. Returns whether there were any.
///
/// GNU's allocator keeps freed memory in the heaps of the threads. The call takes some tens of
/// milliseconds for each gigabyte. Meanwhile, threads that use the same heap wait. Other allocators
/// are left unchanged.
pub fn give_back_unused() -> bool {
    imp::give_back_unused()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod imp {
    use std::fs;

    pub(super) fn give_back_unused() -> bool {
        // SAFETY: malloc_trim is thread-safe and touches only memory that is not allocated.
        unsafe { libc::malloc_trim(0) == 1 }
    }

    pub(super) fn give_back_large(bytes: usize) -> bool {
        let Ok(bytes) = i32::try_from(bytes) else { return false };
        let is_alone = fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
        // SAFETY: This thread is the only one, so no other thread is in the allocator (mallopt is
        // not thread-safe). Only this thread could start another. The value may be any number: the
        // allocator refuses invalid ones.
        is_alone && unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, bytes) } == 1
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod imp {
    pub(super) fn give_back_large(_bytes: usize) -> bool {
        false
    }

    pub(super) fn give_back_unused() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn freed_memory_below_other_memory_is_given_back() {
        let mut blocks: Vec<_> = (0..10_000).map(|_| vec![1_u8; 4 << 10]).collect();
        // The last block keeps the heap from shrinking by itself.
        blocks.drain(..9_999);
        assert!(give_back_unused());
        assert_eq!(blocks[0][0], 1);
    }

    #[test]
    fn among_other_threads_nothing_is_done() {
        // The thread of the test runner also exists.
        assert!(!give_back_large(4 << 20));
    }
}
