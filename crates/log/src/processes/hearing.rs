//! Who hears of what others publish: words of the control file that threads sleep on, and bits that say whether any does.
//!
//! ```text
//! who publishes ─▶ moves the tail ─▶ anyone listening? ─▶ arrivals ─▶ their listening threads, which take it in for the others there
//!                                 └▶ anyone asleep?    ─▶ the alarm of each such seat ─▶ those threads, which take it in themselves
//! ```
//!
//! A thread that listens takes in what came and wakes who waits for it: two wake-ups, one behind the other. A thread that can take in
//! by itself what it waits for sleeps on the alarm of its seat, and needs one.

use std::time::Duration;

use quire_threads::{Ordering, fence};

use crate::processes::control::Control;
use crate::processes::seat::SEATS;

/// The seats that listen, and behind that those that sleep until their alarm: a bit for each.
pub(crate) const LISTENING: usize = 32;
pub(crate) const ASLEEP: usize = 33;
/// How often something has arrived for those who listen.
pub(crate) const ARRIVALS: usize = 40;
/// For each seat, how often its alarm went.
pub(crate) const ALARMS: usize = 192;

impl Control {
    /// From now on a publication of another is told by [`Control::await_arrival`]. Whoever looks at the tail now sees what came before.
    pub(crate) fn listen(&self) {
        self.word(LISTENING).fetch_or(self.bit(), Ordering::SeqCst);
        // The look is at another word: without a fence a processor may take it first.
        fence(Ordering::SeqCst);
    }

    /// Ends what [`Control::listen`] began.
    pub(crate) fn heard(&self) {
        self.word(LISTENING).fetch_and(!self.bit(), Ordering::SeqCst);
    }

    /// How often something has arrived.
    pub(crate) fn arrivals(&self) -> u64 {
        self.word(ARRIVALS).load(Ordering::SeqCst)
    }

    /// Sleeps until something arrives beyond what was `seen`.
    pub(crate) fn await_arrival(&self, seen: u64) {
        self.sleep_on(ARRIVALS, seen, Duration::MAX);
    }

    /// From now on a publication of another sets off the alarm of this seat.
    pub(crate) fn falls_asleep(&self) {
        self.word(ASLEEP).fetch_or(self.bit(), Ordering::SeqCst);
    }

    /// Ends what [`Control::falls_asleep`] began.
    pub(crate) fn wakes_up(&self) {
        self.word(ASLEEP).fetch_and(!self.bit(), Ordering::SeqCst);
    }

    /// How often the alarm of this seat went.
    pub(crate) fn alarms(&self) -> u64 {
        self.word(ALARMS + self.seat() as usize).load(Ordering::SeqCst)
    }

    /// Sleeps until the alarm of this seat goes beyond what was `seen`, at most so long.
    pub(crate) fn await_alarm(&self, seen: u64, at_most: Duration) {
        self.sleep_on(ALARMS + self.seat() as usize, seen, at_most);
    }

    /// Sets off the alarm of a seat.
    pub(crate) fn alarm(&self, seat: u32) {
        self.word(ALARMS + seat as usize).fetch_add(1, Ordering::SeqCst);
        self.wake(ALARMS + seat as usize, u32::MAX);
    }

    /// Tells everyone else who listens or sleeps that something was published. To be called after it was.
    #[inline]
    pub(crate) fn tell_others(&self) {
        if self.word(LISTENING).load(Ordering::SeqCst) & !self.bit() != 0 {
            self.arrive();
        }
        let asleep = self.word(ASLEEP).load(Ordering::SeqCst) & !self.bit();
        if asleep != 0 {
            self.alarm_all(asleep);
        }
    }

    #[cold]
    fn alarm_all(&self, asleep: u64) {
        (0..SEATS).filter(|seat| asleep & (1 << seat) != 0).for_each(|seat| self.alarm(seat));
    }

    /// Has everyone who listens look again.
    pub(crate) fn arrive(&self) {
        self.word(ARRIVALS).fetch_add(1, Ordering::SeqCst);
        self.wake(ARRIVALS, u32::MAX);
    }

    /// Nobody at this seat is to be told of anything.
    pub(crate) fn hears_no_more(&self) {
        self.tell_only(!self.bit());
    }

    /// Nobody at other seats than these is to be told of anything.
    pub(crate) fn tell_only(&self, seats: u64) {
        self.word(LISTENING).fetch_and(seats, Ordering::SeqCst);
        self.word(ASLEEP).fetch_and(seats, Ordering::SeqCst);
    }
}
