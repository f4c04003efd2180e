//! Consumers: a group's reader of a topic, which hands batches of records to a handler and notes
//! how far it came.
//!
//! ```text
//! fetch ──▶ handler ──┬─ took them ──▶ offsets committed, in one commit with what the handler wants to be written
//!   ▲                 └─ failed ──▶ tried again, later each time ──▶ at last: to the dead-letter topic, or an error
//!   └── nothing there: waits until something is published, without looking again and again
//! ```
//!
//! Members of a group share the partitions by number, or by leases: see [`Sharing`].
//!
//! Records are handed out at least once. What a handler puts into the [`Commit`] that it is given
//! happens exactly once: it is committed together with the offset, or not at all, and refused when
//! the partition is another member's by then.

mod settings;

mod member;
mod share;

mod delivery;
mod poll;

mod ack;
mod process;
mod seek;
#[cfg(feature = "tokio")]
mod stream;

use std::fmt;
use std::sync::Arc;

use quire_model::Sequence;

pub use delivery::{Delivery, RecordView};
pub use seek::Lag;
pub use settings::{ConsumerSettings, Lease, Sharing};
#[cfg(feature = "tokio")]
pub use stream::DeliveryStream;

use crate::database::Database;
use crate::streams::{Owned, OwnerEpoch};
use crate::{Error, ErrorKind, Result};
use member::Member;

/// Reads a topic for a group. See [`Topic::consumer`](crate::Topic::consumer).
pub struct Consumer {
    database: Database,
    topic: Arc<str>,
    group: Arc<str>,
    settings: ConsumerSettings,
    /// The partitions that it reads, and how far it has.
    partitions: Vec<Share>,
    /// Its membership, when it shares by leases.
    member: Option<Member>,
    /// Whose buffers serve the next delivery.
    spare: Option<Delivery>,
    on_error: OnError,
}

/// A function of a delivery, the error of its handler, and the number of failures.
type OnError = Option<Box<dyn Fn(&Delivery, &str, u32) + Send + Sync>>;

/// A partition that is read.
#[derive(Debug, Clone, Copy)]
struct Share {
    partition: u32,
    /// Which reading of it this is, by a member by lease.
    epoch: OwnerEpoch,
    next: Sequence,
    is_paused: bool,
}

impl Share {
    fn owned(&self) -> Owned {
        Owned { partition: self.partition, epoch: self.epoch }
    }
}

impl Consumer {
    pub(crate) fn new(database: &Database, topic: &str, group: &str, settings: ConsumerSettings) -> Result<Self> {
        settings.check()?;
        if database.read_published(|view| view.streams.topic_named(topic).is_none())? {
            return Err(Error::new(ErrorKind::NotFound, format!("unknown topic {topic:?}")));
        }
        let member = match &settings.sharing {
            Sharing::Fixed { .. } => None,
            Sharing::Lease(lease) => Some(Member::join(database, group, topic, lease)?),
        };
        let from_start = settings.from_start;
        let mut consumer = Consumer {
            database: database.clone(),
            topic: topic.into(),
            group: group.into(),
            settings,
            partitions: Vec::new(),
            member,
            spare: None,
            on_error: None,
        };
        match consumer.member {
            None => drop(consumer.look_for_partitions(from_start)?),
            Some(_) => consumer.look_at_share()?,
        }
        Ok(consumer)
    }

    /// Sets a function that [`Consumer::process`] calls for each failure of its handler, with the
    /// delivery, the error, and the number of failures of this delivery. A refused commit is such a
    /// failure.
    pub fn on_error(&mut self, report: impl Fn(&Delivery, &str, u32) + Send + Sync + 'static) {
        self.on_error = Some(Box::new(report));
    }

    /// The partitions that it reads now, in order.
    pub fn partitions(&self) -> Vec<u32> {
        let mut partitions: Vec<u32> = self.partitions.iter().map(|share| share.partition).collect();
        partitions.sort_unstable();
        partitions
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("topic", &self.topic)
            .field("group", &self.group)
            .field("settings", &self.settings)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}
