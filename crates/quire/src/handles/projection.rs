//! Projections: states folded from events in one pass, and the condition under which a decision on
//! them may be appended.
//!
//! A projection says which events concern it and how its state follows from them. Several are read
//! in one pass when they are put into a tuple or a vector; each sees the events that match its own
//! query, and the condition covers them all.

use std::fmt;

use crate::events::{Condition, EventPosition, EventView, Query};

/// What folds events into a state. Implemented by [`Projection`], and by tuples and vectors of
/// projections.
pub trait Project {
    /// The folded state.
    type State;

    /// Adds the items of the events that it wants to see.
    fn ask(&self, query: &mut Query<'static>);

    /// Takes in an event, if it is one that it asked for. Events come in the order of their
    /// positions.
    fn see(&mut self, event: &EventView<'_>);

    /// The folded state.
    fn end(self) -> Self::State;
}

/// Which events concern a state, and how it follows from them.
///
/// An item with `only_last_event` spares the reading of earlier matches; the fold sees them all the
/// same when another projection of the pass asks for them.
///
/// ```
/// use quire::Projection;
/// use quire::events::QueryItem;
///
/// let seats = QueryItem::new().event_type("Subscribed").event_type("Left").tag("course:1");
/// let taken = Projection::new(seats, 0, |taken, event| *taken += if event.event_type == "Left" { -1 } else { 1 });
/// ```
pub struct Projection<S, F> {
    query: Query<'static>,
    state: S,
    fold: F,
}

impl<S, F: FnMut(&mut S, &EventView<'_>)> Projection<S, F> {
    /// A projection of the events that match, from this state on.
    pub fn new<'q>(query: impl Into<Query<'q>>, state: S, fold: F) -> Self {
        Projection { query: query.into().into_owned(), state, fold }
    }
}

impl<S, F: FnMut(&mut S, &EventView<'_>)> Project for Projection<S, F> {
    type State = S;

    fn ask(&self, query: &mut Query<'static>) {
        query.items.extend(self.query.items.iter().cloned());
    }

    fn see(&mut self, event: &EventView<'_>) {
        if self.query.matches(event) {
            (self.fold)(&mut self.state, event);
        }
    }

    fn end(self) -> S {
        self.state
    }
}

impl<S: fmt::Debug, F> fmt::Debug for Projection<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Projection").field("query", &self.query).field("state", &self.state).finish_non_exhaustive()
    }
}

impl<P: Project> Project for Vec<P> {
    type State = Vec<P::State>;

    fn ask(&self, query: &mut Query<'static>) {
        self.iter().for_each(|part| part.ask(query));
    }

    fn see(&mut self, event: &EventView<'_>) {
        self.iter_mut().for_each(|part| part.see(event));
    }

    fn end(self) -> Vec<P::State> {
        self.into_iter().map(P::end).collect()
    }
}

macro_rules! project_together {
    ($($part:ident $index:tt),+) => {
        impl<$($part: Project),+> Project for ($($part,)+) {
            type State = ($($part::State,)+);

            fn ask(&self, query: &mut Query<'static>) {
                $(self.$index.ask(query);)+
            }

            fn see(&mut self, event: &EventView<'_>) {
                $(self.$index.see(event);)+
            }

            fn end(self) -> Self::State {
                ($(self.$index.end(),)+)
            }
        }
    };
}

project_together!(A 0, B 1);
project_together!(A 0, B 1, C 2);
project_together!(A 0, B 1, C 2, D 3);
project_together!(A 0, B 1, C 2, D 3, E 4);
project_together!(A 0, B 1, C 2, D 3, E 4, F 5);

/// States, and what they rest on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projected<S> {
    /// The folded states.
    pub state: S,
    /// That nothing which they asked for has happened since: what a decision on the state is
    /// appended under.
    pub condition: Condition<'static>,
    /// The last position of the store when it was read.
    pub head: EventPosition,
}
