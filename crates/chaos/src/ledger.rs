//! The answers that clients got: a line for each, written only after it arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The positions of the parts of a commit, from its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartPositions {
    pub(crate) position: u64,
    pub(crate) event: u64,
    pub(crate) offset: u64,
    pub(crate) job: String,
}

/// A line of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Made(String, PartPositions),
    Claimed { claim: String, name: String, position: u64, event: u64 },
    Got { job: String, token: String },
    Done { id: String, position: u64 },
    Stale,
    Full,
    Refused(String),
    Failed(String),
    Unknown(String),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Made(id, PartPositions { position, event, offset, job }) => {
                write!(f, "made {id} {position} {event} {offset} {job}")
            }
            Line::Claimed { claim, name, position, event } => write!(f, "claimed {claim} {name} {position} {event}"),
            Line::Got { job, token } => write!(f, "got {job} {token}"),
            Line::Done { id, position } => write!(f, "done {id} {position}"),
            Line::Stale => write!(f, "stale"),
            Line::Full => write!(f, "full"),
            Line::Refused(message) => write!(f, "refused {}", message.replace('\n', " ")),
            Line::Failed(message) => write!(f, "failed {}", message.replace('\n', " ")),
            Line::Unknown(message) => write!(f, "unknown {}", message.replace('\n', " ")),
        }
    }
}

impl Line {
    /// Parses a line; `None` for any other text.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let number = |text: &str| text.parse::<u64>().ok();
        Some(match line.split(' ').collect::<Vec<_>>()[..] {
            ["made", id, position, event, offset, job] => {
                let (position, event, offset) = (number(position)?, number(event)?, number(offset)?);
                Line::Made(id.to_owned(), PartPositions { position, event, offset, job: job.to_owned() })
            }
            ["claimed", claim, name, position, event] => {
                let (claim, name) = (claim.to_owned(), name.to_owned());
                Line::Claimed { claim, name, position: number(position)?, event: number(event)? }
            }
            ["got", job, token] => Line::Got { job: job.to_owned(), token: token.to_owned() },
            ["done", id, position] => Line::Done { id: id.to_owned(), position: number(position)? },
            ["stale"] => Line::Stale,
            ["full"] => Line::Full,
            ["refused", ref rest @ ..] => Line::Refused(rest.join(" ")),
            ["failed", ref rest @ ..] => Line::Failed(rest.join(" ")),
            ["unknown", ref rest @ ..] => Line::Unknown(rest.join(" ")),
            _ => return None,
        })
    }

    /// Whether the line shows that the database makes progress.
    pub(crate) fn is_progress(&self) -> bool {
        matches!(self, Line::Made(..) | Line::Claimed { .. } | Line::Done { .. })
    }
}

/// All answers of a round.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The positions of each commit's parts, by commit id.
    pub(crate) made: BTreeMap<String, PartPositions>,
    /// The owner and the event of each claim.
    pub(crate) claimed: BTreeMap<String, (String, u64)>,
    /// Ids of completed jobs.
    pub(crate) done: BTreeSet<String>,
    leases: BTreeSet<(String, String)>,
    /// The positions that commits got.
    positions: BTreeSet<u64>,
    pub(crate) stale: u64,
    pub(crate) full: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) unknown: u64,
}

impl Ledger {
    /// Adds a line.
    ///
    /// # Errors
    /// When it contradicts an earlier line.
    pub(crate) fn note(&mut self, line: Line) -> Result<(), String> {
        let position = match &line {
            Line::Made(_, PartPositions { position, .. })
            | Line::Claimed { position, .. }
            | Line::Done { position, .. } => Some(*position),
            _ => None,
        };
        if position.is_some_and(|position| !self.positions.insert(position)) {
            return Err(format!("a position was returned twice: {line}"));
        }
        let is_new = match line {
            Line::Made(ref id, ref made) => self.made.insert(id.clone(), made.clone()).is_none(),
            Line::Claimed { ref claim, ref name, event, .. } => {
                self.claimed.insert(claim.clone(), (name.clone(), event)).is_none()
            }
            Line::Got { ref job, ref token } => self.leases.insert((job.clone(), token.clone())),
            Line::Done { ref id, .. } => self.done.insert(id.clone()),
            _ => true,
        };
        match line {
            Line::Stale => self.stale += 1,
            Line::Full => self.full += 1,
            Line::Refused(_) => self.refused += 1,
            Line::Failed(_) => self.failed += 1,
            Line::Unknown(_) => self.unknown += 1,
            _ => {}
        }
        if is_new { Ok(()) } else { Err(format!("a claim was granted twice: {line}")) }
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ledger { made, claimed, done, leases, stale, full, refused, failed, unknown, .. } = self;
        let (made, claimed, done, leases) = (made.len(), claimed.len(), done.len(), leases.len());
        write!(
            f,
            "{made} commits, {claimed} claims and {done} ends of jobs acknowledged, {leases} leases, {stale} of them stale; {full} refused for lack of space, {refused} by the system, {failed} after a failure, {unknown} without an answer"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(position: u64) -> PartPositions {
        PartPositions { position, event: 1, offset: 2, job: "3-4".to_owned() }
    }

    #[test]
    fn every_line_is_read_as_it_was_written() {
        let text = || "a".to_owned();
        for line in [
            Line::Made(text(), made(1)),
            Line::Claimed { claim: text(), name: text(), position: 1, event: 2 },
            Line::Got { job: text(), token: text() },
            Line::Done { id: text(), position: 1 },
            Line::Stale,
            Line::Full,
            Line::Refused("b c".to_owned()),
            Line::Failed("b c".to_owned()),
            Line::Unknown("b c".to_owned()),
        ] {
            assert_eq!(Line::read(&line.to_string()), Some(line));
        }
        assert_eq!(Line::read("made a 1"), None, "half a line says nothing");
    }

    #[test]
    fn ledgers_that_contradict_each_other_are_refused() {
        let note = |lines: &[Line]| {
            let mut ledger = Ledger::default();
            lines.iter().cloned().try_for_each(|line| ledger.note(line))
        };
        let of = |id: &str, position| Line::Made(id.to_owned(), made(position));
        assert_eq!(note(&[of("a", 1), of("b", 2)]), Ok(()));
        assert!(note(&[of("a", 1), of("b", 1)]).is_err(), "one position, two commits");
        assert!(note(&[of("a", 1), of("a", 2)]).is_err(), "one commit, two positions");
        let claim = |name: &str, position| {
            let name = name.to_owned();
            Line::Claimed { claim: "c".to_owned(), name, position, event: position }
        };
        assert!(note(&[claim("a", 1), claim("b", 2)]).is_err(), "one claim, two winners");
        let got = Line::Got { job: "1-0".to_owned(), token: "2-0".to_owned() };
        assert!(note(&[got.clone(), got]).is_err(), "one lease, two workers");
        let done = |position| Line::Done { id: "a".to_owned(), position };
        assert!(note(&[done(1), done(2)]).is_err(), "one job, ended twice");
    }
}
