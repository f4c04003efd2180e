//! Which sealed segments to rewrite: a value, made of what is known of each.
//!
//! Segments with enough to drop, and small ones that earlier compactions left, are rewritten together with their neighbours of
//! the same kind, as long as what survives fits one segment. Small ones alone are joined by fours, so that an entry is
//! rewritten a number of times that grows with the logarithm of the log. A segment that gets smaller by being packed is rewritten for
//! that, too: it is packed then, and nothing is saved by doing it again.

use quire_model::Position;

/// What is known of a sealed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its first position.
    pub first: Position,
    /// The position behind its last.
    pub end: Position,
    /// The bytes of its file, or those that it has unpacked: as many as stand in the same segment if it is not packed.
    pub bytes: u64,
    /// The bytes of the entries that survive, estimated; `None` when it can't be read, and must stay as it is.
    pub surviving: Option<u64>,
    /// The bytes that it has less of by being packed, estimated; 0 when it is packed, is not to be, or it is not worth it.
    pub saved: u64,
    /// Whether it holds what is to be erased: then it is rewritten however little that is.
    pub erases: bool,
}

/// Sealed segments that follow each other, to be rewritten into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first position of the first of them.
    pub first: Position,
    /// The position behind the last of the last.
    pub end: Position,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompactionPlan {
    /// The runs, in the order of the log.
    pub runs: Vec<Run>,
}

/// How many small segments are joined though nothing is dropped.
const JOINED_MIN: usize = 4;

/// How many segments are rewritten into one at most, however little survives of them: all of them stay mapped meanwhile, nobody opens the
/// log, and the disk has their space back only then.
const JOINED_MAX: usize = 64;

impl CompactionPlan {
    /// The plan for these segments, which are in the order of the log: to rewrite those of which at least `dropped_percent_min`
    /// of the bytes don't survive, or which are to be packed, into segments of at most about `bytes_max`, unpacked.
    pub fn of(shares: &[Share], bytes_max: u64, dropped_percent_min: u8) -> Self {
        let mut plan = CompactionPlan::default();
        let mut run = Gathered::default();
        for share in shares {
            let Some(surviving) = share.surviving else {
                run.end_in(&mut plan);
                continue;
            };
            let dropped = share.bytes.saturating_sub(surviving);
            let much = dropped > 0 && dropped * 100 >= share.bytes * u64::from(dropped_percent_min);
            let worth = much || share.saved > 0 || share.erases;
            if !worth && share.bytes > bytes_max / JOINED_MIN as u64 {
                run.end_in(&mut plan);
                continue;
            }
            let full = run.surviving + surviving > bytes_max || run.segments == JOINED_MAX;
            if full || run.run.is_some_and(|run| run.end != share.first) {
                run.end_in(&mut plan);
            }
            let first = run.run.map_or(share.first, |run| run.first);
            run.run = Some(Run { first, end: share.end });
            run.surviving += surviving;
            run.segments += 1;
            run.worth |= worth;
        }
        run.end_in(&mut plan);
        plan
    }
}

#[derive(Default)]
struct Gathered {
    run: Option<Run>,
    surviving: u64,
    segments: usize,
    worth: bool,
}

impl Gathered {
    fn end_in(&mut self, plan: &mut CompactionPlan) {
        let ended = std::mem::take(self);
        plan.runs.extend(ended.run.filter(|_| ended.worth || ended.segments >= JOINED_MIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans for segments of 100 positions each, given as bytes and surviving bytes, with at most 1,000 bytes and from half on;
    /// the runs as segment numbers.
    fn check(shares: &[(u64, Option<u64>)], expected: &[(u64, u64)]) {
        let shares: Vec<_> = shares.iter().map(|(bytes, surviving)| (*bytes, *surviving, 0)).collect();
        check_packing(&shares, expected);
    }

    /// The same, with the bytes that packing saves.
    fn check_packing(shares: &[(u64, Option<u64>, u64)], expected: &[(u64, u64)]) {
        let position = |segment: u64| Position::new(segment * 100 + 1);
        let share = |(number, (bytes, surviving, saved)): (usize, &(u64, Option<u64>, u64))| {
            let (number, bytes, surviving, saved) = (number as u64, *bytes, *surviving, *saved);
            Share { first: position(number), end: position(number + 1), bytes, surviving, saved, erases: false }
        };
        let shares: Vec<Share> = shares.iter().enumerate().map(share).collect();
        let runs = CompactionPlan::of(&shares, 1000, 50).runs;
        let found: Vec<_> = runs.iter().map(|run| (run.first.get() / 100, run.end.get() / 100)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_holds_something_to_be_erased_is_rewritten_alone() {
        let share = |first, erases| Share {
            first: Position::new(first),
            end: Position::new(first + 100),
            bytes: 1000,
            surviving: Some(1000),
            saved: 0,
            erases,
        };
        let runs = CompactionPlan::of(&[share(1, false), share(101, true), share(201, false)], 1000, 50).runs;
        assert_eq!(runs, [Run { first: Position::new(101), end: Position::new(201) }]);
    }

    #[test]
    fn however_little_survives_so_many_are_rewritten_at_a_time() {
        check(&[(1000, Some(0)); 150], &[(0, 64), (64, 128), (128, 150)]);
    }

    #[test]
    fn what_survives_mostly_stays_as_it_is() {
        check(&[], &[]);
        check(&[(1000, Some(1000)), (1000, Some(501))], &[]);
        check(&[(1000, Some(500))], &[(0, 1)]);
    }

    #[test]
    fn neighbours_go_into_one_as_long_as_it_is_no_longer_than_a_segment() {
        check(&[(1000, Some(300)), (1000, Some(300)), (1000, Some(300)), (1000, Some(300))], &[(0, 3), (3, 4)]);
        check(&[(1000, Some(0)), (1000, Some(0)), (1000, Some(1000)), (1000, Some(0))], &[(0, 2), (3, 4)]);
    }

    #[test]
    fn small_ones_are_joined_by_fours_and_with_those_that_lose_much() {
        check(&[(100, Some(100)), (100, Some(100)), (100, Some(100))], &[]);
        check(&[(100, Some(100)), (100, Some(100)), (100, Some(100)), (100, Some(100))], &[(0, 4)]);
        check(&[(100, Some(100)), (1000, Some(200)), (1000, Some(999))], &[(0, 2)]);
    }

    #[test]
    fn what_gets_smaller_by_being_packed_is_rewritten_for_that_alone() {
        check_packing(&[(1000, Some(1000), 300), (1000, Some(1000), 0)], &[(0, 1)]);
        check_packing(&[(1000, Some(1000), 300), (1000, Some(1000), 300)], &[(0, 1), (1, 2)]);
        check_packing(&[(100, Some(100), 0), (100, Some(100), 30), (1000, Some(200), 0)], &[(0, 3)]);
        check_packing(&[(1000, None, 300)], &[]);
    }

    #[test]
    fn what_cannot_be_read_is_never_part_of_a_run() {
        check(&[(1000, Some(0)), (1000, None), (1000, Some(0))], &[(0, 1), (2, 3)]);
    }
}
