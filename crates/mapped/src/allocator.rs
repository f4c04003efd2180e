//! What becomes of large pieces of memory when the program frees them.

/// Has the allocator give back to the system what is freed and was at least so many bytes, from here on and in the whole process; whether
/// it does. To be called before there are other threads: among others nothing is done.
///
/// GNU's allocator maps what is large on its own, and unmaps it when it is freed. But each that is freed raises what it takes for large, up
/// to 32 MiB; the rest lies in the heaps of the threads, which keep most of it for themselves: a server that has answered two hundred
/// requests with 25 MB each, on many threads, kept a gigabyte or two. A bound that is set stays as it is ([mallopt(3)]). What it costs: the
/// system hands out zeroes, page by page. Other allocators are left as they are.
///
/// [mallopt(3)]: https://man7.org/linux/man-pages/man3/mallopt.3.html
pub fn give_back_large(bytes: usize) -> bool {
    imp::give_back_large(bytes)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod imp {
    use std::fs;

    pub(super) fn give_back_large(bytes: usize) -> bool {
        let Ok(bytes) = i32::try_from(bytes) else { return false };
        let is_alone = fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
        // SAFETY: This thread is the only one, so no other is in the allocator (mallopt is not made for that), nor can one begin: that takes
        // this one. The value is any number: what the allocator can't take it refuses.
        is_alone && unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, bytes) } == 1
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod imp {
    pub(super) fn give_back_large(_bytes: usize) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn among_other_threads_nothing_is_done() {
        // The one that runs the tests is there beside this one.
        assert!(!give_back_large(4 << 20));
    }
}
