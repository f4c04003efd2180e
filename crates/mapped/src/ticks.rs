//! The processor's time-stamp counter.
//!
//! On x86-64 it is the time-stamp counter (Intel, *Software Developer's Manual*, volume 3,
//! "Time-Stamp Counter"; AMD, *Architecture Programmer's Manual*, volume 2, the same). This crate
//! knows no counter on other architectures.

/// Reads the counter; 0 on processors without one. The processor may read it before earlier
/// instructions are finished, by some tens of nanoseconds. Another processor's counter may differ,
/// and the counter may jump when a machine is migrated or suspended.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: every processor of this architecture has the instruction, and it reads nothing
        // but the counter.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        0
    }
}

/// Whether the processor has a counter that ticks at a constant rate, independent of the
/// processor's frequency. The check may take microseconds.
pub fn has_steady_ticks() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::__cpuid;
        const LEAVES: u32 = 0x8000_0000;
        const POWER: u32 = 0x8000_0007;
        const INVARIANT: u32 = 1 << 8;
        __cpuid(LEAVES).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        false
    }
}
