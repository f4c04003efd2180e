//! Course subscriptions: a course has a capacity, a student a number of courses, and no stream
//! holds both.

use quire::events::{NewEvent, QueryItem};
use quire::{EventStore, Project, Projection};

use crate::TRIES;
use crate::scenario::{Answer, number};

/// How many courses a student may subscribe to.
const COURSES_MAX: u32 = 5;

fn course_tag(course: &str) -> String {
    format!("course:{course}")
}

fn exists(course: &str) -> impl Project<State = bool> {
    let defined = QueryItem::new().event_type("CourseDefined");
    let tag = course_tag(course);
    Projection::new(defined.tag(&tag), false, |exists, _| *exists = true)
}

fn capacity(course: &str) -> impl Project<State = u64> {
    let tag = course_tag(course);
    let item = QueryItem::new().event_type("CourseDefined").event_type("CourseCapacityChanged").tag(&tag);
    Projection::new(item, 0, |capacity, event| *capacity = number(event, "capacity"))
}

fn subscriptions(tag: &str) -> impl Project<State = u32> + use<> {
    let item = QueryItem::new().event_type("StudentSubscribedToCourse").tag(tag);
    Projection::new(item, 0, |count, _| *count += 1)
}

fn is_subscribed(student: &str, course: &str) -> impl Project<State = bool> + use<> {
    let (student, course) = (format!("student:{student}"), course_tag(course));
    let item = QueryItem::new().event_type("StudentSubscribedToCourse").tag(&student).tag(&course);
    Projection::new(item, false, |subscribed, _| *subscribed = true)
}

/// Defines a course.
pub(crate) fn define(store: &EventStore, course: &str, capacity: u64) -> Answer {
    store.decide(
        TRIES,
        || exists(course),
        |exists| {
            if exists {
                return Err(format!("Course with id \"{course}\" already exists"));
            }
            Ok(vec![NewEvent::new("CourseDefined").tag(course_tag(course)).data(format!("capacity={capacity}"))])
        },
    )
}

/// Changes how many students a course takes.
pub(crate) fn change_capacity(store: &EventStore, course: &str, wanted: u64) -> Answer {
    store.decide(
        TRIES,
        || (exists(course), capacity(course)),
        |(exists, current)| {
            if !exists {
                return Err(format!("Course \"{course}\" does not exist"));
            }
            if current == wanted {
                return Err(format!("New capacity {wanted} is the same as the current capacity"));
            }
            Ok(vec![NewEvent::new("CourseCapacityChanged").tag(course_tag(course)).data(format!("capacity={wanted}"))])
        },
    )
}

/// Subscribes a student to a course: one decision over five projections, guarded by one condition.
pub(crate) fn subscribe(store: &EventStore, student: &str, course: &str) -> Answer {
    let student_tag = format!("student:{student}");
    let projections = || {
        let of_course = subscriptions(&course_tag(course));
        (exists(course), capacity(course), of_course, subscriptions(&student_tag), is_subscribed(student, course))
    };
    store.decide(TRIES, projections, |(exists, capacity, of_course, of_student, is_subscribed)| {
        if !exists {
            return Err(format!("Course \"{course}\" does not exist"));
        }
        if u64::from(of_course) >= capacity {
            return Err(format!("Course \"{course}\" is already fully booked"));
        }
        if is_subscribed {
            return Err("Student already subscribed to this course".to_owned());
        }
        if of_student >= COURSES_MAX {
            return Err(format!("Student already subscribed to {COURSES_MAX} courses"));
        }
        let subscribed = NewEvent::new("StudentSubscribedToCourse");
        Ok(vec![subscribed.tag(student_tag.as_str()).tag(course_tag(course))])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{check, with_store};

    #[test]
    fn a_course_is_defined_once() {
        let defined = Ok("CourseDefined course:c1 | capacity=15");
        check("", |store, _| define(store, "c1", 15), defined);
        check("CourseDefined course:c2 | capacity=10", |store, _| define(store, "c1", 15), defined);
        let exists = Err("Course with id \"c1\" already exists");
        check("CourseDefined course:c1 | capacity=10", |store, _| define(store, "c1", 15), exists);
    }

    #[test]
    fn a_capacity_is_changed_to_another() {
        check("", |store, _| change_capacity(store, "c0", 15), Err("Course \"c0\" does not exist"));
        let given = "CourseDefined course:c1 | capacity=12";
        let same = Err("New capacity 12 is the same as the current capacity");
        check(given, |store, _| change_capacity(store, "c1", 12), same);
        let changed = Ok("CourseCapacityChanged course:c1 | capacity=15");
        check(given, |store, _| change_capacity(store, "c1", 15), changed);
    }

    fn subscribed(students: &[u32], courses: &[u32]) -> String {
        let pairs = students.iter().flat_map(|student| courses.iter().map(move |course| (student, course)));
        pairs
            .map(|(student, course)| format!("StudentSubscribedToCourse student:s{student} course:c{course}\n"))
            .collect()
    }

    #[test]
    fn a_student_subscribes_while_there_are_seats() {
        let s1_to_c1 = |store: &EventStore, _| subscribe(store, "s1", "c1");
        check("", s1_to_c1, Err("Course \"c1\" does not exist"));
        let full = format!("CourseDefined course:c1 | capacity=3\n{}", subscribed(&[2, 3, 4], &[1]));
        check(&full, s1_to_c1, Err("Course \"c1\" is already fully booked"));
        let lowered = format!(
            "CourseDefined course:c1 | capacity=4\n{}CourseCapacityChanged course:c1 | capacity=2",
            subscribed(&[2, 3], &[1])
        );
        check(&lowered, s1_to_c1, Err("Course \"c1\" is already fully booked"));
        let twice = format!("CourseDefined course:c1 | capacity=10\n{}", subscribed(&[1], &[1]));
        check(&twice, s1_to_c1, Err("Student already subscribed to this course"));
        let busy = format!("CourseDefined course:c1 | capacity=10\n{}", subscribed(&[1], &[2, 3, 4, 5, 6]));
        check(&busy, s1_to_c1, Err("Student already subscribed to 5 courses"));
        let done = Ok("StudentSubscribedToCourse student:s1 course:c1");
        let free = format!("CourseDefined course:c1 | capacity=3\n{}", subscribed(&[2, 3], &[1]));
        check(&free, s1_to_c1, done);
        let fewer = format!("CourseDefined course:c1 | capacity=10\n{}", subscribed(&[1], &[2, 3, 4, 5]));
        check(&fewer, s1_to_c1, done);
    }

    /// Subscribes all these students at once, and returns how many succeeded.
    fn race(given: &str, pairs: &[(&str, &str)]) -> usize {
        let mut made = 0;
        with_store(given, |_, store| {
            std::thread::scope(|scope| {
                let racers: Vec<_> =
                    pairs.iter().map(|(student, course)| scope.spawn(|| subscribe(store, student, course))).collect();
                let answers = racers.into_iter().map(|racer| racer.join().expect("no panic").expect("no error"));
                made = answers.filter(Result::is_ok).count();
            });
        });
        made
    }

    #[test]
    fn of_two_who_want_the_last_seat_one_gets_it() {
        for _ in 0..20 {
            let given = format!("CourseDefined course:c1 | capacity=3\n{}", subscribed(&[8, 9], &[1]));
            assert_eq!(race(&given, &[("s1", "c1"), ("s2", "c1")]), 1);
        }
    }

    #[test]
    fn who_subscribes_to_two_courses_at_once_gets_both_up_to_the_limit() {
        let courses = "CourseDefined course:c1 | capacity=3\nCourseDefined course:c2 | capacity=3\n";
        assert_eq!(race(courses, &[("s1", "c1"), ("s1", "c2")]), 2);
        let busy = format!("{courses}{}", subscribed(&[1], &[3, 4, 5, 6]));
        assert_eq!(race(&busy, &[("s1", "c1"), ("s1", "c2")]), 1);
    }
}
