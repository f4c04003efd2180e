//! Reading: the next records of the partitions, which take turns. A call returns at once or waits
//! for records.

use std::ops::ControlFlow;
use std::time::Duration;

use quire_model::{Operation, Sequence};

use super::{Consumer, Delivery};
use crate::handles::unreadable;
use crate::streams;
use crate::{Error, ErrorKind, Result};

impl Consumer {
    /// Returns the next records of a partition that has any, without committing anything.
    /// Partitions take turns. Returns `None` when there are no records.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an unreadable batch; [`ErrorKind::Damaged`],
    /// [`ErrorKind::Failed`].
    pub fn poll(&mut self) -> Result<Option<Delivery>> {
        if let Some(member) = &self.member {
            member.asks(false);
            self.look_at_share()?;
        }
        for turn in 0..self.partitions.len() {
            let share = self.partitions[turn];
            if share.is_paused {
                continue;
            }
            let mut delivery = Delivery::empty(share.partition, self.committer(share.epoch), self.spare.take());
            let (mut next, mut lost) = (share.next, share.lost);
            loop {
                lost += self.fetch(&mut delivery, next)?;
                // After compaction, all records left in a batch may lie before the offset to read
                // from.
                let has_come_on = std::mem::replace(&mut next, delivery.next) < delivery.next;
                if !delivery.is_empty() || !has_come_on {
                    break;
                }
            }
            // Both change together: after an error, the records before `next` are counted again. A
            // later delivery reports them when all records were deleted.
            (self.partitions[turn].next, self.partitions[turn].lost) = (next, lost);
            if !delivery.is_empty() {
                delivery.lost = std::mem::take(&mut self.partitions[turn].lost);
                // The partition that had its turn moves to the end.
                self.partitions.rotate_left(turn + 1);
                return Ok(Some(delivery));
            }
            self.spare = Some(delivery);
        }
        Ok(None)
    }

    /// Fills a delivery from offset `from`, or from the first record still there. Returns the
    /// number of deleted records before that record.
    fn fetch(&self, delivery: &mut Delivery, from: Sequence) -> Result<u64> {
        match self.fetch_from(delivery, from) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let topic = self.database.topic(&self.topic);
                // The start does not depend on the end, which may be unreadable.
                let start = topic.reach(delivery.partition)?.offsets.start;
                let is_before = from < start && self.settings.from_start;
                let resumed = if is_before { start } else { topic.offsets(delivery.partition)?.next };
                self.fetch_from(delivery, resumed)?;
                Ok(start.get().saturating_sub(from.get()))
            }
            fetched => fetched.map(|()| 0),
        }
    }

    fn fetch_from(&self, delivery: &mut Delivery, from: Sequence) -> Result<()> {
        delivery.next = from;
        let (partition, records_max) = (delivery.partition, self.settings.records_max);
        let found = self.database.read_published_for(self.resource(), Operation::Read, |view| {
            let topic = view.streams.topic_named(&self.topic)?;
            Some(view.streams.partition(topic.id, partition))
        })?;
        let found = found
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("unknown topic {:?}", self.topic)))?
            .map_err(unreadable)?;
        let history = self.database.history();
        let mut problem = None;
        let visit = &mut |stored: streams::StoredBatch<'_>| match delivery.add(&stored, from, records_max) {
            Ok(flow) => flow,
            Err(error) => {
                problem = Some(error);
                ControlFlow::Break(())
            }
        };
        found.fetch(&history, from, self.settings.bytes_max, visit).map_err(unreadable)?;
        match problem {
            // Records before an unreadable batch are returned; the next fetch begins at the batch
            // and fails.
            Some(problem) if delivery.is_empty() => Err(problem),
            _ => Ok(()),
        }
    }

    /// Waits up to `at_most` for the next records. The waiting thread uses no processor time.
    ///
    /// # Errors
    /// As [`Consumer::poll`].
    pub fn wait(&mut self, at_most: Duration) -> Result<Option<Delivery>> {
        let until = self.database.clock().now().as_micros().saturating_add(at_most.as_micros() as u64);
        loop {
            // Taken before the poll, so that a publication during the poll ends the wait.
            let seen = self.database.published();
            if let Some(delivery) = self.poll()? {
                return Ok(Some(delivery));
            }
            // A partition created while this consumer runs is read from its start.
            if self.look_for_partitions(true)? {
                continue;
            }
            let left = until.saturating_sub(self.database.clock().now().as_micros());
            if left == 0 {
                return Ok(None);
            }
            if let Some(member) = &self.member {
                member.asks(true);
            }
            let is_there_more = self.database.wait_after(seen, Duration::from_micros(left))?;
            if let Some(member) = &self.member {
                member.asks(false);
            }
            if !is_there_more {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ConsumerSettings;
    use crate::streams::{Command, TopicRef};
    use crate::{Commit, Database, Durability, Message, Part};

    #[test]
    fn records_that_were_all_deleted_are_reported_with_the_next_record() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("opened");
        let topic = database.topic("t");
        for value in ["a", "b"] {
            topic.produce(Message::new(value)).expect("produced");
        }
        let mut consumer = topic.consumer("g", ConsumerSettings::default()).expect("a consumer");
        let delete =
            Command::DeleteRecords { topic: TopicRef::Name("t"), partition: 0, before: None, keep_unread: false };
        database.commit(&Commit::new().part(Part::Streams(delete))).expect("no error").committed().expect("accepted");
        assert_eq!(consumer.poll().expect("no error"), None);
        for (value, lost) in [("c", 2), ("d", 0)] {
            topic.produce(Message::new(value)).expect("produced");
            let delivery = consumer.poll().expect("no error").expect("a delivery");
            assert_eq!((delivery.len(), delivery.lost), (1, lost), "{value}");
        }
    }
}
