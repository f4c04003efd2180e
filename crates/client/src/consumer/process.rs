//! The loop of a consumer: each delivery goes to a handler, and its result is committed together
//! with the offset.
//!
//! ```text
//! delivery ─▶ handler ──┬─ commit ──▶ with the offset, one key until it has an answer
//!   ▲                   │               └─ refused for a part of the handler: a failure
//!   │                   └─ failure ──▶ retried after growing waits ──▶ dead letters, or an error
//!   └── no records, or no server: waits
//! ```

use std::time::{Duration, Instant};

use quire::HandlerError;

use super::{BACKOFF, BACKOFF_MAX, ConsumerCommit, RemoteConsumer, RemoteDelivery};
use crate::pause::pause_unless;
use crate::{ClientError, FailureKind};

/// How long a consumer waits for records before it looks for a stop.
const STOP_LOOK: Duration = Duration::from_secs(1);

/// The end of a delivery.
enum DeliveryEnd {
    /// Its offset is committed.
    Acknowledged,
    /// The consumer was stopped. The offset may be committed, if an answer was lost.
    Stopped,
}

impl RemoteConsumer {
    /// Hands each delivery to `handle` until the consumer is stopped: see
    /// [`RemoteConsumer::stopper`].
    ///
    /// The commit that `handle` returns happens together with the offset, once. A failure of
    /// `handle`, and a commit that the server refuses, are retried as the settings say. While the
    /// server is away, the consumer waits for it.
    ///
    /// # Errors
    /// The error of `handle` at the last try, when there is no dead-letter topic. Errors of the
    /// server that a retry does not change, for example a missing permission.
    pub fn run<C: Into<ConsumerCommit>>(
        &mut self,
        handle: impl FnMut(&RemoteDelivery) -> Result<C, HandlerError>,
    ) -> Result<(), ClientError> {
        self.process(STOP_LOOK, || false, handle)
    }

    /// Hands deliveries to `handle` as [`RemoteConsumer::run`], until `stop` returns true or the
    /// consumer is stopped. The consumer calls `stop` before each delivery, and about every `look`
    /// while there are no records.
    ///
    /// # Errors
    /// As [`RemoteConsumer::run`].
    #[expect(clippy::disallowed_methods, reason = "the waits of a client are real time")]
    pub fn process<C: Into<ConsumerCommit>>(
        &mut self,
        look: Duration,
        mut stop: impl FnMut() -> bool,
        mut handle: impl FnMut(&RemoteDelivery) -> Result<C, HandlerError>,
    ) -> Result<(), ClientError> {
        let stopper = self.stopper();
        let mut is_stopped = || stopper.is_requested() || stop();
        let mut pauses = self.client.pauses();
        while !is_stopped() {
            let begin = Instant::now();
            let delivery = match self.wait(look) {
                Ok(Some(delivery)) => delivery,
                // A server that does not wait is not asked again at once.
                Ok(None) if begin.elapsed() < look / 2 => {
                    pause_unless(pauses.next(), &mut is_stopped);
                    continue;
                }
                Ok(None) => {
                    pauses = self.client.pauses();
                    continue;
                }
                // The client has repeated the request for its `timeout`.
                Err(error) if error.is_passing() => {
                    self.report(None, &error);
                    pause_unless(pauses.after(Some(&error)), &mut is_stopped);
                    continue;
                }
                Err(error) => return Err(error),
            };
            pauses = self.client.pauses();
            match self.handle_until_done(&delivery, &mut is_stopped, &mut |delivery| handle(delivery).map(Into::into)) {
                Ok(DeliveryEnd::Acknowledged) => {}
                Ok(DeliveryEnd::Stopped) => self.give_back(&delivery),
                Err(error) => {
                    self.give_back(&delivery);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Hands a delivery to `handle` until its offset is committed.
    fn handle_until_done(
        &self,
        delivery: &RemoteDelivery,
        is_stopped: &mut dyn FnMut() -> bool,
        handle: &mut dyn FnMut(&RemoteDelivery) -> Result<ConsumerCommit, HandlerError>,
    ) -> Result<DeliveryEnd, ClientError> {
        let (mut failures, mut wait) = (0, BACKOFF);
        loop {
            let error = match handle(delivery) {
                Ok(result) => {
                    let offset_part = result.commit.parts.len() as u64;
                    match self.commit_with_offset(delivery, result, is_stopped) {
                        // The state that the handler read may have changed, so it decides again.
                        Err(refused) if refused.is_of_other_part(offset_part) => refused,
                        done => return done,
                    }
                }
                Err(error) => ClientError::new(FailureKind::Handler, error.text()),
            };
            self.report(Some(delivery), &error);
            if failures == self.settings.retries {
                let Some(dead_letter) = &self.settings.dead_letter else { return Err(self.failed(delivery, &error)) };
                let letters = delivery.dead_letters(dead_letter, &error.to_string());
                return self.commit_with_offset(delivery, letters.into(), is_stopped);
            }
            pause_unless(wait, &mut *is_stopped);
            if is_stopped() {
                return Ok(DeliveryEnd::Stopped);
            }
            (failures, wait) = (failures + 1, wait.saturating_mul(2).min(BACKOFF_MAX));
        }
    }

    /// Commits the offset of a delivery together with a result, all attempts with one key, until
    /// the server answers or the consumer is stopped.
    fn commit_with_offset(
        &self,
        delivery: &RemoteDelivery,
        result: ConsumerCommit,
        is_stopped: &mut dyn FnMut() -> bool,
    ) -> Result<DeliveryEnd, ClientError> {
        let commit = result.commit.and(delivery.offset_part());
        let (key, mut pauses) = (result.key.unwrap_or_else(|| self.client.new_key()), self.client.pauses());
        loop {
            match self.client.commit_with_key(&commit, &key) {
                Ok(_) => return Ok(DeliveryEnd::Acknowledged),
                Err(error) if error.is_passing() => {
                    self.report(Some(delivery), &error);
                    if is_stopped() {
                        return Ok(DeliveryEnd::Stopped);
                    }
                    pause_unless(pauses.after(Some(&error)), &mut *is_stopped);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn report(&self, delivery: Option<&RemoteDelivery>, error: &ClientError) {
        if let Some(report) = &self.on_error {
            report(delivery, error);
        }
    }

    /// The error of a delivery whose handler failed at every try.
    fn failed(&self, delivery: &RemoteDelivery, error: &ClientError) -> ClientError {
        let RemoteDelivery { partition, next, .. } = delivery;
        let (first, last) = (delivery.first(), next - 1);
        let message = format!(
            "the handler failed with offsets {first} to {last} of partition {partition} of {:?}: {error}",
            &*self.topic
        );
        ClientError::new(FailureKind::Handler, message)
    }
}
