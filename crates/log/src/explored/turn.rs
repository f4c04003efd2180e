//! The turn: one holder at a time, no waiter is forgotten or passed without a limit, and the
//! successor of a dead holder learns of the death.

use std::sync::Arc;

use loom::thread;
use quire_threads::{AtomicU64, Ordering, yield_now};

use super::in_every_order;
use super::process::{Machine, Process};
use crate::processes::control::TURN;
use crate::processes::turn::{self, TurnOrigin, WAITED_FOR};

/// The actions of the holders.
#[derive(Debug, Default)]
struct Done {
    /// Counted like appends on the statistics page, with a load and a store: the holders must be
    /// ordered.
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

/// Takes and releases the turn.
fn takes(process: &Process, done: &Done) {
    if turn::take(&process.control, &process.directory) == TurnOrigin::Over {
        done.taken_over.fetch_add(1, Ordering::Relaxed);
    }
    done.turn();
    turn::give_back(&process.control);
}

/// Takes the turn without releasing it.
fn has_the_turn(process: &Process, done: &Done) {
    assert_eq!(turn::take(&process.control, &process.directory), TurnOrigin::Free);
    done.turn();
}

fn waits(process: Process, done: &Arc<Done>) -> thread::JoinHandle<()> {
    let done = Arc::clone(done);
    thread::spawn(move || takes(&process, &done))
}

#[test]
fn the_turn_has_one_holder_at_a_time_and_every_waiter_gets_it() {
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
fn one_waiter_takes_over_from_a_dead_holder_and_the_others_follow() {
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
fn one_waiter_takes_over_a_turn_that_was_left() {
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

#[test]
fn a_process_that_takes_turn_after_turn_hands_over_to_a_waiter() {
    in_every_order(3, || {
        let (machine, done) = (Machine::new(2), Arc::<Done>::default());
        let [other, own] = [(); 2].map(|()| machine.open());
        let waits = waits(other, &done);
        for turns in 1.. {
            let _ = turn::take(&own.control, &own.directory);
            let is_over = done.turns.load(Ordering::Relaxed) > 0;
            while !is_over && own.control.word(TURN).load(Ordering::Relaxed) & WAITED_FOR == 0 {
                yield_now();
            }
            turn::give_back(&own.control);
            if is_over {
                // The waiter lost one turn, and the next one was handed over to it.
                assert!(turns <= 3, "the waiter got turn {turns}");
                break;
            }
        }
        waits.join().unwrap();
    });
}

#[test]
fn a_turn_that_was_handed_to_a_dead_waiter_passes_on() {
    in_every_order(3, || {
        let (machine, done) = (Machine::new(3), Arc::<Done>::default());
        let [own, dies] = [(); 2].map(|()| machine.open());
        has_the_turn(&own, &done);
        // The waiter dies while it sleeps. Waking it has no effect.
        own.control.word(TURN).fetch_or(WAITED_FOR, Ordering::Relaxed);
        dies.die(&machine);
        turn::give_back(&own.control);
        has_the_turn(&own, &done);
        own.control.word(TURN).fetch_or(WAITED_FOR, Ordering::Relaxed);
        turn::give_back(&own.control);
        machine.time_passes();
        has_the_turn(&own, &done);
        turn::give_back(&own.control);
        done.check(3, 0);
    });
}
