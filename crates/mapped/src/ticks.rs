//! The processor's counter of time.
//!
//! On x86-64 the time-stamp counter (Intel, *Software Developer's Manual*, volume 3, "Time-Stamp Counter"; AMD, *Architecture
//! Programmer's Manual*, volume 2, the same). On others there is none that this crate knows of.

/// What the counter shows; always 0 where there is none. It may be read before what stands in front of it is done, by some tens of
/// nanoseconds. Another processor's may show something else, and a machine that is moved or put to sleep may have it jump.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: the instruction is part of every processor of this architecture, and reads nothing but the counter.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        0
    }
}

/// Whether there is a counter that goes on at one pace, however fast the processor runs. To ask may take microseconds.
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
