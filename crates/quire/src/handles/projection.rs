//! Projections: states folded from events in one pass, with an append condition for decisions based
//! on them.
//!
//! A projection defines the events it needs and how they change its state. A tuple or a vector of
//! projections reads all their events in one pass. Each projection sees the events that match its
//! own query, and the condition covers all queries.

use std::fmt;

use crate::events::{Condition, EventPosition, EventView, Query};

/// Folds events into a state. Implemented by [`Projection`], and by tuples and vectors of
/// projections.
pub trait Project {
    /// The folded state.
    type State;

    /// Adds the projection's items to the query of the pass.
    fn ask(&self, query: &mut Query<'static>);

    /// Folds an event into the state if it matches the projection's query. Events arrive in the
    /// order of their positions.
    fn see(&mut self, event: &EventView<'_>);

    /// Returns the folded state.
    fn end(self) -> Self::State;
}

/// A query for events, and a function that folds them into a state.
///
/// An item with `only_last_event` avoids reading earlier matches. If another projection of the pass
/// reads them, the fold sees them, too.
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
    /// Returns a projection of the events that match `query`, which starts from `state`.
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

/// Folded states, with the condition for decisions based on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectedState<S> {
    /// The folded states.
    pub state: S,
    /// The condition that no event of the queries was appended since. Append a decision based on
    /// the state under this condition.
    pub condition: Condition<'static>,
    /// The last position of the store at the time of the read.
    pub head: EventPosition,
}
