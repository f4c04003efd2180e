//! The thread that hears for everybody in its process what others do. It asks to be told of publications only while somebody here waits for
//! one and does not take it in alone; whoever begins to wait asks for it, too, for the thread may be asleep.

use std::fmt;

use quire_threads::{AtomicBool, Ordering};

use crate::durable::gate::Gate;
use crate::processes::control::Control;

/// What [`Log::listen`](crate::Log::listen) heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Others have published what somebody here waits for: it is to be followed.
    Published,
    /// Others have opened the log, or the last of them has closed it.
    Company,
    /// Somebody is to rewrite segments, or has done so: [`Log::attend`](crate::Log::attend) says what to do.
    Compaction,
    /// [`Log::stop_listening`](crate::Log::stop_listening) was called.
    Stop,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    is_stopped: AtomicBool,
}

/// What a listener looks at.
pub(crate) struct Listened<'l> {
    pub(crate) control: &'l Control,
    pub(crate) gate: &'l Gate,
    /// Whether others have published what is not taken in here.
    pub(crate) is_behind: &'l dyn Fn() -> bool,
    /// Whether there is something to do for a compaction.
    pub(crate) has_news_of_round: &'l dyn Fn() -> bool,
    /// What the listener knows of whether others have the log open.
    pub(crate) company: bool,
}

impl fmt::Debug for Listened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listened").field("company", &self.company).finish_non_exhaustive()
    }
}

impl Listener {
    /// Blocks until there is something to do about what others did.
    pub(crate) fn hear(&self, to: &Listened<'_>) -> Heard {
        // Taken before the look, so that what arrives during it is not slept through.
        let mut seen = to.control.arrivals();
        loop {
            if self.is_stopped.load(Ordering::SeqCst) {
                return Heard::Stop;
            }
            if (to.has_news_of_round)() {
                return Heard::Compaction;
            }
            if to.control.has_company() != to.company {
                return Heard::Company;
            }
            if to.gate.published().has_waiters() {
                to.control.listen();
                if (to.is_behind)() {
                    to.control.heard();
                    return Heard::Published;
                }
            } else {
                to.control.heard();
                // Who came since then may have begun to listen before that.
                if to.gate.published().has_waiters() {
                    continue;
                }
            }
            to.control.await_arrival(seen);
            seen = to.control.arrivals();
        }
    }

    /// Ends [`Listener::hear`].
    pub(crate) fn stop(&self, control: &Control) {
        self.is_stopped.store(true, Ordering::SeqCst);
        control.arrive();
    }
}

/// Somebody here waits for what others may publish. It counts among those who wait already.
pub(crate) fn begin_to_wait(control: &Control, is_behind: impl Fn() -> bool) {
    if control.has_company() {
        control.listen();
        if is_behind() {
            control.arrive();
        }
    }
}
