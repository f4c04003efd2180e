//! Whose turn it is: one holder at a time, nobody who waits is forgotten, and whoever follows one that died is told.

use std::sync::Arc;

use loom::thread;
use quire_threads::{AtomicU64, Ordering};

use super::in_every_order;
use super::process::{Machine, Process};
use crate::processes::turn::{self, Taken};

/// What the holders of turns have done.
#[derive(Debug, Default)]
struct Done {
    /// Counted as the statistics page counts appends: with a load and a store, which must be those of one holder after the other.
    turns: AtomicU64,
    taken_over: AtomicU64,
}

impl Done {
    fn turn(&self) {
        self.turns.store(self.turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn check(&self, turns: u64, taken_over: u64) {
        let done = (self.turns.load(Ordering::Relaxed), self.taken_over.load(Ordering::Relaxed));
        assert_eq!(done, (turns, taken_over), "turns, and those that were taken over");
    }
}

/// One turn, from beginning to end.
fn takes(process: &Process, done: &Done) {
    if turn::take(&process.control, &process.directory) == Taken::Over {
        done.taken_over.fetch_add(1, Ordering::Relaxed);
    }
    done.turn();
    turn::give_back(&process.control);
}

/// A turn that one has who will not give it back.
fn has_the_turn(process: &Process, done: &Done) {
    assert_eq!(turn::take(&process.control, &process.directory), Taken::Free);
    done.turn();
}

fn waits(process: Process, done: &Arc<Done>) -> thread::JoinHandle<()> {
    let done = Arc::clone(done);
    thread::spawn(move || takes(&process, &done))
}

#[test]
fn one_at_a_time_has_the_turn_and_everybody_who_waits_gets_it() {
    in_every_order(3, || {
        let (machine, done) = (Machine::new(3), Arc::<Done>::default());
        let [one, other, own] = [(); 3].map(|()| machine.open());
        let threads = [waits(one, &done), waits(other, &done)];
        takes(&own, &done);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        done.check(3, 0);
    });
}

#[test]
fn when_the_holder_dies_one_of_those_who_wait_takes_over_and_the_others_follow() {
    in_every_order(3, || {
        let (machine, done) = (Machine::new(3), Arc::<Done>::default());
        let [dies, one, other] = [(); 3].map(|()| machine.open());
        has_the_turn(&dies, &done);
        let threads = [waits(one, &done), waits(other, &done)];
        dies.die(&machine);
        machine.time_passes();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        done.check(3, 1);
    });
}

#[test]
fn a_seat_that_is_taken_again_does_not_hide_that_its_holder_died() {
    in_every_order(3, || {
        let (machine, done) = (Machine::new(2), Arc::<Done>::default());
        let [dies, other] = [(); 2].map(|()| machine.open());
        let seat = dies.control.seat();
        has_the_turn(&dies, &done);
        dies.die(&machine);
        let other = waits(other, &done);
        let sits_down = machine.open();
        assert_eq!(sits_down.control.seat(), seat);
        takes(&sits_down, &done);
        other.join().unwrap();
        done.check(3, 1);
    });
}

#[test]
fn a_turn_that_was_left_is_taken_over_by_one() {
    in_every_order(3, || {
        let (machine, done) = (Machine::new(3), Arc::<Done>::default());
        let [leaves, one, other] = [(); 3].map(|()| machine.open());
        has_the_turn(&leaves, &done);
        let threads = [waits(one, &done), waits(other, &done)];
        turn::leave(&leaves.control);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        done.check(3, 1);
    });
}
