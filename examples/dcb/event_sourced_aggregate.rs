//! The event-sourced aggregate, for users of one stream an aggregate. It is loaded by one tag, and
//! saved under the condition that no event with the tag was appended since.

use quire::events::{Condition, EventPosition, NewEvent, Query, QueryItem, ReadOptions};
use quire::{Error, ErrorKind, EventStore};

use crate::scenario::{Answer, number};

/// A course, as it was when it was loaded.
pub(crate) struct Course {
    tag: String,
    capacity: u64,
    /// The position of the last event of the store when this state was loaded.
    seen: EventPosition,
}

impl Course {
    /// Defines a course, which must not exist yet.
    pub(crate) fn define(store: &EventStore, id: &str, capacity: u64) -> Result<Self, Error> {
        let mut course = Course { tag: format!("course:{id}"), capacity, seen: EventPosition::ZERO };
        course.save(store, "CourseDefined")?;
        Ok(course)
    }

    /// Loads a course.
    pub(crate) fn load(store: &EventStore, id: &str) -> Result<Option<Self>, Error> {
        let mut course = Course { tag: format!("course:{id}"), capacity: 0, seen: EventPosition::ZERO };
        let mut is_there = false;
        let head = store.visit(&course.query(), ReadOptions::default(), |event| {
            (course.capacity, is_there) = (number(&event, "capacity"), true);
        })?;
        course.seen = head;
        Ok(is_there.then_some(course))
    }

    /// Changes the capacity, unless the course has changed since it was loaded.
    pub(crate) fn change_capacity(&mut self, store: &EventStore, capacity: u64) -> Answer {
        self.capacity = capacity;
        match self.save(store, "CourseCapacityChanged") {
            Ok(appended) => Ok(Ok(appended)),
            Err(error) if error.kind() == ErrorKind::Refused => Ok(Err("the course has changed meanwhile".to_owned())),
            Err(error) => Err(error),
        }
    }

    fn query(&self) -> Query<'static> {
        Query::from(QueryItem::new().tag(&self.tag)).into_owned()
    }

    fn save(&mut self, store: &EventStore, event_type: &str) -> Result<quire::events::AppendResult, Error> {
        let fact = NewEvent::new(event_type).tag(self.tag.as_str()).data(format!("capacity={}", self.capacity));
        let unchanged = Condition::fail_if_matches_after(self.query(), self.seen);
        let appended = store.append_if([fact], [unchanged])?;
        self.seen = appended.last.unwrap_or(self.seen);
        Ok(appended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::with_store;

    #[test]
    fn of_two_saves_of_one_state_the_second_fails_and_another_aggregate_is_not_concerned() {
        with_store("CourseDefined course:c1 | capacity=10\nCourseDefined course:c2 | capacity=10", |_, store| {
            let load = |id| Course::load(store, id).expect("readable").expect("there");
            let (mut one, mut same, mut other) = (load("c1"), load("c1"), load("c2"));
            one.change_capacity(store, 11).expect("no error").expect("saved");
            same.change_capacity(store, 12).expect("no error").expect_err("it has changed");
            other.change_capacity(store, 13).expect("no error").expect("it has not");
            one.change_capacity(store, 14).expect("no error").expect("its own save is no conflict");
            assert_eq!((load("c1").capacity, load("c2").capacity), (14, 13));
            assert!(Course::load(store, "c3").expect("readable").is_none());
            assert!(Course::define(store, "c1", 1).is_err());
        });
    }
}
