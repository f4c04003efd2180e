//! Processes that have a log open: threads, each with a seat and a control file of its own over the
//! same words. A death releases the locks, as the kernel does, and nothing else.

use std::mem;
use std::path::Path;
use std::sync::Arc;

use quire_mapped::{Appender, SharedWords};
use quire_model::Position;

use super::files::{Files, Volume};
use crate::processes::control::{Control, TURN};
use crate::processes::seat;
use crate::segment::{HEADER_BYTES, Segment, SegmentIndex};
use crate::storage::directory::Directory;

const SHARD: &str = "shard";

/// The shared state of the processes.
#[derive(Debug)]
pub(super) struct Machine {
    words: SharedWords,
    pub(super) volume: Arc<Volume>,
}

/// A process that has the log open.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) control: Arc<Control>,
    pub(super) directory: Directory,
}

impl Machine {
    /// Creates a machine for at most `seats` processes.
    pub(super) fn new(seats: usize) -> Self {
        let words = SharedWords::in_memory(Control::explored_words(seats));
        Machine { words, volume: Arc::new(Volume::new(Path::new(SHARD))) }
    }

    pub(super) fn open(&self) -> Process {
        let directory = Directory::open(Arc::new(Files(Arc::clone(&self.volume))), Path::new(SHARD)).unwrap();
        let control = Arc::new(Control::explored(self.words.clone(), &directory));
        Process { control, directory }
    }

    /// Makes waiters for the turn check periodically whether its holder is alive.
    pub(super) fn time_passes(&self) {
        self.words.end_sleeps(TURN);
    }
}

impl Process {
    /// Creates a segment that begins with the record `first` and holds no records.
    pub(super) fn segment(&self, first: Position) -> Arc<Segment> {
        let file = self.directory.open_segment("segment").unwrap();
        let mut appender = Appender::in_memory(HEADER_BYTES).unwrap();
        appender.settle(HEADER_BYTES);
        Arc::new(Segment::new(first, file, appender.view(), SegmentIndex::new(first, 0)))
    }

    /// Ends the process as SIGKILL does.
    pub(super) fn die(self, machine: &Machine) {
        let seat = self.directory.path_of(&seat::name(self.control.seat()));
        mem::forget(self);
        machine.volume.unlock(&seat);
    }
}
