//! Whose turn it is to append: one lock for all who have the log open, in whatever process.
//!
//! It is a word in the control file (a futex, after Drepper's "Futexes are tricky", 2011) that names its holder: the seat, and which
//! opening of the log it is, so that nobody is taken for one who had the seat before. Taking and giving it back costs an exchange each. Who finds it taken spins a little, then sleeps until it is given back.
//!
//! A holder that died is noticed by those who wait: its seat is not locked any more. Then one of them takes over, and clears
//! away what the dead one had written behind the tail. So does whoever finds that a holder left in a panic.

use std::time::Duration;

use quire_threads::{Ordering, spin_loop};

use crate::processes::control::{Control, TURN};
use crate::processes::seat::{self, SEATS};
use crate::storage::directory::Directory;

/// Somebody sleeps until the turn is given back.
const WAITED_FOR: u64 = 1 << 31;

/// The holder left without having cleared away what it wrote.
const LEFT: u64 = SEATS as u64 + 1;

/// The bits of the holder's seat plus 1. Those above, up to the mark, are the number of its opening, modulo what they hold.
const SEAT_BITS: u32 = 7;
const SEAT: u64 = (1 << SEAT_BITS) - 1;
const _: () = assert!(LEFT <= SEAT);

/// How often the word is looked at before sleeping: about 4 µs, several times what an append takes. A model checker need not see it more than once.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

/// How often those who sleep look whether the holder is alive. Nothing else depends on it.
const ALIVE_EVERY: Duration = Duration::from_millis(20);

/// How a turn came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Taken {
    /// Whoever had it before gave it back.
    Free,
    /// It was taken over from a holder that died or left in a panic.
    Over,
}

/// Takes the turn for this seat, and waits for as long as it takes.
#[inline]
pub(crate) fn take(control: &Control, directory: &Directory) -> Taken {
    let own = own(control);
    if control.word(TURN).compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        return Taken::Free;
    }
    wait_for(control, directory, own)
}

/// Takes it when it is had by somebody.
#[cold]
fn wait_for(control: &Control, directory: &Directory, own: u64) -> Taken {
    let word = control.word(TURN);
    for _ in 0..SPINS {
        spin_loop();
        if word.load(Ordering::Relaxed) == 0
            && word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return Taken::Free;
        }
    }
    // From here on the turn is taken with the mark that somebody waits, for others may: at worst one is woken for nothing.
    let own = own | WAITED_FOR;
    loop {
        let seen = word.load(Ordering::Relaxed);
        let holder = seen & !WAITED_FOR;
        // One's own is of a draft that was forgotten: whoever takes the turn has the only writer of the seat.
        if holder == 0 || holder == LEFT || holder == own & !WAITED_FOR {
            if word.compare_exchange(seen, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return if holder == 0 { Taken::Free } else { Taken::Over };
            }
            continue;
        }
        let waited_for = seen | WAITED_FOR;
        if seen != waited_for && word.compare_exchange(seen, waited_for, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            continue;
        }
        control.sleep_on(TURN, waited_for, ALIVE_EVERY);
        if word.load(Ordering::Relaxed) == waited_for
            && seat::is_left(directory, ((holder & SEAT) - 1) as u32)
            && word.compare_exchange(waited_for, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return Taken::Over;
        }
    }
}

/// Gives the turn back.
#[inline]
pub(crate) fn give_back(control: &Control) {
    end(control, 0);
}

/// Leaves the turn to somebody who clears away what was written behind the tail.
pub(crate) fn leave(control: &Control) {
    end(control, LEFT);
}

/// Has a turn taken over that was left by whoever sat in this seat before. To be called before the seat is used.
pub(crate) fn disown(control: &Control) {
    // Somebody may take it over, or say that it waits, at any moment. Nobody takes the turn with this seat, which is ours.
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

#[inline]
fn end(control: &Control, to: u64) {
    let before = control.word(TURN).swap(to, Ordering::Release);
    debug_assert_eq!(before & !WAITED_FOR, own(control), "the turn was somebody else's");
    if before & WAITED_FOR != 0 {
        control.wake(TURN, 1);
    }
}

#[inline]
fn own(control: &Control) -> u64 {
    (u64::from(control.seat()) + 1) | (control.opening() << SEAT_BITS) & (WAITED_FOR - 1)
}
