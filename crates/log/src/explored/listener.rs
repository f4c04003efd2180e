//! The listening thread: a waiter learns of a publication of another process in every order.

use std::sync::Arc;

use loom::thread;
use quire_model::Position;

use super::in_every_order;
use super::process::{Machine, Process};
use crate::durable::gate::{Gate, GateKind};
use crate::processes::listener::{self, ListenerInputs, ProcessEvent, ProcessListener};

const FIRST: Position = Position::new(1);

/// A process with a thread that listens on behalf of its waiters and applies records.
#[derive(Debug)]
struct ListeningProcess {
    process: Process,
    gate: Gate,
    listener: ProcessListener,
}

impl ListeningProcess {
    fn new(process: Process) -> Arc<Self> {
        let gate = Gate::new(GateKind::AtOnce, Arc::clone(&process.control));
        Arc::new(ListeningProcess { process, gate, listener: ProcessListener::default() })
    }

    fn is_behind(&self) -> bool {
        self.process.control.tail() > self.gate.position()
    }

    fn listen(&self) {
        let control = &self.process.control;
        let mut has_others = control.has_other_processes();
        loop {
            let (is_behind, has_news_of_round) = (&|| self.is_behind(), &|| false);
            let to = ListenerInputs { control, gate: &self.gate, is_behind, has_news_of_round, has_others };
            match self.listener.next_event(&to) {
                ProcessEvent::Published => drop(self.gate.followed(control.tail())),
                ProcessEvent::OthersChanged => has_others = control.has_other_processes(),
                ProcessEvent::Compaction => unreachable!("there is none"),
                ProcessEvent::Stop => return,
            }
        }
    }

    fn wait(&self) {
        let begin = || listener::begin_to_wait(&self.process.control, || self.is_behind());
        self.gate.published().wait(FIRST.into(), begin).unwrap();
    }
}

fn machine_and_process(seats: usize) -> (Machine, Process) {
    let machine = Machine::new(seats);
    let process = machine.open();
    process.control.set_tail(Position::ZERO);
    (machine, process)
}

#[test]
fn a_waiter_learns_of_a_publication_of_another_process() {
    in_every_order(3, || {
        let (machine, publishes) = machine_and_process(2);
        let here = ListeningProcess::new(machine.open());
        let [listens, waits] = [ListeningProcess::listen, ListeningProcess::wait].map(|run| {
            let here = Arc::clone(&here);
            thread::spawn(move || run(&here))
        });
        publishes.control.set_tail(FIRST);
        publishes.control.wake_others();
        waits.join().unwrap();
        here.listener.stop(&here.process.control);
        listens.join().unwrap();
    });
}

#[test]
fn a_waiter_learns_of_a_publication_of_a_process_that_opens_later() {
    in_every_order(3, || {
        let (machine, process) = machine_and_process(2);
        let here = ListeningProcess::new(process);
        let [listens, waits] = [ListeningProcess::listen, ListeningProcess::wait].map(|run| {
            let here = Arc::clone(&here);
            thread::spawn(move || run(&here))
        });
        let publishes = machine.open();
        publishes.control.set_tail(FIRST);
        publishes.control.wake_others();
        waits.join().unwrap();
        here.listener.stop(&here.process.control);
        listens.join().unwrap();
    });
}
