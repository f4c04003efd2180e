//! The steps that one request may take.
//!
//! A request whose work grows with the data claims its steps before it takes them: candidates of a
//! search along tags, entries read, edges walked, jobs examined, KiB decompressed or parsed. A step
//! takes 20 ns to a few microseconds. A claim beyond the budget fails, and so does every claim
//! after the request was cancelled. Work that claims every few hundred steps therefore ends soon
//! after its client disconnects.
//!
//! A budget that is exceeded in `decide` drops the draft, as any other failed read does.

use alloc::format;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Place, ReadError, ReadErrorKind};

/// The steps of decompressing this number of bytes: one for each KiB.
pub const fn steps_of_bytes(bytes: usize) -> u64 {
    bytes as u64 / 1024 + 1
}

/// The steps of parsing this number of bytes: one for each whole KiB. A small value is part of the
/// step that reads its entry.
pub const fn steps_of_parsing(bytes: usize) -> u64 {
    bytes as u64 / 1024
}

/// The steps of one request. A clone shares the steps of the original.
#[derive(Debug, Clone)]
pub struct StepBudget(Arc<SharedSteps>);

#[derive(Debug)]
struct SharedSteps {
    max: u64,
    claimed: AtomicU64,
    /// The number of steps that may be claimed until the next call of [`StepBudget::share`].
    shared: AtomicU64,
    is_cancelled: AtomicBool,
    /// The budget that this one is a slice of.
    whole: Option<StepBudget>,
}

impl StepBudget {
    /// Returns a budget of `steps_max` steps.
    pub fn new(steps_max: u64) -> Self {
        StepBudget::part_of(None, steps_max)
    }

    /// Returns a budget of at most `steps_max` steps, which are claimed from `whole`, too. Work
    /// under a lock takes a slice at a time, and releases the lock in between.
    pub fn part_of(whole: Option<&StepBudget>, steps_max: u64) -> Self {
        let (claimed, shared, is_cancelled) = (AtomicU64::new(0), AtomicU64::new(steps_max), AtomicBool::new(false));
        StepBudget(Arc::new(SharedSteps { max: steps_max, claimed, shared, is_cancelled, whole: whole.cloned() }))
    }

    /// Returns a budget without a bound, which can be cancelled.
    pub fn unbounded() -> Self {
        StepBudget::new(u64::MAX)
    }

    /// Claims steps.
    ///
    /// # Errors
    /// [`ReadErrorKind::Cancelled`] after [`StepBudget::cancel`].
    /// [`ReadErrorKind::TooCostly`] when the budget has fewer
    /// steps left. The budget is then used up.
    #[inline]
    pub fn claim(&self, steps: u64) -> Result<(), ReadError> {
        let claimed = self.0.claimed.fetch_add(steps, Ordering::Relaxed).saturating_add(steps);
        if claimed > self.0.shared.load(Ordering::Relaxed) || self.0.is_cancelled.load(Ordering::Relaxed) {
            return Err(self.refuse());
        }
        self.0.whole.as_ref().map_or(Ok(()), |whole| whole.claim(steps))
    }

    #[cold]
    fn refuse(&self) -> ReadError {
        if self.is_cancelled() {
            return ReadError::cancelled();
        }
        if self.0.claimed.load(Ordering::Relaxed) > self.0.max {
            // No later claim wraps around.
            self.0.claimed.fetch_max(u64::MAX / 2, Ordering::Relaxed);
        }
        ReadError::too_costly(self.0.max)
    }

    /// Limits the claims until the next call to one of `among` equal parts of the remaining steps.
    /// A claim beyond the part fails, and the other parts stay available. With 1, all remaining
    /// steps are available.
    pub fn share(&self, among: u64) {
        let claimed = self.0.claimed.load(Ordering::Relaxed);
        let part = self.left() / among.max(1);
        self.0.shared.store(claimed.saturating_add(part).min(self.0.max), Ordering::Relaxed);
    }

    /// Ends the work of the request: every later claim fails.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the request was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    /// The number of steps of the whole budget.
    pub fn steps_max(&self) -> u64 {
        self.0.max
    }

    /// The number of steps left, at most.
    pub fn left(&self) -> u64 {
        self.0.max.saturating_sub(self.0.claimed.load(Ordering::Relaxed))
    }
}

impl ReadError {
    /// A read that exceeds the steps of its request.
    pub fn too_costly(steps_max: u64) -> Self {
        let message = format!("the request needs more than {steps_max} steps; narrow it, or read it in parts");
        let kind = ReadErrorKind::TooCostly { steps_max, reached: None };
        ReadError { kind, place: None, begins: None, message }
    }

    /// Adds the place at which a search continues that exceeded its budget, unless it is known.
    #[must_use]
    pub fn reached_or(self, place: impl FnOnce() -> Option<Place>) -> Self {
        if self.reached_place().is_some() { self } else { self.reached(place) }
    }

    /// Adds the place that a search reached before it exceeded its budget.
    #[must_use]
    pub fn reached(mut self, place: impl FnOnce() -> Option<Place>) -> Self {
        if let ReadErrorKind::TooCostly { reached, .. } = &mut self.kind {
            *reached = place();
        }
        self
    }

    /// Whether the read exceeded the budget of its request.
    pub fn is_too_costly(&self) -> bool {
        matches!(self.kind, ReadErrorKind::TooCostly { .. })
    }

    /// Whether the request's budget ended the read. The stored bytes may be whole.
    pub fn is_of_request(&self) -> bool {
        matches!(self.kind, ReadErrorKind::TooCostly { .. } | ReadErrorKind::Cancelled)
    }

    /// The place that a search reached before it exceeded its budget.
    pub fn reached_place(&self) -> Option<Place> {
        if let ReadErrorKind::TooCostly { reached, .. } = self.kind { reached } else { None }
    }

    /// A read whose request was cancelled.
    pub fn cancelled() -> Self {
        let message = "the request was cancelled".into();
        ReadError { kind: ReadErrorKind::Cancelled, place: None, begins: None, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_gives_its_steps_and_then_none() {
        let budget = StepBudget::new(10);
        let clone = budget.clone();
        assert_eq!((budget.claim(4), clone.claim(6)), (Ok(()), Ok(())));
        for steps in [1, 0, u64::MAX / 4] {
            let kind = ReadErrorKind::TooCostly { steps_max: 10, reached: None };
            assert_eq!(budget.claim(steps).map_err(|error| error.kind), Err(kind), "{steps}");
            assert_eq!(budget.left(), 0);
        }
    }

    #[test]
    fn the_steps_of_a_slice_are_steps_of_the_whole() {
        let whole = StepBudget::new(10);
        let slice = StepBudget::part_of(Some(&whole), 6);
        assert_eq!(slice.claim(6), Ok(()));
        assert_eq!((slice.left(), whole.left()), (0, 4));
        assert_eq!(slice.claim(1), Err(ReadError::too_costly(6)));
        let next = StepBudget::part_of(Some(&whole), 6);
        assert_eq!(next.claim(5), Err(ReadError::too_costly(10)));
        whole.cancel();
        assert_eq!(StepBudget::part_of(Some(&whole), 6).claim(1), Err(ReadError::cancelled()));
    }

    #[test]
    fn a_part_of_the_steps_left_is_given_and_the_other_parts_stay() {
        let budget = StepBudget::new(10);
        assert_eq!(budget.claim(1), Ok(()));
        budget.share(3);
        assert_eq!((budget.claim(3), budget.claim(1)), (Ok(()), Err(ReadError::too_costly(10))));
        assert_eq!(budget.left(), 5);
        budget.share(1);
        assert_eq!((budget.claim(5), budget.claim(1)), (Ok(()), Err(ReadError::too_costly(10))));
        budget.share(1);
        assert_eq!(budget.claim(1), Err(ReadError::too_costly(10)));
    }

    #[test]
    fn a_cancelled_request_gets_no_further_steps() {
        let budget = StepBudget::unbounded();
        assert_eq!(budget.claim(1_000_000_000), Ok(()));
        budget.clone().cancel();
        assert_eq!(budget.claim(1).map_err(|error| error.kind), Err(ReadErrorKind::Cancelled));
    }
}
