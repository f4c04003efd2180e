//! The thread that waits for other processes on behalf of its process. It requests wake-ups only
//! while a thread of its process waits and does not apply records itself. A thread that begins to
//! wait also requests wake-ups, because the listening thread may be asleep.

use std::fmt;

use quire_threads::{AtomicBool, Ordering};

use crate::durable::gate::Gate;
use crate::processes::control::Control;

/// An event of another process, returned by [`Log::listen`](crate::Log::listen).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEvent {
    /// Another process published a record for which a thread of this process waits. The caller
    /// applies the record.
    Published,
    /// Another process opened the log, or the last other process closed it.
    OthersChanged,
    /// A compaction needs this process, or has finished: call [`Log::attend`](crate::Log::attend).
    Compaction,
    /// [`Log::stop_listening`](crate::Log::stop_listening) was called.
    Stop,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ProcessListener {
    is_stopped: AtomicBool,
}

/// The state that a listener checks.
pub(crate) struct ListenerInputs<'l> {
    pub(crate) control: &'l Control,
    pub(crate) gate: &'l Gate,
    /// Whether other processes published records not yet applied here.
    pub(crate) is_behind: &'l dyn Fn() -> bool,
    /// Whether a compaction needs this process.
    pub(crate) has_news_of_round: &'l dyn Fn() -> bool,
    /// Whether other processes have the log open, as the caller last saw it.
    pub(crate) has_others: bool,
}

impl fmt::Debug for ListenerInputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerInputs").field("has_others", &self.has_others).finish_non_exhaustive()
    }
}

impl ProcessListener {
    /// Blocks until an event of another process.
    pub(crate) fn next_event(&self, to: &ListenerInputs<'_>) -> ProcessEvent {
        // Read before the checks, so that an event during the checks ends the sleep.
        let mut seen = to.control.publications();
        loop {
            if self.is_stopped.load(Ordering::SeqCst) {
                return ProcessEvent::Stop;
            }
            if (to.has_news_of_round)() {
                return ProcessEvent::Compaction;
            }
            if to.control.has_other_processes() != to.has_others {
                return ProcessEvent::OthersChanged;
            }
            if to.gate.published().has_waiters() {
                to.control.start_listening();
                if (to.is_behind)() {
                    to.control.stop_listening();
                    return ProcessEvent::Published;
                }
            } else {
                to.control.stop_listening();
                // A new waiter may have requested wake-ups before this call ended them.
                if to.gate.published().has_waiters() {
                    continue;
                }
            }
            to.control.await_publication(seen);
            seen = to.control.publications();
        }
    }

    /// Ends [`ProcessListener::next_event`].
    pub(crate) fn stop(&self, control: &Control) {
        self.is_stopped.store(true, Ordering::SeqCst);
        control.wake_listeners();
    }
}

/// Requests wake-ups for a thread of this process that begins to wait. The caller has already
/// counted the waiter.
pub(crate) fn begin_to_wait(control: &Control, is_behind: impl Fn() -> bool) {
    if control.has_other_processes() {
        control.start_listening();
        if is_behind() {
            control.wake_listeners();
        }
    }
}
