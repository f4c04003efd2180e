//! The terms of the records of a log, as the positions at which a term begins. Terms never fall, so
//! a log has few of them.

use quire_log::{Log, Result, Term};
use quire_model::Position;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TermStarts {
    /// The first position of each term, in order. The first one is position 0, which stands before
    /// the first record.
    starts: Vec<(Position, Term)>,
}

impl TermStarts {
    /// Finds the terms of the records from `first` to `last`. Earlier records may be compacted:
    /// their terms are not known.
    pub(super) fn of(log: &Log, first: Position, last: Position) -> Result<Self> {
        TermStarts::find(first, last, |position| Ok(log.mark_at(position)?.map_or(Term::ALONE, |mark| mark.term)))
    }

    /// Finds where each term begins, with few calls of `term_of`.
    fn find(first: Position, last: Position, term_of: impl Fn(Position) -> Result<Term>) -> Result<Self> {
        let mut starts = vec![(Position::ZERO, Term::ALONE)];
        let end = term_of(last)?;
        let mut known = term_of(first)?;
        let mut from = first.get();
        if known > Term::ALONE {
            starts.push((first, known));
        }
        while known < end {
            // The first record of a later term than `known`.
            let (mut low, mut high) = (from, last.get());
            while low + 1 < high {
                let middle = low + (high - low) / 2;
                if term_of(Position::new(middle))? > known { high = middle } else { low = middle }
            }
            known = term_of(Position::new(high))?;
            starts.push((Position::new(high), known));
            from = high;
        }
        Ok(TermStarts { starts })
    }

    /// The term of a record of the log.
    pub(super) fn at(&self, position: Position) -> Term {
        let later = self.starts.partition_point(|(first, _)| *first <= position);
        self.starts[later - 1].1
    }

    /// The term of the last record.
    pub(super) fn last(&self) -> Term {
        self.starts.last().expect("it begins at position 0").1
    }

    /// Notes the term of the next record.
    pub(super) fn note(&mut self, position: Position, term: Term) {
        assert!(term >= self.last(), "terms in a log never fall");
        if term > self.last() {
            self.starts.push((position, term));
        }
    }

    /// Forgets the records after `kept`.
    pub(super) fn truncate_after(&mut self, kept: Position) {
        self.starts.retain(|(first, _)| *first <= kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_found_noted_and_forgotten() {
        for terms in [&[][..], &[0], &[1], &[0, 0, 3], &[1, 1, 2, 2, 2, 5, 9, 9], &[4; 9]] {
            let of = |position: Position| match position.get() {
                0 => Term::ALONE,
                number => Term::new(terms[usize::try_from(number).expect("few") - 1]),
            };
            let last = Position::new(terms.len() as u64);
            let found = TermStarts::find(Position::ZERO, last, |position| Ok(of(position))).expect("readable");
            let mut noted = TermStarts { starts: vec![(Position::ZERO, Term::ALONE)] };
            for number in 0..=last.get() {
                assert_eq!(found.at(Position::new(number)), of(Position::new(number)), "{number} of {terms:?}");
                noted.note(Position::new(number), of(Position::new(number)));
                let mut shorter = found.clone();
                shorter.truncate_after(Position::new(number));
                assert_eq!(shorter, noted, "{number} of {terms:?}");
                let later = TermStarts::find(Position::new(number), last, |position| {
                    assert!(position.get() >= number, "record {position} may be compacted");
                    Ok(of(position))
                });
                let later = later.expect("readable");
                let rest = number..=last.get();
                rest.for_each(|number| assert_eq!(later.at(Position::new(number)), of(Position::new(number))));
            }
        }
    }
}
