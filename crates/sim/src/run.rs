//! Runs of seeds, and the shrinking of those that fail.

use crate::plan::Plan;
use crate::trace::Trace;
use crate::world;

/// The result of a run.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// Its seed.
    pub seed: u64,
    /// The hash of all events; the same for every run of the same steps.
    pub hash: u64,
    /// How many steps it had.
    pub steps: usize,
    /// The violation, if there was one.
    pub failure: Option<String>,
    /// The events, if requested.
    pub lines: Vec<String>,
}

/// Runs a seed; with `steps`, only those steps of it. `lines` keeps the trace.
pub fn run(seed: u64, steps: Option<&[usize]>, lines: bool) -> RunReport {
    let plan = Plan::of_seed(seed);
    run_plan(&steps.map_or(plan.clone(), |steps| plan.with_steps(steps)), lines)
}

/// The number of steps of a seed; they are numbered from 0.
pub fn steps(seed: u64) -> usize {
    Plan::of_seed(seed).steps.len()
}

/// The kind of a failure: the first words of its message, without those that name a step, a place
/// or a value.
fn way_of(failure: &str) -> String {
    let is_plain =
        |word: &&str| word.len() > 1 && !word.contains(|letter: char| letter.is_ascii_digit() || letter == '/');
    failure.split_whitespace().filter(is_plain).take(WAY_WORDS).collect::<Vec<_>>().join(" ")
}

/// How many words identify the kind of a failure.
const WAY_WORDS: usize = 6;

fn run_plan(plan: &Plan, lines: bool) -> RunReport {
    let trace = Trace::new(lines);
    let failure = world::run(plan, &trace).err();
    RunReport { seed: plan.seed, hash: trace.hash(), steps: plan.steps.len(), failure, lines: trace.lines() }
}

/// Minimizes a failing run: the remaining steps still fail in the same way, and none can be left
/// out alone. It leaves out ever smaller pieces (Zeller and Hildebrandt, "Simplifying and isolating
/// failure-inducing input", 2002).
pub fn shrink(seed: u64) -> Vec<usize> {
    let plan = Plan::of_seed(seed);
    let mut kept: Vec<usize> = plan.steps.iter().map(|step| step.number).collect();
    let way = |plan: &Plan| run_plan(plan, false).failure.as_deref().map(way_of);
    let whole = way(&plan);
    let fails = |kept: &[usize]| way(&plan.with_steps(kept)) == whole;
    let mut piece = kept.len().div_ceil(2);
    while piece > 0 && !kept.is_empty() {
        let mut from = 0;
        let mut smaller = false;
        while from < kept.len() {
            let mut fewer = kept.clone();
            fewer.drain(from..(from + piece).min(kept.len()));
            if fails(&fewer) {
                kept = fewer;
                smaller = true;
            } else {
                from += piece;
            }
        }
        if !smaller || piece > 1 {
            piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_another_kind_does_not_shrink_the_first() {
        let way = |failure: &str| way_of(failure);
        let found =
            way("step 46: after a flipped bit in /data/shard-0000/7.log event 12 is found as [1], expected [2]");
        assert_eq!(
            found,
            way("step 3: after a flipped bit in /data/shard-0000/1.log event 9 is found as [4], expected [7]")
        );
        assert_ne!(found, way("step 46: it does not open: /data/shard-0000/7.log: records of kind 0 are unknown"));
    }
}
