//! Consumers: a group's reader of a topic. A consumer hands batches of records to a handler and
//! commits the group's offsets.
//!
//! ```text
//! fetch ──▶ handler ──┬─ success ──▶ one commit: offsets and the handler's writes
//!   ▲                 └─ failure ──▶ retried after growing waits
//!   │                                ──▶ dead-letter topic, or an error
//!   └── no records: waits until the next publication, without polling
//! ```
//!
//! Members of a group share the partitions by number, or by leases: see [`PartitionSharing`].
//!
//! A consumer hands out each record at least once. The writes that a handler adds to its [`Commit`]
//! happen exactly once: they are committed together with the offset, or not at all. The commit is
//! refused when the partition has moved to another member.

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

use quire_model::{Operation, Resource, ResourceKind, Sequence};

pub use delivery::{DeliveredRecord, Delivery};
pub use seek::Lag;
pub use settings::{ConsumerSettings, Lease, PartitionSharing};
#[cfg(feature = "tokio")]
pub use stream::DeliveryStream;

use crate::database::Database;
use crate::stopper::Stopper;
use crate::streams::{OwnedPartition, OwnerEpoch};
use crate::{Error, ErrorKind, ReadView, Result};
use member::LeasedMember;

/// Reads a topic for a group. See [`Topic::consumer`](crate::Topic::consumer).
///
/// ```
/// use quire::{Commit, ConsumerSettings, Message};
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// let topic = db.topic("orders");
/// for order in 1..=3 {
///     topic.produce(Message::new(format!("order {order}")))?;
/// }
/// let mut consumer = topic.consumer("billing", ConsumerSettings::default())?;
/// while let Some(delivery) = consumer.poll()? {
///     let mut commit = Commit::new();
///     for record in delivery.records() {
///         commit = commit.produce("invoices", Message::new(format!("invoice for offset {}", record.offset)));
///     }
///     // The invoices and the offset are one commit: both happen, or neither.
///     consumer.ack_in(commit, &delivery)?;
/// }
/// assert_eq!(db.topic("invoices").offsets(0)?.next.get(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Consumer {
    database: Database,
    topic: Arc<str>,
    group: Arc<str>,
    settings: ConsumerSettings,
    /// The partitions that the consumer reads, and its offset in each.
    partitions: Vec<Share>,
    /// The consumer's membership, when it shares by leases.
    member: Option<LeasedMember>,
    /// A delivery whose buffers the next delivery reuses.
    spare: Option<Delivery>,
    stopper: Stopper,
    on_error: OnDeliveryError,
}

/// A function of a delivery, the error of its handler, and the number of failures.
type OnDeliveryError = Option<Box<dyn Fn(&Delivery, &str, u32) + Send + Sync>>;

/// A partition that the consumer reads.
#[derive(Debug, Clone, Copy)]
struct Share {
    partition: u32,
    /// The owner epoch under which a member by lease reads the partition.
    epoch: OwnerEpoch,
    next: Sequence,
    /// The deleted records before `next` that no delivery has reported.
    lost: u64,
    is_paused: bool,
}

impl Share {
    fn owned(&self) -> OwnedPartition {
        OwnedPartition { partition: self.partition, epoch: self.epoch }
    }
}

impl Consumer {
    fn resource(&self) -> Resource<'_> {
        Resource::new(ResourceKind::Topic, &self.topic)
    }

    pub(crate) fn new(database: &Database, topic: &str, group: &str, settings: ConsumerSettings) -> Result<Self> {
        settings.check()?;
        let resource = Resource::new(ResourceKind::Topic, topic);
        let look = |view: &ReadView<'_>| view.streams.topic_named(topic).is_none();
        if database.read_published_for(resource, Operation::Read, look)? {
            return Err(Error::new(ErrorKind::NotFound, format!("unknown topic {topic:?}")));
        }
        let member = match &settings.sharing {
            PartitionSharing::Fixed { .. } => None,
            PartitionSharing::Lease(lease) => Some(LeasedMember::join(database, group, topic, lease)?),
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
            stopper: Stopper::default(),
            on_error: None,
        };
        match consumer.member {
            None => drop(consumer.look_for_partitions(from_start)?),
            Some(_) => consumer.look_at_share()?,
        }
        Ok(consumer)
    }

    /// Returns the handle that stops [`Consumer::run`], [`Consumer::process`] and their
    /// asynchronous forms.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Sets a function that [`Consumer::run`] calls for each failure of its handler. Its
    /// arguments are the delivery, the error, and the number of failures of this delivery. A
    /// refused commit counts as a failure.
    pub fn on_error(&mut self, report: impl Fn(&Delivery, &str, u32) + Send + Sync + 'static) {
        self.on_error = Some(Box::new(report));
    }

    /// Returns the partitions that the consumer reads now, in order.
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
