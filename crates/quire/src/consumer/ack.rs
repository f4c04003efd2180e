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
