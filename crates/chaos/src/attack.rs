//! What is done to a round, and how often.

use std::time::Duration;

use fastrand::Rng;

/// How long a process is stopped: many leases long, at most.
const STOPPED_MS: std::ops::Range<u64> = 20..1_500;
/// How long the disk is full, and a process without handles.
const STARVED_MS: std::ops::Range<u64> = 300..1_200;
/// How long nothing is done.
const PAUSE_MS: std::ops::Range<u64> = 50..500;

/// Something that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attack {
    /// A client is killed, and another started in its place.
    KillClient,
    /// The server is.
    KillServer,
    /// Everybody is killed at once.
    KillAll,
    /// A process stands still for a while.
    Stop(Duration),
    /// There is no space for a while.
    Fill(Duration),
    /// A process gets no more file handles for a while.
    UseUpHandles(Duration),
}

/// How long to wait before the next one.
pub(crate) fn pause(random: &mut Rng) -> Duration {
    Duration::from_millis(random.u64(PAUSE_MS))
}

/// There is no space for a while.
pub(crate) fn fill(random: &mut Rng) -> Attack {
    Attack::Fill(Duration::from_millis(random.u64(STARVED_MS)))
}

/// The next one; a disk that is not small is not filled.
pub(crate) fn next(random: &mut Rng, is_small: bool) -> Attack {
    let while_ms = |random: &mut Rng, range| Duration::from_millis(random.u64(range));
    match random.u8(0..20) {
        0..7 => Attack::KillClient,
        7..9 => Attack::KillServer,
        9 => Attack::KillAll,
        10..14 => Attack::Stop(while_ms(random, STOPPED_MS)),
        14..17 if is_small => fill(random),
        14..17 => Attack::KillClient,
        _ => Attack::UseUpHandles(while_ms(random, STARVED_MS)),
    }
}
