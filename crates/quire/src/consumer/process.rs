//! The loop around a handler. It commits offsets, retries failures after growing waits, and moves
//! failed deliveries to the dead-letter topic.

use std::ops::ControlFlow;
use std::time::Duration;

use quire_model::{Operation, micros_of};

use super::{Consumer, Delivery};
use crate::commit::{Commit, Message};
use crate::handler_error::HandlerError;
use crate::outcome::Outcome;
use crate::streams::{Committer, OwnedPartition};
use crate::{Error, ErrorKind, Result};

/// How often a consumer without records looks for a stop.
const STOP_LOOK: Duration = Duration::from_secs(1);

impl Consumer {
    /// Hands records to `handle` until the consumer is stopped: see [`Consumer::stopper`].
    ///
    /// The writes that `handle` adds to its commit are committed with the offset, once. A failure
    /// of `handle` and a refused commit are retried as the settings say. When a delivery's
    /// partition has moved to another member, this consumer drops the delivery and leaves it to
    /// that member.
    ///
    /// ```
    /// use quire::events::NewEvent;
    /// use quire::{Commit, ConsumerSettings, Message};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let topic = db.topic("orders");
    /// topic.produce(Message::new("17"))?;
    /// let mut consumer = topic.consumer("mailer", ConsumerSettings::default())?;
    /// let stop = consumer.stopper();
    /// consumer.run(|delivery| {
    ///     stop.stop(); // after this delivery
    ///     let mut commit = Commit::new();
    ///     for record in delivery.records() {
    ///         let order: u32 = std::str::from_utf8(record.value.unwrap_or_default())?.parse()?;
    ///         commit = commit.append("mails", [NewEvent::new("MailSent").tag(format!("order:{order}"))]);
    ///     }
    ///     Ok(commit)
    /// })?;
    /// assert_eq!(db.events("mails").head()?.get(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `handle` at the last try, when there is no dead-letter topic. The errors of
    /// [`Consumer::wait`] and [`Consumer::ack`].
    pub fn run(
        &mut self,
        handle: impl for<'c> FnMut(&'c Delivery) -> std::result::Result<Commit<'c>, HandlerError>,
    ) -> Result<()> {
        self.process(STOP_LOOK, || false, handle)
    }

    /// Hands records to `handle` like [`Consumer::run`], until `stop` returns true or the consumer
    /// is stopped. The consumer calls `stop` before each delivery, and at least every `look` while
    /// there are no records.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use quire::{Commit, ConsumerSettings, Message};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let topic = db.topic("orders");
    /// topic.produce(Message::new("17"))?;
    /// let is_billed = || topic.committed_offset("billing", 0).is_ok_and(|next| next.is_some());
    /// topic.consumer("billing", ConsumerSettings::default())?.process(
    ///     Duration::from_millis(100),
    ///     is_billed,
    ///     |_| Ok(Commit::new()),
    /// )?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Consumer::run`].
    pub fn process(
        &mut self,
        look: Duration,
        mut stop: impl FnMut() -> bool,
        mut handle: impl for<'c> FnMut(&'c Delivery) -> std::result::Result<Commit<'c>, HandlerError>,
    ) -> Result<()> {
        let stopper = self.stopper();
        let mut stop = || stopper.is_requested() || stop();
        while !stop() {
            let Some(delivery) = self.wait(look)? else { continue };
            let mut tries = 0;
            loop {
                let error = match handle(&delivery) {
                    Ok(commit) => {
                        let commit = commit.part(self.note(delivery.partition, delivery.next, delivery.by));
                        match self.database.commit(&commit).and_then(Outcome::committed) {
                            Ok(_) => break,
                            Err(refused) if refused.kind() == ErrorKind::Refused => {
                                if self.is_lost(&delivery)? {
                                    break;
                                }
                                // The state that the handler read may have changed, so the handler
                                // decides again.
                                refused.to_string()
                            }
                            Err(failed) => return self.give_back(&delivery, Err(failed)),
                        }
                    }
                    Err(error) => error.into_text(),
                };
                self.report(&delivery, &error, tries + 1);
                if tries == self.settings.retries {
                    match self.give_up(&delivery, &error) {
                        Ok(()) => break,
                        Err(refused) if refused.kind() == ErrorKind::Refused && self.is_lost(&delivery)? => break,
                        Err(failed) => return self.give_back(&delivery, Err(failed)),
                    }
                }
                match self.back_off(tries, look, &mut stop) {
                    Ok(ControlFlow::Continue(())) => tries += 1,
                    Ok(ControlFlow::Break(())) => return self.give_back(&delivery, Ok(())),
                    Err(failed) => return self.give_back(&delivery, Err(failed)),
                }
            }
            self.spare = Some(delivery);
        }
        Ok(())
    }

    /// Returns whether the member that received a delivery has lost its partition.
    pub(super) fn is_lost(&self, delivery: &Delivery) -> Result<bool> {
        let Committer::Member { member, epoch } = delivery.by else { return Ok(false) };
        let (group, topic, partition) = (&*self.group, &*self.topic, delivery.partition);
        let found = self.database.read_published_for(self.resource(), Operation::Read, |view| {
            let topic = view.streams.topic_named(topic)?.id;
            Some(view.streams.share(group, topic, member)?.any(|owned| owned == OwnedPartition { partition, epoch }))
        })?;
        Ok(found != Some(true))
    }

    /// Ends the loop with a delivery of which no offset was committed. The next reader of the
    /// partition, including this consumer, receives the delivery again.
    pub(super) fn give_back(&mut self, delivery: &Delivery, end: Result<()>) -> Result<()> {
        self.go_on(delivery.partition, delivery.first());
        end
    }

    /// Reports a failure of the handler.
    pub(super) fn report(&self, delivery: &Delivery, error: &str, failures: u32) {
        if let Some(report) = &self.on_error {
            report(delivery, error, failures);
        }
    }

    /// Returns the wait before a retry, which doubles with each.
    pub(super) fn back_off_time(&self, tries: u32) -> Duration {
        self.settings.backoff.saturating_mul(1 << tries.min(31)).min(self.settings.backoff_max)
    }

    /// Waits before the next try, on the database's clock. A member stays in its group while it
    /// waits.
    fn back_off(&self, tries: u32, look: Duration, stop: &mut impl FnMut() -> bool) -> Result<ControlFlow<()>> {
        let wait_micros = micros_of(self.back_off_time(tries));
        let clock = self.database.clock();
        let until = clock.now().as_micros().saturating_add(wait_micros);
        self.member.iter().for_each(|member| member.asks(true));
        let waited = loop {
            if stop() {
                break Ok(ControlFlow::Break(()));
            }
            let left = until.saturating_sub(clock.now().as_micros());
            if left == 0 {
                break Ok(ControlFlow::Continue(()));
            }
            // No record follows the largest position: this call only waits, and ends when the
            // database fails.
            let wait = Duration::from_micros(left).min(look);
            if let Err(failed) = self.database.wait_after(crate::Position::MAX, wait) {
                break Err(failed);
            }
        };
        self.member.iter().for_each(|member| member.asks(false));
        waited
    }

    /// Moves a failed delivery to the dead-letter topic, in one commit with the offset.
    pub(super) fn give_up(&self, delivery: &Delivery, error: &str) -> Result<()> {
        let Some(dead_letter) = &self.settings.dead_letter else {
            let message = format!(
                "the handler failed with offsets {} to {} of partition {} of {}: {error}",
                delivery.first(),
                delivery.last(),
                delivery.partition,
                self.topic
            );
            return Err(Error::new(ErrorKind::Handler, message));
        };
        let partition = delivery.partition.to_string();
        let offsets: Vec<String> = delivery.records().map(|record| record.offset.to_string()).collect();
        let mut commit = Commit::new();
        for (record, offset) in delivery.records().zip(&offsets) {
            let mut message = record.value.map_or_else(Message::tombstone, Message::new);
            if let Some(key) = record.key {
                message = message.key(key);
            }
            let message = message
                .record_headers(record.headers.iter())
                .header("error", error)
                .header("topic", &*self.topic)
                .header("partition", &partition)
                .header("offset", offset)
                .timestamp_ms(record.timestamp_ms);
            commit = commit.produce(dead_letter.as_str(), message);
        }
        let commit = commit.part(self.note(delivery.partition, delivery.next, delivery.by));
        self.database.commit(&commit)?.committed().map(|_| ())
    }
}
