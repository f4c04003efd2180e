//! The gate: the one component that moves the published position. So the gate decides when readers
//! see a record and when its commit is answered.
//!
//! ```text
//! append ─▶ appended ─┐
//! sync   ─▶ synced   ─┼─▶ Gate ─▶ PublishedMark ─▶ readers, tickets, pollers
//! owner  ─▶ publish  ─┘
//! ```
//! Appends and syncs only report to the gate. The [`GateKind`] decides which report moves the
//! position:
//!
//! | kind | a record is published |
//! |---|---|
//! | at once | when it is appended (`os`) |
//! | after sync | when a sync covers it (`sync`) |
//! | by owner | when the owner of the log says so, for example after a majority has it |
//!
//! The published position never falls within an opening. Records at or below it are never
//! truncated.

mod published;

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError};

use quire_model::Position;
use quire_threads::{Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::mark::Mark;
use crate::processes::control::Control;
use crate::settings::{Durability, Publisher, Settings};

pub(crate) use published::{PublishedMark, WaitTarget};
pub use published::{WaitOutcome, Woken};

/// Which report publishes a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateKind {
    /// Its append.
    AtOnce,
    /// The sync that covers it.
    AfterSync,
    /// [`Gate::publish`], which the owner of the log calls.
    ByOwner,
}

impl GateKind {
    pub(crate) fn of(settings: &Settings) -> Self {
        match (settings.publisher, settings.durability) {
            (Publisher::Log, Durability::Os) => GateKind::AtOnce,
            (Publisher::Log, Durability::Sync) => GateKind::AfterSync,
            (Publisher::Owner, _) => GateKind::ByOwner,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Gate {
    kind: GateKind,
    published: PublishedMark,
    control: Arc<Control>,
    /// The owner holds this lock while it publishes, and the writer while it truncates. So no
    /// record is published while it is being truncated.
    moving: Mutex<()>,
    /// Learns of appends and syncs, where the owner publishes.
    watcher: OnceLock<Arc<dyn LogWatcher>>,
}

/// Learns of the progress of a log with [`Publisher::Owner`], whose owner publishes.
pub trait LogWatcher: fmt::Debug + Send + Sync {
    /// Notes that a record was appended, or that a sync has ended. Called by the thread that did
    /// it, under locks of the log and of its user: it must return at once, and call nothing of
    /// them.
    fn moved(&self);
}

/// A truncation that may begin: nothing is published while this lives.
#[derive(Debug)]
#[must_use]
pub(crate) struct Truncation<'g> {
    published: &'g PublishedMark,
    kept: Position,
    _moving: MutexGuard<'g, ()>,
}

impl Gate {
    /// The gate of a log that has published nothing yet.
    pub(crate) fn new(kind: GateKind, control: Arc<Control>) -> Self {
        Gate {
            kind,
            published: PublishedMark::new(Position::ZERO, Arc::clone(&control)),
            control,
            moving: Mutex::default(),
            watcher: OnceLock::new(),
        }
    }

    pub(crate) fn kind(&self) -> GateKind {
        self.kind
    }

    /// The published position, its waiters and the era.
    #[inline]
    pub(crate) fn published(&self) -> &PublishedMark {
        &self.published
    }

    /// The published position.
    pub(crate) fn position(&self) -> Position {
        self.published.position()
    }

    /// Notes that the log was opened up to `tail`, all of which is durable. Its newest checkpoint
    /// was taken after `checkpoint`.
    pub(crate) fn opened(&self, tail: Position, checkpoint: Position) -> Woken {
        debug_assert!(checkpoint <= tail, "a checkpoint belongs to a record of the log");
        match self.kind {
            GateKind::AtOnce | GateKind::AfterSync => self.published.publish_at_least(tail),
            // The records of a checkpoint were published before the checkpoint was saved. For later
            // records this is unknown.
            GateKind::ByOwner => {
                self.control.set_published(checkpoint);
                self.published.publish_at_least(checkpoint)
            }
        }
    }

    /// Notes that the writer appended a record, whose bytes are in place.
    #[inline]
    pub(crate) fn appended(&self, position: Position) -> Woken {
        if self.kind != GateKind::AtOnce {
            if self.kind == GateKind::ByOwner {
                self.report();
            }
            return Woken::default();
        }
        debug_assert!(cfg!(loom) || self.control.tail() >= position, "the tail moves before its record is published");
        let woken = self.published.publish(position);
        debug_assert!(cfg!(loom) || self.position() == position, "only the writer publishes at once");
        self.control.wake_others();
        woken
    }

    /// Notes that this process applied records of other processes up to `position`.
    pub(crate) fn followed(&self, position: Position) -> Woken {
        debug_assert!(cfg!(loom) || position <= self.control.tail(), "followed records are appended");
        if self.kind == GateKind::AtOnce { self.published.publish(position) } else { Woken::default() }
    }

    /// Notes that a sync of this process covers every record up to `position`.
    pub(crate) fn synced(&self, position: Position) -> Woken {
        if self.kind != GateKind::AfterSync {
            return Woken::default();
        }
        debug_assert!(cfg!(loom) || self.control.durable() >= Some(position), "the control file shows the sync first");
        let woken = self.published.publish_at_least(position);
        self.control.wake_others();
        woken
    }

    /// Notes that a sync of another process covers every record up to `position`. This process has
    /// applied all of these records.
    pub(crate) fn synced_elsewhere(&self, position: Position) -> Woken {
        if self.kind == GateKind::AfterSync { self.published.publish_at_least(position) } else { Woken::default() }
    }

    /// Publishes every record up to `mark`, for the owner of the log. `holds` returns whether the
    /// log holds the record.
    ///
    /// # Errors
    /// [`Error::UnknownMark`] when it does not.
    ///
    /// # Panics
    /// When the log publishes its records itself.
    pub(crate) fn publish(&self, mark: Mark, holds: impl FnOnce(Mark) -> bool) -> Result<Woken> {
        assert_eq!(self.kind, GateKind::ByOwner, "only a log with Publisher::Owner is published by its owner");
        let _moving = self.lock();
        if mark.position <= self.position() {
            return Ok(Woken::default());
        }
        if !holds(mark) {
            return Err(Error::UnknownMark { mark });
        }
        self.control.set_published(mark.position);
        let woken = self.published.publish_at_least(mark.position);
        self.control.wake_others();
        Ok(woken)
    }

    /// Begins to truncate the log after the record at `kept`. The caller makes sure that no sync
    /// runs until the truncation has ended.
    ///
    /// # Errors
    /// [`Error::Published`] when a later record is published.
    pub(crate) fn begin_truncation(&self, kept: Position) -> Result<Truncation<'_>> {
        let moving = self.lock();
        let published = self.position();
        if kept < published {
            return Err(Error::Published { kept, published });
        }
        Ok(Truncation { published: &self.published, kept, _moving: moving })
    }

    /// Reports to the watcher from now on, if there is none yet.
    pub(crate) fn watch(&self, watcher: Arc<dyn LogWatcher>) {
        let _ = self.watcher.set(watcher);
    }

    /// Notes that the durable mark shows a sync.
    pub(crate) fn durable_moved(&self) {
        if self.kind == GateKind::ByOwner {
            self.report();
        }
    }

    fn report(&self) {
        if let Some(watcher) = self.watcher.get() {
            watcher.moved();
        }
    }

    /// Ends every waiter for an appended record that is not published. The records stay.
    pub(crate) fn end_waiters(&self) -> Woken {
        assert_eq!(self.kind, GateKind::ByOwner, "a log that publishes by itself has an answer for each waiter");
        let _moving = self.lock();
        self.published.truncate(self.position())
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Truncation<'_> {
    /// Begins the next era. Every waiter for a record above the kept records ends with
    /// [`Error::Unsettled`].
    pub(crate) fn end_waiters(&self) -> Woken {
        self.published.truncate(self.kept)
    }
}
