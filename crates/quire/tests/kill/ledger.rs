//! The output of the child: a line for each acknowledged commit, written only after the
//! acknowledgement.

use std::collections::BTreeMap;
use std::io::Write;

use quire::events::EventPosition;
use quire::jobs::JobId;
use quire::{Position, Sequence};

/// Where the parts of an acknowledged commit are, by its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) position: Position,
    pub(crate) event: EventPosition,
    pub(crate) offset: Sequence,
    pub(crate) job: JobId,
}

/// Everything that was acknowledged in a directory.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Commits that made something, by id.
    pub(crate) made: BTreeMap<String, Made>,
    /// Commits that acknowledged a job, with their position, by the id of the commit that enqueued
    /// the job.
    pub(crate) acked: BTreeMap<String, Position>,
}

impl Ledger {
    pub(crate) fn len(&self) -> usize {
        self.made.len() + self.acked.len()
    }

    /// Reads a line; `None` for a line of the test harness.
    pub(crate) fn note(&mut self, line: &str) -> Option<()> {
        let number = |text: &str| text.parse::<u64>().expect("a number");
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["made", id, position, event, offset, job] => {
                let made = Made {
                    position: Position::new(number(position)),
                    event: EventPosition::new(number(event)),
                    offset: Sequence::new(number(offset)),
                    job: job.parse().expect("a job"),
                };
                assert_eq!(self.made.insert(id.to_owned(), made), None, "an id is used once");
            }
            ["acked", id, position] => {
                let position = Position::new(number(position));
                assert_eq!(self.acked.insert(id.to_owned(), position), None, "job {id} was acknowledged twice");
            }
            _ => return None,
        }
        Some(())
    }
}

/// The child's side: a line at once and whole, or no line.
pub(crate) fn tell_made(id: &str, made: Made) {
    let Made { position, event, offset, job } = made;
    tell(&format!("made {id} {position} {event} {offset} {job}\n"));
}

pub(crate) fn tell_acked(id: &str, position: Position) {
    tell(&format!("acked {id} {position}\n"));
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("the parent reads");
}
