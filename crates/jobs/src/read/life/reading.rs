//! A reading of life-cycle events: of some queues or all, filtered, from a cursor on, in bounded
//! parts.
//!
//! Queues are walked along their tags, several of them in the order of the log: every queue that
//! has, or had, one of the names. A part reads no further than the queues were looked up.

use alloc::string::String;
use alloc::vec::Vec;

use quire_model::{History, Place, Position, ReadError};

use super::event::{LifeEvent, told};
use crate::codec::queue_tag;
use crate::id::QueueId;
use crate::name::check_queue_name;
use crate::read::chain::JobEvent;
use crate::read::names::{QueueNames, queues_named};
use crate::read::walk::TagWalk;
use crate::{Cursor, JobId, Refusal};

/// The most entries of the log that one part scans.
const LOOKED_AT_MAX: usize = 10_000;

/// A filter of life-cycle events. An event matches when it fits one item of each list that is not
/// empty, and all of the tags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LifeFilter {
    /// In these queues, and those that had their names before.
    pub queues: Vec<String>,
    /// The jobs.
    pub jobs: Vec<JobId>,
    /// The kinds of the jobs.
    pub kinds: Vec<String>,
    /// The tags that each job carries.
    pub tags: Vec<String>,
    /// The events.
    pub events: Vec<JobEvent>,
}

/// The state of a reading. See [`LifeReading::read`].
#[derive(Debug)]
pub struct LifeReading {
    filter: LifeFilter,
    /// The queues that have, or had, the filter's names: those that were created before
    /// `looked_up`.
    followed: Vec<QueueId>,
    looked_up: Place,
    names: QueueNames,
    after: Cursor,
}

/// The result of one part of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifeProgress {
    /// The number of returned events.
    pub events: usize,
    /// Whether there was nothing more.
    pub is_caught_up: bool,
}

impl LifeFilter {
    fn wants(&self, event: JobEvent, job: Option<JobId>) -> bool {
        (self.events.is_empty() || self.events.contains(&event))
            && (self.jobs.is_empty() || job.is_some_and(|job| self.jobs.contains(&job)))
    }

    fn fits(&self, kind: &str, tags: &[&str]) -> bool {
        (self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind))
            && self.tags.iter().all(|wanted| tags.contains(&wanted.as_str()))
    }
}

impl LifeReading {
    /// A reading from `after` on: [`Cursor::START`], [`Cursor::behind`] a position, or the end of
    /// an earlier reading.
    ///
    /// # Errors
    /// [`Refusal::InvalidName`] of a queue.
    pub fn new(filter: LifeFilter, after: Cursor) -> Result<Self, Refusal> {
        filter.queues.iter().try_for_each(|queue| check_queue_name(queue))?;
        Ok(LifeReading { filter, followed: Vec::new(), looked_up: Place::START, names: QueueNames::default(), after })
    }

    /// The cursor after the last event read: a new reading that begins there continues with the
    /// next event.
    pub fn after(&self) -> Cursor {
        self.after
    }

    /// The entries to read, with the queues of the filter's names that existed up to a position.
    fn walk<'h>(&mut self, history: &'h dyn History, up_to: Position) -> Result<TagWalk<'h>, ReadError> {
        let before = Cursor::behind(up_to).place.max(self.looked_up);
        for name in &self.filter.queues {
            for queue in queues_named(history, name, self.looked_up, before)? {
                if !self.followed.contains(&queue) {
                    self.followed.push(queue);
                }
            }
        }
        self.looked_up = before;
        let lists = match self.filter.queues.is_empty() {
            true => Vec::from([Vec::new()]),
            false => self.followed.iter().map(|queue| Vec::from([queue_tag(*queue)])).collect(),
        };
        TagWalk::begin(history, lists, self.after.place)
    }

    /// Reads up to a position: at most `events_max` events. The event whose text and data reach
    /// `bytes` is the last.
    ///
    /// # Errors
    /// When an entry cannot be read. Events before it were visited.
    pub fn read(
        &mut self,
        history: &dyn History,
        up_to: Position,
        events_max: usize,
        bytes: usize,
        mut visit: impl FnMut(LifeEvent),
    ) -> Result<LifeProgress, ReadError> {
        let mut walk = self.walk(history, up_to)?;
        let end = Place::new(up_to, u32::MAX);
        let (mut given, mut given_bytes, mut looked_at) = (0, 0, 0);
        while given < events_max && given_bytes < bytes && looked_at < LOOKED_AT_MAX {
            let Some(entry) = walk.next(end)? else {
                self.after = self.after.max(Cursor::behind(up_to));
                return Ok(LifeProgress { events: given, is_caught_up: true });
            };
            looked_at += 1;
            let skip = if entry.place == self.after.place { self.after.items } else { 0 };
            for told in told(&entry, skip, |event, job| self.filter.wants(event, job))? {
                let after = told.after;
                let fits = |kind: &str, tags: &[&str]| self.filter.fits(kind, tags);
                if let Some(event) = told.whole(history, &mut self.names, &entry, fits)? {
                    given += 1;
                    given_bytes += event.data.len() + event.step.note.len();
                    visit(event);
                }
                self.after = after;
                if given == events_max || given_bytes >= bytes {
                    return Ok(LifeProgress { events: given, is_caught_up: false });
                }
            }
            self.after = Cursor { place: entry.place.after(), items: 0 };
        }
        Ok(LifeProgress { events: given, is_caught_up: false })
    }
}
