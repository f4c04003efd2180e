//! Reading: the next records of the partitions, which take turns, now or once there are any.

use std::ops::ControlFlow;
use std::time::Duration;

use quire_model::Sequence;

use super::{Consumer, Delivery};
use crate::handles::unreadable;
use crate::streams::{self, PartitionOffsets};
use crate::{Error, ErrorKind, Result};

impl Consumer {
    /// The next records of a partition that has any, taking turns; nothing is noted of them yet.
    /// `None` when there are none.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a batch that can't be read; [`ErrorKind::Damaged`],
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
            let mut next = share.next;
            loop {
                self.fetch(&mut delivery, next)?;
                // What is left of a compacted batch may all lie before where it was to be read
                // from.
                let has_come_on = std::mem::replace(&mut next, delivery.next) < delivery.next;
                if !delivery.is_empty() || !has_come_on {
                    break;
                }
            }
            self.partitions[turn].next = next;
            if !delivery.is_empty() {
                // Whoever had a turn is last.
                self.partitions.rotate_left(turn + 1);
                return Ok(Some(delivery));
            }
            self.spare = Some(delivery);
        }
        Ok(None)
    }

    /// Fills a delivery, from an offset on or from where there is anything still.
    fn fetch(&self, delivery: &mut Delivery, from: Sequence) -> Result<()> {
        match self.fetch_from(delivery, from) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let PartitionOffsets { start, next } = self.database.topic(&self.topic).offsets(delivery.partition)?;
                delivery.lost = start.get().saturating_sub(from.get());
                let from = if from < start && self.settings.from_start { start } else { next };
                self.fetch_from(delivery, from)
            }
            fetched => fetched,
        }
    }

    fn fetch_from(&self, delivery: &mut Delivery, from: Sequence) -> Result<()> {
        delivery.next = from;
        let (partition, records_max) = (delivery.partition, self.settings.records_max);
        let found = self.database.read_published(|view| {
            let topic = view.streams.topic_named(&self.topic)?;
            Some(view.streams.partition(topic.id, partition))
        })?;
        let found = found
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("unknown topic {:?}", self.topic)))?
            .map_err(unreadable)?;
        let history = self.database.history();
        let mut problem = None;
        let visit = &mut |stored: streams::Stored<'_>| match delivery.add(&stored, from, records_max) {
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

    /// Waits up to `at_most` for the next records. Nothing runs meanwhile.
    ///
    /// # Errors
    /// As [`Consumer::poll`].
    pub fn wait(&mut self, at_most: Duration) -> Result<Option<Delivery>> {
        let until = self.database.clock().now().as_micros().saturating_add(at_most.as_micros() as u64);
        loop {
            // Taken before the look, so that what is published during it wakes us.
            let seen = self.database.published();
            if let Some(delivery) = self.poll()? {
                return Ok(Some(delivery));
            }
            // A partition that came while this consumer is there is read whole.
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
