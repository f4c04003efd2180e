//! The course data set: courses, students, and enrolments. It is the same each time for one size.
//!
//! A fifth of the courses is popular and a fifth is not. A student takes three to eight courses,
//! and no enrolment occurs twice.

use std::collections::HashSet;

/// The numbers of a size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    courses: u64,
    students: u64,
    enrolments: u64,
}

/// The sizes by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Dataset {
    /// 5 courses, 10 students, 16 enrolments
    Tiny,
    /// 1,000 courses, 10,000 students, 49,869 enrolments
    Small,
    /// 100 times the small one
    Large,
}

impl Dataset {
    /// The case that appends it.
    pub(crate) const fn case(self) -> &'static str {
        match self {
            Dataset::Tiny => "load-tiny",
            Dataset::Small => "load-small",
            Dataset::Large => "load-large",
        }
    }
}

/// The sizes, smallest first.
const SIZES: [Size; 3] = [
    Size { courses: 5, students: 10, enrolments: 16 },
    Size { courses: 1_000, students: 10_000, enrolments: 49_869 },
    Size { courses: 100_000, students: 1_000_000, enrolments: 4_986_900 },
];

/// The largest and the smallest number of courses of a student.
const COURSES_OF_STUDENT: std::ops::RangeInclusive<u64> = 3..=8;

/// An event of the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) event_type: &'static str,
    pub(super) tags: Vec<String>,
    pub(super) data: String,
}

impl Size {
    /// The smallest size with at least `events` events, or else the largest.
    pub(super) fn with_events(events: u64) -> Size {
        *SIZES.iter().find(|size| size.events() >= events).unwrap_or(&SIZES[SIZES.len() - 1])
    }

    /// The number of events.
    pub(super) fn events(self) -> u64 {
        self.courses + self.students + self.enrolments
    }

    /// The events: courses, then students, then enrolments.
    pub(super) fn facts(self) -> impl Iterator<Item = Fact> {
        let courses = (0..self.courses).map(|course| Fact {
            event_type: "CourseOffered",
            tags: vec![format!("course:{course}")],
            data: format!(r#"{{"course_id":"{course}","category":"category {}"}}"#, course % 10),
        });
        let students = (0..self.students).map(|student| Fact {
            event_type: "StudentRegistered",
            tags: vec![format!("student:{student}")],
            data: format!(r#"{{"student_id":"{student}","major":"major {}"}}"#, student % 20),
        });
        let enrolments = Enrolments::of(self).map(|(student, course)| Fact {
            event_type: "EnrollmentCompleted",
            tags: vec![format!("student:{student}"), format!("course:{course}")],
            data: format!(r#"{{"student_id":"{student}","course_id":"{course}"}}"#),
        });
        courses.chain(students).chain(enrolments)
    }
}

/// The enrolments, as pairs. All students get one per round, until there are enough.
#[derive(Debug)]
struct Enrolments {
    size: Size,
    random: u64,
    student: u64,
    given: HashSet<(u64, u64)>,
    taken: Vec<u8>,
}

impl Enrolments {
    fn of(size: Size) -> Self {
        let taken = vec![0; usize::try_from(size.students).expect("students fit into memory")];
        Enrolments { size, random: 0x9e37_79b9_7f4a_7c15, student: 0, given: HashSet::new(), taken }
    }

    /// The next number of an xorshift generator (Marsaglia 2003).
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    /// Draws a course. Every fifth one is four times as likely as the others.
    fn course(&mut self) -> u64 {
        let course = self.draw(self.size.courses);
        let is_popular_draw = self.draw(2) == 0;
        if is_popular_draw { course - course % 5 } else { course }
    }
}

impl Iterator for Enrolments {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if self.given.len() as u64 == self.size.enrolments {
            return None;
        }
        loop {
            let student = self.student;
            self.student = (self.student + 1) % self.size.students;
            let (least, most) = COURSES_OF_STUDENT.into_inner();
            let wanted = least + student % (most - least + 1);
            let course = self.course();
            let taken = &mut self.taken[student as usize];
            if u64::from(*taken) < wanted && self.given.insert((student, course)) {
                *taken += 1;
                return Some((student, course));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_its_size_without_duplicates_and_is_reproducible() {
        for size in &SIZES[..2] {
            let facts: Vec<Fact> = size.facts().collect();
            assert_eq!(facts.len() as u64, size.events());
            assert_eq!(size.facts().collect::<Vec<_>>(), facts);
            let distinct: HashSet<_> = facts.iter().map(|fact| (fact.event_type, &fact.tags)).collect();
            assert_eq!(distinct.len(), facts.len());
        }
        assert_eq!(SIZES.map(Size::events), [31, 60_869, 6_086_900]);
    }
}
