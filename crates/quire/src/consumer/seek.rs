//! Seeking, pausing a partition, and the lag.

use std::time::SystemTime;

use quire_model::Sequence;

use super::Consumer;
use crate::Result;

/// The lag of a group in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// The partition.
    pub partition: u32,
    /// The offset of the record that the group reads next.
    pub next: Sequence,
    /// The end of the partition.
    pub end: Sequence,
}

impl Lag {
    /// Returns the number of unread records.
    pub fn records(&self) -> u64 {
        self.end.get().saturating_sub(self.next.get())
    }
}

impl Consumer {
    pub(super) fn go_on(&mut self, partition: u32, next: Sequence) {
        for share in &mut self.partitions {
            if share.partition == partition {
                (share.next, share.lost) = (next, 0);
            }
        }
    }

    /// Continues a partition at `offset`, even if no record has that offset. The group moves there
    /// when a later delivery is acknowledged.
    pub fn seek(&mut self, partition: u32, offset: Sequence) {
        self.go_on(partition, offset);
    }

    /// Continues every partition at its first record.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged),
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn seek_to_start(&mut self) -> Result<()> {
        self.seek_each(|consumer, partition| consumer.begin(partition, true))
    }

    /// Continues every partition after its last record.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged),
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn seek_to_end(&mut self) -> Result<()> {
        self.seek_each(|consumer, partition| consumer.begin(partition, false))
    }

    /// Continues every partition at its first record with this time or a later one. Without such a
    /// record, the partition continues at its end.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use quire::{ConsumerSettings, Message};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let topic = db.topic("orders");
    /// let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
    /// for (order, time) in [(16, an_hour_ago), (17, SystemTime::now())] {
    ///     topic.produce(Message::new(format!("order {order}")).time(time))?;
    /// }
    /// let mut consumer = topic.consumer("billing", ConsumerSettings::default())?;
    /// consumer.seek_to_time(SystemTime::now() - Duration::from_secs(60))?;
    /// assert_eq!(consumer.lag()?[0].records(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged),
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn seek_to_time(&mut self, time: SystemTime) -> Result<()> {
        self.seek_each(|consumer, partition| {
            let topic = consumer.database.topic(&consumer.topic);
            match topic.offset_at_time(partition, time)? {
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

    /// Pauses a partition, or resumes it. The consumer hands out no records of a paused partition.
    pub fn pause(&mut self, partition: u32, is_paused: bool) {
        for share in &mut self.partitions {
            if share.partition == partition {
                share.is_paused = is_paused;
            }
        }
    }

    /// Returns this consumer's lag in each of its partitions.
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
