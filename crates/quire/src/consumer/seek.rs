//! Seeking, pausing a partition, and the lag.

use quire_model::Sequence;

use super::Consumer;
use crate::Result;

/// How far a group is behind in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// The partition.
    pub partition: u32,
    /// The offset of the record that is read next.
    pub next: Sequence,
    /// Where the partition ends.
    pub end: Sequence,
}

impl Lag {
    /// How many records are to be read.
    pub fn records(&self) -> u64 {
        self.end.get().saturating_sub(self.next.get())
    }
}

impl Consumer {
    pub(super) fn go_on(&mut self, partition: u32, next: Sequence) {
        for share in &mut self.partitions {
            if share.partition == partition {
                share.next = next;
            }
        }
    }

    /// Continues a partition at this offset, whether or not a record is there. The group does so
    /// once a later delivery is acknowledged.
    pub fn seek(&mut self, partition: u32, offset: Sequence) {
        self.go_on(partition, offset);
    }

    /// Continues every partition at the first record there is.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged),
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn seek_to_start(&mut self) -> Result<()> {
        self.seek_each(|consumer, partition| consumer.begin(partition, true))
    }

    /// Continues every partition after the last record.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged),
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn seek_to_end(&mut self) -> Result<()> {
        self.seek_each(|consumer, partition| consumer.begin(partition, false))
    }

    /// Continues every partition at the first record that is not earlier than a time, or at the
    /// end.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged),
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn seek_to_time(&mut self, timestamp_ms: i64) -> Result<()> {
        self.seek_each(|consumer, partition| {
            let topic = consumer.database.topic(&consumer.topic);
            match topic.offset_at_time(partition, timestamp_ms)? {
                Some(found) => Ok(found.offset),
                None => Ok(topic.offsets(partition)?.next),
            }
        })
    }

    fn seek_each(&mut self, find: impl Fn(&Self, u32) -> Result<Sequence>) -> Result<()> {
        for index in 0..self.partitions.len() {
            self.partitions[index].next = find(self, self.partitions[index].partition)?;
        }
        Ok(())
    }

    /// Hands out nothing of a partition until it is resumed.
    pub fn pause(&mut self, partition: u32, is_paused: bool) {
        for share in &mut self.partitions {
            if share.partition == partition {
                share.is_paused = is_paused;
            }
        }
    }

    /// How far this consumer is behind, in each of its partitions.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged),
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn lag(&self) -> Result<Vec<Lag>> {
        let lag = self.partitions.iter().map(|share| {
            let end = self.database.topic(&self.topic).offsets(share.partition)?.next;
            Ok(Lag { partition: share.partition, next: share.next, end })
        });
        let mut lag = lag.collect::<Result<Vec<_>>>()?;
        lag.sort_unstable_by_key(|lag| lag.partition);
        Ok(lag)
    }
}
