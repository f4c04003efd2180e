//! The rewriting of planned runs of segments, as far as other processes and the disk let it.

use quire_log::{Compaction, Compactor, SegmentRun, SegmentShare, Survives};

use crate::error::{Error, Result};

/// Runs that may fail for lack of disk space before the rest is left to the next compaction.
const NO_SPACE_MAX: u32 = 4;

/// How much of the plan was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    /// The rest is left to the next compaction. `unanswered` processes have not released the
    /// segments to be removed.
    Part {
        unanswered: Vec<u32>,
    },
}

/// The parts that rewrite runs.
pub(super) struct RunRewriter<'r, 'l> {
    pub(super) compactor: &'r mut Compactor<'l>,
    pub(super) shares: &'r [SegmentShare],
    pub(super) survives: &'r mut Survives<'r>,
    /// Releases the old segments, and returns whether to continue.
    pub(super) release_and_continue: &'r mut dyn FnMut() -> Result<bool>,
}

impl RunRewriter<'_, '_> {
    /// Rewrites runs as far as other processes let it. A run that is damaged, or that the disk has
    /// no space for, does not keep the others from being rewritten: another run may free space. The
    /// first such problem is reported in `failed`.
    pub(super) fn rewrite_all(
        &mut self,
        runs: &[SegmentRun],
        failed: &mut Option<Error>,
    ) -> Result<(Compaction, Extent)> {
        let (mut done, mut runs, mut no_space) = (Compaction::default(), runs, 0);
        while !runs.is_empty() {
            let (now, later) = runs.split_at(self.compactor.held_by_others(runs)?);
            if now.is_empty() {
                // Segments of processes that have not answered stay until the next compaction.
                return Ok((done, Extent::Part { unanswered: self.compactor.unanswered() }));
            }
            let mut left: Vec<SegmentRun> = now.iter().rev().copied().collect();
            while let Some(run) = left.pop() {
                let rewritten = self.compactor.compact(run, self.survives);
                let continues = (self.release_and_continue)()?;
                match rewritten {
                    Ok(more) => done += more,
                    Err(error @ quire_log::Error::NoSpace { .. }) => match halves(run, self.shares) {
                        // Fewer segments at a time need less space.
                        Some((one, other)) => left.extend([other, one]),
                        None => {
                            no_space += 1;
                            *failed = failed.take().or(Some(error.into()));
                        }
                    },
                    Err(error) if is_lost(&error) => *failed = failed.take().or(Some(error.into())),
                    Err(error) => return Err(error.into()),
                }
                if !continues || no_space == NO_SPACE_MAX {
                    return Ok((done, Extent::Part { unanswered: Vec::new() }));
                }
            }
            runs = later;
        }
        Ok((done, if no_space == 0 { Extent::Whole } else { Extent::Part { unanswered: Vec::new() } }))
    }
}

/// A run of several segments as two of half as many.
fn halves(run: SegmentRun, shares: &[SegmentShare]) -> Option<(SegmentRun, SegmentRun)> {
    let begin = shares.partition_point(|share| share.first < run.first);
    let end = shares.partition_point(|share| share.end <= run.end);
    let all = shares.get(begin..end).filter(|all| all.len() > 1)?;
    let middle = all[all.len() / 2].first;
    assert!(run.first < middle && middle < run.end, "each half holds a segment");
    Some((SegmentRun { end: middle, ..run }, SegmentRun { first: middle, ..run }))
}

/// Whether the error concerns one segment only: it is damaged, or its file is missing.
fn is_lost(error: &quire_log::Error) -> bool {
    match error {
        quire_log::Error::Unreadable(_) | quire_log::Error::Damaged { .. } => true,
        quire_log::Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}
