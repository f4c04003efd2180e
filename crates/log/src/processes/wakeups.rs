//! Wake-ups between processes after a publication: futex words of the control file, and bits that
//! say whether any thread sleeps.
//!
//! ```text
//! publisher ─▶ tail ─▶ any LISTENING bit? ─▶ publication count ─▶ listening threads
//!                   └▶ any ASLEEP bit?    ─▶ alarm of each seat ─▶ sleeping threads
//! ```
//!
//! A listening thread applies the records and wakes the waiters of its process: two wake-ups in a
//! row. A thread that applies records itself sleeps on the alarm of its seat and needs one wake-up.

use std::time::Duration;

use quire_threads::{Ordering, fence};

use crate::processes::control::Control;
use crate::processes::seat::SEATS;

/// The seats with a listening thread, and the seats with a thread that sleeps until its alarm: a
/// bit for each seat.
pub(crate) const LISTENING: usize = 32;
pub(crate) const ASLEEP: usize = 33;
/// The number of publications to listening threads.
pub(crate) const PUBLICATIONS: usize = 40;
/// For each seat, the number of its alarms.
pub(crate) const ALARMS: usize = 192;

impl Control {
    /// Makes publications of other processes end [`Control::await_publication`]. The caller checks
    /// the tail afterwards, to see earlier publications.
    pub(crate) fn start_listening(&self) {
        self.word(LISTENING).fetch_or(self.bit(), Ordering::SeqCst);
        // The caller then loads another word. Without a fence, the processor may load it first.
        fence(Ordering::SeqCst);
    }

    /// Ends what [`Control::start_listening`] began.
    pub(crate) fn stop_listening(&self) {
        self.word(LISTENING).fetch_and(!self.bit(), Ordering::SeqCst);
    }

    /// Returns the number of publications.
    pub(crate) fn publications(&self) -> u64 {
        self.word(PUBLICATIONS).load(Ordering::SeqCst)
    }

    /// Sleeps until the number of publications differs from `seen`.
    pub(crate) fn await_publication(&self, seen: u64) {
        self.sleep_on(PUBLICATIONS, seen, Duration::MAX);
    }

    /// Makes publications of other processes raise the alarm of this seat.
    pub(crate) fn begin_sleep(&self) {
        self.word(ASLEEP).fetch_or(self.bit(), Ordering::SeqCst);
    }

    /// Ends what [`Control::begin_sleep`] began.
    pub(crate) fn end_sleep(&self) {
        self.word(ASLEEP).fetch_and(!self.bit(), Ordering::SeqCst);
    }

    /// Returns the number of alarms of this seat.
    pub(crate) fn alarms(&self) -> u64 {
        self.word(ALARMS + self.seat() as usize).load(Ordering::SeqCst)
    }

    /// Sleeps until the number of alarms of this seat differs from `seen`, for at most `at_most`.
    pub(crate) fn await_alarm(&self, seen: u64, at_most: Duration) {
        self.sleep_on(ALARMS + self.seat() as usize, seen, at_most);
    }

    /// Raises the alarm of a seat.
    pub(crate) fn alarm(&self, seat: u32) {
        assert!(seat < SEATS, "an alarm is of a seat");
        self.word(ALARMS + seat as usize).fetch_add(1, Ordering::SeqCst);
        self.wake(ALARMS + seat as usize, u32::MAX);
    }

    /// Wakes the listening and sleeping threads of other seats. Must be called after a publication.
    #[inline]
    pub(crate) fn wake_others(&self) {
        if self.word(LISTENING).load(Ordering::SeqCst) & !self.bit() != 0 {
            self.wake_listeners();
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

    /// Wakes all listening threads.
    pub(crate) fn wake_listeners(&self) {
        self.word(PUBLICATIONS).fetch_add(1, Ordering::SeqCst);
        self.wake(PUBLICATIONS, u32::MAX);
    }

    /// Ends all wake-ups of this seat.
    pub(crate) fn end_wakeups(&self) {
        self.keep_wakeups_of(!self.bit());
    }

    /// Ends all wake-ups of seats other than `seats`.
    pub(crate) fn keep_wakeups_of(&self, seats: u64) {
        self.word(LISTENING).fetch_and(seats, Ordering::SeqCst);
        self.word(ASLEEP).fetch_and(seats, Ordering::SeqCst);
    }
}
