//! The newest list of segments: a reader of the published position finds the record's segment, and
//! no concurrent change of the list is lost.

use std::sync::Arc;

use loom::thread;
use quire_model::Position;

use super::in_every_order;
use super::process::{Machine, Process};
use crate::durable::gate::{Gate, GateKind};
use crate::read::newest::NewestSegments;
use crate::read::segments::Segments;

/// A log whose first segment is full.
#[derive(Debug)]
struct Listed {
    process: Process,
    newest: NewestSegments,
    gate: Gate,
}

impl Listed {
    fn new() -> Arc<Self> {
        let process = Machine::new(1).open();
        let gate = Gate::new(GateKind::AtOnce, Arc::clone(&process.control));
        drop(gate.opened(Position::new(1), Position::ZERO));
        let newest = NewestSegments::new(Segments::new(Vec::new(), vec![process.segment(Position::new(1))]));
        Arc::new(Listed { process, newest, gate })
    }

    fn roll(&self, first: u64) {
        let segment = self.process.segment(Position::new(first));
        self.newest.change(|segments| segments.with_active(segment));
    }
}

fn holds(segments: &Segments, position: Position) -> bool {
    segments.live.iter().any(|segment| segment.first == position)
}

#[test]
fn a_reader_of_a_published_record_finds_its_segment() {
    in_every_order(3, || {
        let log = Listed::new();
        let next = Position::new(2);
        let reads = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let (limit, segments) = log.newest.published(&log.gate);
                assert!(limit < next || holds(&segments, next), "record {limit} is published, and in no segment");
            })
        };
        log.roll(2);
        drop(log.gate.appended(next));
        reads.join().unwrap();
    });
}

#[test]
fn a_list_of_the_newest_generation_holds_the_published_records() {
    in_every_order(3, || {
        let log = Listed::new();
        let next = Position::new(2);
        let goes_on = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let mine = log.newest.segments();
                if log.gate.position() >= next && log.newest.generation() == mine.generation {
                    assert!(holds(&mine, next), "an old list is taken for the newest");
                }
            })
        };
        log.roll(2);
        drop(log.gate.appended(next));
        goes_on.join().unwrap();
    });
}

#[test]
fn no_concurrent_change_of_the_list_is_lost() {
    in_every_order(3, || {
        let log = Listed::new();
        let other = {
            let log = Arc::clone(&log);
            thread::spawn(move || log.roll(3))
        };
        log.roll(2);
        other.join().unwrap();
        let segments = log.newest.segments();
        assert!(holds(&segments, Position::new(2)) && holds(&segments, Position::new(3)));
        assert_eq!((segments.generation, log.newest.generation()), (2, 2));
    });
}
