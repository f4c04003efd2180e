//! The asynchronous forms of a consumer: the next delivery, a stream of deliveries, and the loop
//! around a handler.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio_stream::Stream;

use super::{Consumer, Delivery};
use crate::commit::Commit;
use crate::database::NextPublication;
use crate::handler_error::HandlerError;
use crate::outcome::Outcome;
use crate::{ErrorKind, Result};

/// The deliveries of a consumer as a stream. It never ends by itself. See
/// [`Consumer::into_stream`].
#[derive(Debug)]
pub struct DeliveryStream {
    consumer: Consumer,
    publication: Option<NextPublication>,
}

impl DeliveryStream {
    /// Returns the consumer, such as to acknowledge a delivery.
    pub fn consumer(&mut self) -> &mut Consumer {
        &mut self.consumer
    }
}

impl Stream for DeliveryStream {
    type Item = Result<Delivery>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Delivery>>> {
        let DeliveryStream { consumer, publication } = self.get_mut();
        consumer.poll_delivery(publication, context).map(Some)
    }
}

impl Consumer {
    /// Returns the consumer as a stream of deliveries.
    ///
    /// ```
    /// use quire::{ConsumerSettings, Database, Durability, Message};
    /// use tokio_stream::StreamExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
    /// db.topic("orders").produce(Message::new("one apple"))?;
    /// let mut orders = db.topic("orders").consumer("billing", ConsumerSettings::default())?.into_stream();
    /// let delivery = orders.next().await.expect("a stream without end")?;
    /// assert_eq!(delivery.len(), 1);
    /// orders.consumer().ack(&delivery)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> DeliveryStream {
        DeliveryStream { consumer: self, publication: None }
    }

    /// Waits for the next records. A dropped future loses no record.
    ///
    /// # Errors
    /// As [`Consumer::poll`].
    pub async fn next(&mut self) -> Result<Delivery> {
        let mut publication = None;
        poll_fn(|context| self.poll_delivery(&mut publication, context)).await
    }

    /// Hands records to `handle`, like [`Consumer::run`], until the consumer is stopped. Waits
    /// before retries go by the runtime's clock.
    ///
    /// ```
    /// use quire::events::NewEvent;
    /// use quire::{Commit, ConsumerSettings, Database, Durability, Message};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
    /// db.topic("orders").produce(Message::new("17"))?;
    /// let mut consumer = db.topic("orders").consumer("mailer", ConsumerSettings::default())?;
    /// let stop = consumer.stopper();
    /// consumer
    ///     .run_async(|delivery| {
    ///         stop.stop(); // after this delivery
    ///         async move {
    ///             let mut commit = Commit::new();
    ///             for record in delivery.records() {
    ///                 let order: u32 = std::str::from_utf8(record.value.unwrap_or_default())?.parse()?;
    ///                 commit = commit.append("mails", [NewEvent::new("MailSent").tag(format!("order:{order}"))]);
    ///             }
    ///             Ok(commit)
    ///         }
    ///     })
    ///     .await?;
    /// assert_eq!(db.events("mails").head()?.get(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Consumer::run`].
    pub async fn run_async<H>(&mut self, handle: impl FnMut(Arc<Delivery>) -> H) -> Result<()>
    where
        H: Future<Output = std::result::Result<Commit<'static>, HandlerError>>,
    {
        self.process_async(std::future::pending(), handle).await
    }

    /// Hands records to `handle` like [`Consumer::run_async`], until `stop` is ready or the
    /// consumer is stopped.
    ///
    /// # Errors
    /// As [`Consumer::run`].
    pub async fn process_async<H>(
        &mut self,
        stop: impl Future<Output = ()>,
        mut handle: impl FnMut(Arc<Delivery>) -> H,
    ) -> Result<()>
    where
        H: Future<Output = std::result::Result<Commit<'static>, HandlerError>>,
    {
        let stopper = self.stopper();
        let stop = async {
            tokio::select! {
                () = stopper.requested() => {}
                () = stop => {}
            }
        };
        let mut stop = std::pin::pin!(stop);
        loop {
            let delivery = tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                delivery = self.next() => Arc::new(delivery?),
            };
            let mut tries = 0;
            loop {
                let error = match handle(Arc::clone(&delivery)).await {
                    Ok(commit) => {
                        let commit = commit.part(self.note(delivery.partition, delivery.next, delivery.by));
                        let ticket = self.database.submit(&commit);
                        let committed = match ticket {
                            Ok(ticket) => ticket.await.and_then(Outcome::committed),
                            Err(error) => Err(error),
                        };
                        match committed {
                            Ok(_) => break,
                            Err(refused) if refused.kind() == ErrorKind::Refused => {
                                if self.is_lost(&delivery)? {
                                    break;
                                }
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
                self.asks(true);
                let wait = tokio::time::sleep(self.back_off_time(tries));
                tokio::select! {
                    () = wait => self.asks(false),
                    () = &mut stop => {
                        self.asks(false);
                        return self.give_back(&delivery, Ok(()));
                    }
                }
                tries += 1;
            }
        }
    }

    /// Polls for the next records. While there are none, `publication` holds the future of the next
    /// publication.
    fn poll_delivery(
        &mut self,
        publication: &mut Option<NextPublication>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Delivery>> {
        loop {
            if let Some(waiting) = publication {
                match Pin::new(waiting).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(arrived) => {
                        *publication = None;
                        self.asks(false);
                        if let Err(error) = arrived {
                            return Poll::Ready(Err(error));
                        }
                    }
                }
            }
            // Taken before the poll, so that a record published during it is noticed.
            let seen = self.database.published();
            match self.poll() {
                Ok(Some(delivery)) => return Poll::Ready(Ok(delivery)),
                Err(error) => return Poll::Ready(Err(error)),
                Ok(None) => {}
            }
            match self.look_for_partitions(true) {
                Ok(true) => {}
                Ok(false) => {
                    self.asks(true);
                    *publication = Some(self.database.publication_after(seen));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn asks(&self, waits: bool) {
        self.member.iter().for_each(|member| member.asks(waits));
    }
}
