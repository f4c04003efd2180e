//! Which sealed segments to rewrite: a plan made from facts about each segment.
//!
//! Two kinds of segments are rewritten together with their neighbours: segments with enough entries
//! to drop, and small segments left by earlier compactions. The surviving entries must fit in one
//! segment. Small segments alone are joined by fours, so that an entry is rewritten a number of
//! times that grows with the logarithm of the log. A segment that gets smaller when packed is
//! rewritten once for that reason.

use quire_model::Position;

/// The facts about a sealed segment that a plan depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentShare {
    /// Its first position.
    pub first: Position,
    /// The position after its last record.
    pub end: Position,
    /// The bytes of its file; of a packed segment, the bytes of its image.
    pub bytes: u64,
    /// The estimated bytes of the surviving entries; `None` when the segment cannot be read. Such a
    /// segment stays unchanged.
    pub surviving: Option<u64>,
    /// The estimated bytes that packing saves; 0 when the segment is packed already, packing is
    /// off, or packing saves too little.
    pub saved: u64,
    /// Whether the segment holds data to be erased. Such a segment is rewritten in any case.
    pub erases: bool,
}

/// Consecutive sealed segments to be rewritten into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentRun {
    /// The first position of the first segment.
    pub first: Position,
    /// The position after the last segment.
    pub end: Position,
}

/// The runs to rewrite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompactionPlan {
    /// The runs, in the order of the log.
    pub runs: Vec<SegmentRun>,
}

/// The count of small segments that are joined even without entries to drop.
const JOINED_MIN: usize = 4;

/// Most segments that are rewritten into one. All of them stay mapped during the rewrite, no
/// process opens the log meanwhile, and the disk gets their space back only at the end.
const JOINED_MAX: usize = 64;

const _: () = assert!(1 < JOINED_MIN && JOINED_MIN <= JOINED_MAX);

impl CompactionPlan {
    /// Plans the rewrite of these segments, which are in the order of the log. Segments are worth a
    /// rewrite when at least `dropped_percent_min` of their bytes do not survive, or packing saves
    /// bytes. A new segment has at most about `bytes_max` bytes before packing.
    pub fn of(shares: &[SegmentShare], bytes_max: u64, dropped_percent_min: u8) -> Self {
        debug_assert!(shares.iter().all(|share| share.first <= share.end), "no segment ends before it begins");
        debug_assert!(
            shares.windows(2).all(|pair| pair[0].end <= pair[1].first),
            "segments are in the order of the log"
        );
        let mut plan = CompactionPlan::default();
        let mut run = RunDraft::default();
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
            run.run = Some(SegmentRun { first, end: share.end });
            run.surviving += surviving;
            run.segments += 1;
            run.worth |= worth;
        }
        run.end_in(&mut plan);
        debug_assert!(plan.runs.iter().all(|run| run.first <= run.end), "no run ends before it begins");
        debug_assert!(plan.runs.windows(2).all(|pair| pair[0].end <= pair[1].first), "runs do not overlap");
        plan
    }
}

#[derive(Default)]
struct RunDraft {
    run: Option<SegmentRun>,
    surviving: u64,
    segments: usize,
    worth: bool,
}

impl RunDraft {
    fn end_in(&mut self, plan: &mut CompactionPlan) {
        let ended = std::mem::take(self);
        debug_assert!(ended.segments <= JOINED_MAX && ended.run.is_some() == (ended.segments > 0));
        plan.runs.extend(ended.run.filter(|_| ended.worth || ended.segments >= JOINED_MIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans for segments of 100 positions each, given as bytes and surviving bytes. Limits: 1,000
    /// bytes, 50 percent. Compares the runs as segment numbers.
    fn check(shares: &[(u64, Option<u64>)], expected: &[(u64, u64)]) {
        let shares: Vec<_> = shares.iter().map(|(bytes, surviving)| (*bytes, *surviving, 0)).collect();
        check_packing(&shares, expected);
    }

    /// As [`check`], with the bytes that packing saves.
    fn check_packing(shares: &[(u64, Option<u64>, u64)], expected: &[(u64, u64)]) {
        let position = |segment: u64| Position::new(segment * 100 + 1);
        let share = |(number, (bytes, surviving, saved)): (usize, &(u64, Option<u64>, u64))| {
            let (number, bytes, surviving, saved) = (number as u64, *bytes, *surviving, *saved);
            SegmentShare { first: position(number), end: position(number + 1), bytes, surviving, saved, erases: false }
        };
        let shares: Vec<SegmentShare> = shares.iter().enumerate().map(share).collect();
        let runs = CompactionPlan::of(&shares, 1000, 50).runs;
        let found: Vec<_> = runs.iter().map(|run| (run.first.get() / 100, run.end.get() / 100)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_segment_with_data_to_erase_is_rewritten_alone() {
        let share = |first, erases| SegmentShare {
            first: Position::new(first),
            end: Position::new(first + 100),
            bytes: 1000,
            surviving: Some(1000),
            saved: 0,
            erases,
        };
        let runs = CompactionPlan::of(&[share(1, false), share(101, true), share(201, false)], 1000, 50).runs;
        assert_eq!(runs, [SegmentRun { first: Position::new(101), end: Position::new(201) }]);
    }

    #[test]
    fn at_most_64_segments_are_rewritten_at_once() {
        check(&[(1000, Some(0)); 150], &[(0, 64), (64, 128), (128, 150)]);
    }

    #[test]
    fn a_segment_that_mostly_survives_stays_unchanged() {
        check(&[], &[]);
        check(&[(1000, Some(1000)), (1000, Some(501))], &[]);
        check(&[(1000, Some(500))], &[(0, 1)]);
    }

    #[test]
    fn neighbours_are_joined_up_to_the_size_of_a_segment() {
        check(&[(1000, Some(300)), (1000, Some(300)), (1000, Some(300)), (1000, Some(300))], &[(0, 3), (3, 4)]);
        check(&[(1000, Some(0)), (1000, Some(0)), (1000, Some(1000)), (1000, Some(0))], &[(0, 2), (3, 4)]);
    }

    #[test]
    fn small_segments_are_joined_by_fours_and_with_segments_that_lose_much() {
        check(&[(100, Some(100)), (100, Some(100)), (100, Some(100))], &[]);
        check(&[(100, Some(100)), (100, Some(100)), (100, Some(100)), (100, Some(100))], &[(0, 4)]);
        check(&[(100, Some(100)), (1000, Some(200)), (1000, Some(999))], &[(0, 2)]);
    }

    #[test]
    fn a_segment_that_packing_makes_smaller_is_rewritten_for_that_alone() {
        check_packing(&[(1000, Some(1000), 300), (1000, Some(1000), 0)], &[(0, 1)]);
        check_packing(&[(1000, Some(1000), 300), (1000, Some(1000), 300)], &[(0, 1), (1, 2)]);
        check_packing(&[(100, Some(100), 0), (100, Some(100), 30), (1000, Some(200), 0)], &[(0, 3)]);
        check_packing(&[(1000, None, 300)], &[]);
    }

    #[test]
    fn an_unreadable_segment_is_never_part_of_a_run() {
        check(&[(1000, Some(0)), (1000, None), (1000, Some(0))], &[(0, 1), (2, 3)]);
    }
}
