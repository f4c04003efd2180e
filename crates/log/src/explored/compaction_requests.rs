//! Requests of a compaction: a process that confirms a round holds the range of that round.

use std::sync::Arc;

use loom::thread;
use quire_model::Position;
use quire_threads::{AtomicU64, Ordering};

use super::in_every_order;
use super::process::Machine;
use crate::compaction::SegmentRun;

fn run(first: u64) -> SegmentRun {
    SegmentRun { first: Position::new(first), end: Position::new(first + 10) }
}

#[test]
fn a_requested_range_belongs_to_its_round() {
    in_every_order(3, || {
        let machine = Machine::new(2);
        let (asks, answers) = (machine.open(), machine.open());
        let first = asks.control.begin_round(run(10));
        let answers = thread::spawn(move || {
            let round = answers.control.round();
            if let Some(asked) = answers.control.requested_in(round) {
                assert_eq!(asked, run(10 * round), "in round {round}");
            }
        });
        assert_eq!(first, 1);
        assert_eq!(asks.control.begin_round(run(30)), 3);
        answers.join().unwrap();
    });
}

#[test]
fn files_are_removed_after_all_other_processes_have_confirmed_the_round() {
    in_every_order(3, || {
        let machine = Machine::new(2);
        let (asks, answers) = (machine.open(), machine.open());
        let round = asks.control.begin_round(run(10));
        let held = Arc::<AtomicU64>::default();
        let answers = {
            let held = Arc::clone(&held);
            thread::spawn(move || {
                if answers.control.requested_in(round).is_some() {
                    held.store(1, Ordering::Relaxed);
                    answers.control.report_held(round);
                }
                // The process stays open until the files are removed.
                answers
            })
        };
        if asks.control.all_others_hold(round) {
            assert_eq!(held.load(Ordering::Relaxed), 1, "the files are removed before every process has mapped them");
        }
        drop(answers.join().unwrap());
    });
}
