//! What a compaction asks of others: whoever takes part in a round takes the range of that round for it, and no other.

use std::sync::Arc;

use loom::thread;
use quire_model::Position;
use quire_threads::{AtomicU64, Ordering};

use super::in_every_order;
use super::process::Machine;
use crate::compaction::Run;

fn run(first: u64) -> Run {
    Run { first: Position::new(first), end: Position::new(first + 10) }
}

#[test]
fn a_range_that_is_asked_for_is_that_of_its_round() {
    in_every_order(3, || {
        let machine = Machine::new(2);
        let (asks, answers) = (machine.open(), machine.open());
        let first = asks.control.begin_round(run(10));
        let answers = thread::spawn(move || {
            let round = answers.control.round();
            if let Some(asked) = answers.control.asked_in(round) {
                assert_eq!(asked, run(10 * round), "in round {round}");
            }
        });
        assert_eq!(first, 1);
        assert_eq!(asks.control.begin_round(run(30)), 3);
        answers.join().unwrap();
    });
}

#[test]
fn files_go_only_when_everybody_else_has_said_in_this_round_that_it_holds_them() {
    in_every_order(3, || {
        let machine = Machine::new(2);
        let (asks, answers) = (machine.open(), machine.open());
        let round = asks.control.begin_round(run(10));
        let held = Arc::<AtomicU64>::default();
        let answers = {
            let held = Arc::clone(&held);
            thread::spawn(move || {
                if answers.control.asked_in(round).is_some() {
                    held.store(1, Ordering::Relaxed);
                    answers.control.say_held(round);
                }
                // Open until the files have gone.
                answers
            })
        };
        if asks.control.all_others_hold(round) {
            assert_eq!(held.load(Ordering::Relaxed), 1, "they go, and somebody has not mapped them");
        }
        drop(answers.join().unwrap());
    });
}
