//! Opens a log. A process that opens it alone recovers it. A process that joins others applies the
//! records that they have published.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use quire_model::Position;

use super::Log;
use super::shared::LogCore;
use super::threads::LogThreads;
use crate::append::active::Active;
use crate::append::prepare::{Preparer, remove_left, spare_name};
use crate::append::writer::Writer;
use crate::compaction::HoldRounds;
use crate::components::Components;
use crate::durable::checkpoint::{self, Checkpoint, CheckpointSearch};
use crate::durable::gate::{Gate, GateKind};
use crate::durable::sync::Syncer;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::processes::control::Control;
use crate::processes::listener::ProcessListener;
use crate::read::newest::NewestSegments;
use crate::read::reader::SegmentStore;
use crate::read::spans::Spans;
use crate::recovery::{self, Recovery};
use crate::sealed::Archive;
use crate::sealed::scrub::Scrub;
use crate::sealed::sealer::Sealer;
use crate::settings::{Durability, Settings};
use crate::statistics::Counters;
use crate::storage::directory::Directory;
use crate::time::clock::Clock;
use crate::time::steady::SteadyClock;

/// A log that was opened.
#[derive(Debug)]
pub struct OpenedLog {
    /// The shared side.
    pub log: Log,
    /// The one writer.
    pub writer: Writer,
    /// The findings of recovery.
    pub recovery: Recovery,
    /// The newest checkpoint that belongs to this log. The caller must replay the records after its
    /// [`Mark::position`](crate::Mark::position).
    pub checkpoint: Option<Checkpoint>,
}

impl Log {
    /// Opens the log in an existing directory, and makes its files when the directory holds none.
    ///
    /// # Errors
    /// [`Error::InUse`](crate::Error::InUse), [`Error::Damaged`](crate::Error::Damaged),
    /// [`Error::NewerFormat`](crate::Error::NewerFormat),
    /// [`Error::Settings`](crate::Error::Settings), [`Error::NoSpace`](crate::Error::NoSpace) and
    /// [`Error::Io`](crate::Error::Io).
    pub fn open(path: &Path, identity: Identity, settings: Settings, clock: Arc<dyn Clock>) -> Result<OpenedLog> {
        Log::open_with(path, identity, settings, Components { clock, ..Components::default() })
    }

    /// Opens the log as [`Log::open`](crate::Log::open) does, with components that the caller
    /// supplies.
    ///
    /// # Errors
    /// As [`Log::open`](crate::Log::open).
    pub fn open_with(path: &Path, identity: Identity, settings: Settings, components: Components) -> Result<OpenedLog> {
        let Components { storage, clock, background } = components;
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(Error::Settings { problems });
        }
        let directory = Arc::new(Directory::open(storage, path)?);
        let entered = Control::open(&directory, identity, &settings)?;
        let settings = Settings { durability: entered.durability, ..settings };
        if settings.durability == Durability::Sync {
            directory.write_gradually();
        }
        let spare = spare_name(entered.control.seat());
        directory.remove(&spare)?;
        remove_left(&directory, &spare)?;
        if entered.alone {
            directory.remove_unfinished()?;
        }
        let store = Arc::new(SegmentStore {
            archive: Archive::new(Arc::clone(&directory), identity, &settings),
            spans: Spans::new(identity.seed()),
        });
        let (known, end) = match settings.only_published {
            true => (entered.known.up_to_published(), entered.known.published),
            false => (entered.known, None),
        };
        let found = match entered.alone {
            true => recovery::recover(&directory, identity, known, end, &store)?,
            false => recovery::join(&directory, identity, || entered.control.tail(), &store)?,
        };
        let counters = Arc::new(Counters::open(&directory, identity, Arc::clone(&clock))?);
        let synced = known.durable.unwrap_or_default();
        if entered.alone {
            // A failed sync of an earlier run may have given up pages that are still in memory. The
            // kernel takes them for written. Recovery writes them again, so that a sync writes them
            // out.
            found.segments.live.iter().try_for_each(|segment| segment.write_again(synced.next()))?;
        }
        let unsynced: Vec<_> =
            found.segments.live.iter().filter(|segment| segment.index().end() > synced.next()).cloned().collect();
        let sealer = Arc::new(Sealer::default());
        let control = Arc::new(entered.control);
        let shared = Arc::new(LogCore {
            identity,
            preparer: Preparer::new(
                spare,
                settings.segment_bytes,
                settings.durability,
                background,
                Arc::clone(&counters),
            ),
            syncer: Syncer::new(settings.durability, Position::ZERO, Arc::clone(&counters), Arc::clone(&sealer)),
            gate: Gate::new(GateKind::of(&settings), Arc::clone(&control)),
            newest: NewestSegments::new(found.segments),
            counters,
            sealing: Mutex::default(),
            sealer,
            scrub: Scrub::default(),
            rounds: HoldRounds::default(),
            background,
            store,
            lacks_segment: AtomicBool::new(false),
            listener: ProcessListener::default(),
            duties: OnceLock::new(),
            directory,
            control,
            settings,
            clock: SteadyClock::new(clock, found.time),
        });
        // The last record may be in a sealed segment, whose index does not name terms.
        let mark = shared.with_term(found.mark);
        let active = match found.active {
            Some(active) => {
                let sealed = unsynced.into_iter().filter(|segment| !Arc::ptr_eq(segment, &active.segment));
                sealed.for_each(|segment| shared.syncer.begin_segment(segment));
                shared.syncer.begin_segment(Arc::clone(&active.segment));
                if entered.alone {
                    shared.prepare_next(shared.clock.now());
                }
                active
            }
            None => {
                shared.preparer.make_first(&shared.directory)?;
                shared.begin_segment(mark, shared.clock.now())?
            }
        };
        shared.syncer.appended(mark.position);
        if entered.alone {
            shared.begin_alone(known.durable, mark.position, &active)?;
        } else {
            drop(shared.publish_followed(mark.position));
        }
        let log = Log { threads: Arc::new(LogThreads::start(Arc::clone(&shared), background)?) };
        let mut writer = Writer::new(log.clone(), active, found.sequences, mark, found.time);
        // Other processes may have appended meanwhile. Following keeps a checkpoint that another
        // process has just taken from being ahead.
        while writer.follow()?.is_some() {}
        drop(writer.publish_followed());
        let CheckpointSearch { checkpoint, useless } =
            checkpoint::newest(&shared.directory, Position::MAX, |mark| shared.holds(mark))?;
        // Useless checkpoints would count among those that are kept. While a compacted log has no
        // other checkpoint, a repair can use them.
        if entered.alone && (checkpoint.is_some() || shared.compacted_end() == Position::ZERO) {
            useless.iter().try_for_each(|name| shared.directory.remove(name))?;
        }
        if entered.alone {
            let checkpoint = checkpoint.as_ref().map_or(Position::ZERO, |checkpoint| checkpoint.mark.position);
            drop(shared.gate.opened(mark.position, checkpoint));
            // Commit point: a process that does not find this mark knows that its recovery was cut
            // off.
            log.shared().control().allow_joining(entered.durability);
        }
        assert!(shared.gate.position() <= shared.syncer.last_appended(), "published records are applied here");
        shared.sealer.begin();
        // From here on another process may open the log, too.
        drop(entered.opening_lock);
        Ok(OpenedLog { log, writer, recovery: found.report, checkpoint })
    }
}

impl LogCore {
    /// Makes the recovered state the base of every process: first durable, and then in the control
    /// file.
    fn begin_alone(&self, synced: Option<Position>, position: Position, active: &Active) -> Result<()> {
        assert!(active.segment.first <= position.next(), "the active segment takes the next record");
        self.control.set_tail(position);
        self.control.set_active(active.segment.first);
        self.control.set_durable(synced.unwrap_or_default().min(position));
        self.sync_to(position)?;
        self.control.set_durable(position);
        // If the power fails after this sync, it is known that no later record had to be there.
        self.control.sync().map_err(|error| Error::io("sync", self.directory.path(), error))?;
        self.directory.sync()?;
        Ok(())
    }
}
