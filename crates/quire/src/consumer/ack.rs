//! Committing the offset of the group.

use quire_model::Sequence;

use super::{Consumer, Delivery};
use crate::Part;
use crate::commit::Commit;
use crate::streams::{self, Committer, TopicRef};
use crate::{Error, ErrorKind, Result};

impl Consumer {
    /// Acknowledges a delivery, and waits until the acknowledgement is durable. The group continues
    /// after the delivery.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when the partition has moved to another member. That member receives
    /// these records again. The errors of [`Database::commit`](crate::Database::commit).
    pub fn ack(&self, delivery: &Delivery) -> Result<()> {
        self.ack_in(Commit::new(), delivery)
    }

    /// Acknowledges a delivery in one commit with its results: both happen, or neither.
    ///
    /// # Errors
    /// As [`Consumer::ack`].
    pub fn ack_in(&self, commit: Commit<'_>, delivery: &Delivery) -> Result<()> {
        let commit = commit.part(self.note(delivery.partition, delivery.next, delivery.by));
        self.database.commit(&commit)?.committed().map(|_| ())
    }

    /// Acknowledges the records of a delivery up to offset `last`. The consumer hands out the other
    /// records again.
    ///
    /// ```
    /// use quire::{ConsumerSettings, Message};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let topic = db.topic("orders");
    /// let orders: Vec<_> = (1..=3).map(|order| Message::new(format!("order {order}"))).collect();
    /// topic.producer().produce(&orders)?;
    /// let mut consumer = topic.consumer("billing", ConsumerSettings::default())?;
    /// let delivery = consumer.poll()?.expect("three records");
    /// let first = delivery.records().next().expect("it has a record").offset;
    /// consumer.ack_up_to(&delivery, first)?;
    /// assert_eq!(consumer.poll()?.expect("the other two").len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when `last` is not an offset of the delivery. The errors of
    /// [`Consumer::ack`].
    pub fn ack_up_to(&mut self, delivery: &Delivery, last: Sequence) -> Result<()> {
        if !delivery.records().any(|record| record.offset == last) {
            return Err(Error::new(ErrorKind::Invalid, format!("offset {last} was not delivered")));
        }
        let next = Sequence::new(last.get() + 1);
        let commit = Commit::new().part(self.note(delivery.partition, next, delivery.by));
        self.database.commit(&commit)?.committed()?;
        self.go_on(delivery.partition, next);
        Ok(())
    }

    pub(super) fn note(&self, partition: u32, offset: Sequence, by: Committer) -> Part<'_> {
        Part::Streams(streams::Command::CommitOffset {
            group: &self.group,
            topic: TopicRef::Name(&self.topic),
            partition,
            offset,
            leader_epoch: None,
            metadata: "",
            by,
        })
    }
}
