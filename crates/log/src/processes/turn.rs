//! The turn to append: one lock for all openings of the log, in all processes.
//!
//! The turn is a word in the control file (a futex, after Drepper's "Futexes are tricky", 2011).
//! The word names the holder by its seat and opening, so a later user of the seat is never mistaken
//! for the holder. Taking and releasing the turn cost one atomic exchange each. A thread that finds
//! the turn taken spins briefly, then sleeps.
//!
//! A process that releases the turn can take it again before a woken waiter runs. The waiter has
//! then lost the turn and sleeps again. A process that made waiters lose the turn several times in
//! a row hands it over: only a thread that has slept may take a turn that was handed over, so the
//! process itself queues behind the waiter. A waiter that dies in between costs the others one
//! sleep.
//!
//! Waiting threads notice a dead holder: its seat is no longer locked. One waiter then takes over
//! the turn and clears the bytes that the dead holder wrote after the tail. The same happens when a
//! holder leaves in a panic.

use std::time::Duration;

use quire_threads::{Ordering, spin_loop};

use crate::processes::control::{Control, TURN};
use crate::processes::seat::{self, SEATS};
use crate::storage::directory::Directory;

/// A thread sleeps until the turn is released.
pub(crate) const WAITED_FOR: u64 = 1 << 31;

/// The holder left without clearing its unfinished bytes.
const LEFT: u64 = SEATS as u64 + 1;

/// The last holder handed the turn over to a thread that has slept.
const HANDED_OVER: u64 = LEFT + 1;

/// How often in a row the waiters of a process may lose the turn. A lost turn takes a waiter about
/// 50 µs. Handing over costs the process as much, because it then waits itself.
const LOST_MAX: u64 = if cfg!(loom) { 1 } else { 8 };

/// The bits of the holder's seat plus 1. The bits above, up to `WAITED_FOR`, hold the number of its
/// opening, truncated.
const SEAT_BITS: u32 = 7;
const SEAT: u64 = (1 << SEAT_BITS) - 1;
const _: () = assert!(HANDED_OVER <= SEAT && SEAT < WAITED_FOR);

/// The number of checks before sleeping: about 4 µs, several times the duration of an append. A
/// model checker needs only one check.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

/// The interval at which sleeping waiters check that the holder is alive. Nothing else depends on
/// it.
const ALIVE_EVERY: Duration = Duration::from_millis(20);

/// How a thread got the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum TurnOrigin {
    /// The last holder released the turn.
    Free,
    /// The last holder died or left in a panic.
    Over,
}

/// Takes the turn for this seat, and waits as long as necessary.
#[inline]
pub(crate) fn take(control: &Control, directory: &Directory) -> TurnOrigin {
    let own = own(control);
    if control.word(TURN).compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        return TurnOrigin::Free;
    }
    wait_for(control, directory, own)
}

/// Takes the turn after another holder.
#[cold]
fn wait_for(control: &Control, directory: &Directory, own: u64) -> TurnOrigin {
    let word = control.word(TURN);
    for _ in 0..SPINS {
        spin_loop();
        if word.load(Ordering::Relaxed) == 0
            && word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return TurnOrigin::Free;
        }
    }
    // From here on, the turn is taken with `WAITED_FOR`, because other threads may wait. At worst,
    // one wake-up finds no waiter.
    debug_assert_eq!(own & WAITED_FOR, 0, "the number of an opening has no bit of its own for waiters");
    let own = own | WAITED_FOR;
    let mut has_slept = false;
    loop {
        let seen = word.load(Ordering::Relaxed);
        let holder = seen & !WAITED_FOR;
        let is_free = holder == 0 || holder == HANDED_OVER && has_slept;
        // The own seat is the holder after a draft was leaked: only one writer uses the seat.
        if is_free || holder == LEFT || holder == own & !WAITED_FOR {
            if word.compare_exchange(seen, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                control.lost_turns().store(0, Ordering::Relaxed);
                return if is_free { TurnOrigin::Free } else { TurnOrigin::Over };
            }
            continue;
        }
        let waited_for = seen | WAITED_FOR;
        if seen != waited_for && word.compare_exchange(seen, waited_for, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            continue;
        }
        control.sleep_on(TURN, waited_for, ALIVE_EVERY);
        has_slept = true;
        if holder != HANDED_OVER
            && word.load(Ordering::Relaxed) == waited_for
            && seat::is_left(directory, ((holder & SEAT) - 1) as u32)
            && word.compare_exchange(waited_for, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return TurnOrigin::Over;
        }
    }
}

/// Releases the turn, or hands it over.
#[inline]
pub(crate) fn give_back(control: &Control) {
    let lost = control.lost_turns();
    let hands_over =
        lost.load(Ordering::Relaxed) >= LOST_MAX && control.word(TURN).load(Ordering::Relaxed) & WAITED_FOR != 0;
    let is_waited_for = end(control, if hands_over { HANDED_OVER } else { 0 });
    if hands_over {
        lost.store(0, Ordering::Relaxed);
    } else if is_waited_for {
        // Only the holder of the turn counts.
        lost.store(lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Leaves the turn to the next holder, which clears the bytes after the tail.
pub(crate) fn leave(control: &Control) {
    end(control, LEFT);
}

/// Marks a turn of the last user of this seat as left. Must be called before the seat is used.
pub(crate) fn disown(control: &Control) {
    // Other threads may take over the turn or start to wait at any moment. No other thread takes
    // the turn with this seat.
    let disowned = control.word(TURN).fetch_update(Ordering::Release, Ordering::Relaxed, |seen| {
        (seen & SEAT == own(control) & SEAT).then_some(LEFT | (seen & WAITED_FOR))
    });
    if disowned.is_ok() {
        control.wake(TURN, 1);
    }
}

/// Whether this seat has the turn.
pub(crate) fn is_own(control: &Control) -> bool {
    control.word(TURN).load(Ordering::Relaxed) & !WAITED_FOR == own(control)
}

/// Ends the turn. Returns whether a thread waits for it.
#[inline]
fn end(control: &Control, to: u64) -> bool {
    let before = control.word(TURN).swap(to, Ordering::Release);
    debug_assert_eq!(before & !WAITED_FOR, own(control), "only the holder ends its turn");
    let is_waited_for = before & WAITED_FOR != 0;
    if is_waited_for {
        control.wake(TURN, 1);
    }
    is_waited_for
}

#[inline]
fn own(control: &Control) -> u64 {
    (u64::from(control.seat()) + 1) | (control.opening() << SEAT_BITS) & (WAITED_FOR - 1)
}
