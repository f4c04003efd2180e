//! The attacks of a round, and how often each occurs.

use std::time::Duration;

use fastrand::Rng;

/// How long a process is stopped: at most many leases.
const STOPPED_MS: std::ops::Range<u64> = 20..1_500;
/// How long the disk is full, and a process has no free file handles.
const STARVED_MS: std::ops::Range<u64> = 300..1_200;
/// The pause between attacks.
const PAUSE_MS: std::ops::Range<u64> = 50..500;

/// An attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attack {
    /// A client is killed, and another is started in its place.
    KillClient,
    /// The server is killed.
    KillServer,
    /// Every process is killed at once.
    KillAll,
    /// A process is stopped for a while.
    Stop(Duration),
    /// The disk is full for a while.
    Fill(Duration),
    /// A process gets no further file handles for a while.
    UseUpHandles(Duration),
}

/// How long to wait before the next attack.
pub(crate) fn pause(random: &mut Rng) -> Duration {
    Duration::from_millis(random.u64(PAUSE_MS))
}

/// Fills the disk for a while.
pub(crate) fn fill(random: &mut Rng) -> Attack {
    Attack::Fill(Duration::from_millis(random.u64(STARVED_MS)))
}

/// Draws the next attack; a disk that is not small is not filled.
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
