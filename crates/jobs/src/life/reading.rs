//! A reading of life-cycle events: of some queues or all, filtered, from a cursor on, a bounded part at a time.
//!
//! Queues are walked along their tags, several of them in the order of the log. A queue that is created later, or again under its
//! name, is followed from then on: so a part reads no further than the log went when the queues were looked up.

use alloc::string::String;
use alloc::vec::Vec;

use quire_model::{Entry, History, Place, Position, ReadError};

use super::event::{LifeEvent, Names, told};
use crate::codec::queue_tag;
use crate::cursor::Cursor;
use crate::history::Event;
use crate::name::check_queue_name;
use crate::queue::QueueId;
use crate::state::Jobs;
use crate::{JobId, Refusal};

/// How many entries of the log one part looks at.
const LOOKED_AT_MAX: usize = 10_000;

/// Which life-cycle events. Of each list that is not empty, one has to fit; of the tags all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LifeFilter {
    /// In these queues.
    pub queues: Vec<String>,
    /// Of these jobs.
    pub jobs: Vec<JobId>,
    /// Of jobs of these kinds.
    pub kinds: Vec<String>,
    /// Of jobs with all of these tags.
    pub tags: Vec<String>,
    /// Of these events.
    pub events: Vec<Event>,
}

/// Where a reading is. See [`LifeReading::read`].
#[derive(Debug)]
pub struct LifeReading {
    filter: LifeFilter,
    /// The queues that are, or were, under the filter's names.
    followed: Vec<QueueId>,
    names: Names,
    after: Cursor,
}

/// What a part of a reading came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifeProgress {
    /// How many events it gave.
    pub events: usize,
    /// Whether there was nothing more.
    pub is_caught_up: bool,
}

impl LifeFilter {
    fn wants(&self, event: Event, job: Option<JobId>) -> bool {
        (self.events.is_empty() || self.events.contains(&event))
            && (self.jobs.is_empty() || job.is_some_and(|job| self.jobs.contains(&job)))
    }

    fn fits(&self, kind: &str, tags: &[&str]) -> bool {
        (self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind))
            && self.tags.iter().all(|wanted| tags.contains(&wanted.as_str()))
    }
}

impl LifeReading {
    /// A reading from `after` on: [`Cursor::START`], [`Cursor::behind`] a position, or where an earlier one was.
    ///
    /// # Errors
    /// [`Refusal::InvalidName`] of a queue.
    pub fn new(filter: LifeFilter, after: Cursor) -> Result<Self, Refusal> {
        filter.queues.iter().try_for_each(|queue| check_queue_name(queue))?;
        Ok(LifeReading { filter, followed: Vec::new(), names: Names::default(), after })
    }

    /// Up to where it has read: a reading that begins there goes on with the next event.
    pub fn after(&self) -> Cursor {
        self.after
    }

    /// Takes in which queues there are.
    pub fn follow(&mut self, jobs: &Jobs) {
        for queue in self.filter.queues.iter().filter_map(|name| jobs.queue_ids.get(name.as_str())) {
            if !self.followed.contains(queue) {
                self.followed.push(*queue);
            }
        }
    }

    /// Reads on, as far as the log went when [`LifeReading::follow`] was called: `up_to` is a position of then. Gives at most so many
    /// events, and ends with the one that takes their text and data to so many bytes.
    ///
    /// # Errors
    /// When an entry can't be read; what was given is given.
    pub fn read(
        &mut self,
        history: &dyn History,
        up_to: Position,
        events_max: usize,
        bytes: usize,
        mut visit: impl FnMut(LifeEvent),
    ) -> Result<LifeProgress, ReadError> {
        let mut walk = Walk::begin(self, history, up_to)?;
        let (mut given, mut given_bytes, mut looked_at) = (0, 0, 0);
        while given < events_max && given_bytes < bytes && looked_at < LOOKED_AT_MAX {
            let Some(entry) = walk.next()? else {
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

/// The entries under the tags of some queues, or all entries, in the order of the log.
struct Walk<'h> {
    history: &'h dyn History,
    up_to: Position,
    /// `None`: all entries.
    heads: Option<Vec<(QueueId, Option<Entry<'h>>)>>,
    from: Place,
}

impl<'h> Walk<'h> {
    fn begin(reading: &LifeReading, history: &'h dyn History, up_to: Position) -> Result<Self, ReadError> {
        let from = reading.after.place;
        let head = |queue: &QueueId| Ok((*queue, history.next(&[queue_tag(*queue).tag()], from)?));
        let heads = match reading.filter.queues.is_empty() {
            true => None,
            false => Some(reading.followed.iter().map(head).collect::<Result<_, ReadError>>()?),
        };
        Ok(Walk { history, up_to, heads, from })
    }

    fn next(&mut self) -> Result<Option<Entry<'h>>, ReadError> {
        let next = match &mut self.heads {
            None => self.history.next(&[], self.from)?,
            Some(heads) => {
                let first = heads.iter_mut().filter(|(_, head)| head.is_some());
                match first.min_by_key(|(_, head)| head.map(|entry| entry.place)) {
                    None => None,
                    Some((queue, head)) => {
                        let entry = *head;
                        if let Some(entry) = entry.filter(|entry| entry.place.position <= self.up_to) {
                            *head = self.history.next(&[queue_tag(*queue).tag()], entry.place.after())?;
                        }
                        entry
                    }
                }
            }
        };
        let next = next.filter(|entry| entry.place.position <= self.up_to);
        if let Some(entry) = &next {
            self.from = entry.place.after();
        }
        Ok(next)
    }
}
