//! A consumer of a topic: it reads all partitions for a group, from the group's committed offsets.
//!
//! ```text
//! bounds of the partitions ─▶ records of a partition that has any ─▶ delivery ─▶ commit with its offset
//!        ▲                                │ none
//!        └── the server waits for records ┘
//! ```
//!
//! Each record is delivered at least once. What a handler returns is committed together with the
//! offset, under an idempotency key, so it happens once.

mod delivery;
mod process;
mod read;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use delivery::{ConsumerCommit, RemoteDelivery};
use quire::Stopper;
use quire_api::reply::CommitReply;
use quire_api::request::CommitRequest;
pub use read::TopicWatch;

use crate::{Client, ClientError, FailureKind};
use read::TopicProgress;

/// The default of [`RemoteConsumer::bytes_max`].
const BYTES_MAX: usize = 1 << 20;

/// The largest answer of records, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The most records of an answer.
const ANSWER_RECORDS_MAX: usize = 10_000;

/// The wait before the first retry of a handler, and the longest one.
const BACKOFF: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Reads a topic of a server for a group; see [`Client::consumer`].
///
/// ```no_run
/// use quire_client::Client;
/// use quire_client::request::{CommitRequest, Enqueue};
///
/// let client = Client::builder("http://127.0.0.1:7070").build()?;
/// let mut consumer = client.consumer("orders", "mailer").dead_letter("orders-failed");
/// let stop = consumer.stopper();
/// consumer.run(|delivery| {
///     let mut mails = CommitRequest { parts: Vec::new() };
///     for record in &delivery.records {
///         mails = mails.and(Enqueue::new("mails", record.value.bytes()));
///     }
///     // The mails and the offset are one commit: both happen, or neither.
///     Ok(mails)
/// })?;
/// # drop(stop);
/// # Ok::<(), quire_client::ClientError>(())
/// ```
///
/// A consumer reads all partitions. Use one for each group: another one gets the same records.
/// Members that share partitions use the gRPC API or the Kafka protocol.
pub struct RemoteConsumer {
    client: Client,
    topic: Arc<str>,
    group: Arc<str>,
    settings: ReadSettings,
    stop: Stopper,
    on_error: Option<OnConsumeError>,
    /// None until the first read.
    progress: Option<TopicProgress>,
}

/// How a consumer reads, and what it does with a failure of its handler.
#[derive(Debug, Clone)]
struct ReadSettings {
    records_max: usize,
    bytes_max: usize,
    retries: u32,
    dead_letter: Option<String>,
    from_end: bool,
}

type OnConsumeError = Box<dyn Fn(Option<&RemoteDelivery>, &ClientError) + Send + Sync>;

impl Client {
    /// A consumer of a topic for a group. It begins at the committed offsets of the group.
    pub fn consumer(&self, topic: impl Into<Arc<str>>, group: impl Into<Arc<str>>) -> RemoteConsumer {
        let (records_max, bytes_max) = (ANSWER_RECORDS_MAX, BYTES_MAX);
        RemoteConsumer {
            client: self.clone(),
            topic: topic.into(),
            group: group.into(),
            settings: ReadSettings { records_max, bytes_max, retries: 3, dead_letter: None, from_end: false },
            stop: Stopper::default(),
            on_error: None,
            progress: None,
        }
    }
}

impl RemoteConsumer {
    /// Sets the most records of a delivery. Default: 10,000, which is also the most that a server
    /// returns.
    #[must_use]
    pub fn records_max(mut self, records_max: usize) -> Self {
        self.settings.records_max = records_max.clamp(1, ANSWER_RECORDS_MAX);
        self
    }

    /// Sets the largest delivery, in bytes of record batches; at least one record is delivered.
    /// Default: 1 MiB. At most 16 MiB.
    #[must_use]
    pub fn bytes_max(mut self, bytes_max: usize) -> Self {
        self.settings.bytes_max = bytes_max.clamp(1, ANSWER_BYTES_MAX);
        self
    }

    /// Sets the number of times that [`RemoteConsumer::run`] retries a delivery whose handler
    /// failed. Default: 3. The first wait is 100 milliseconds; each further one doubles, up to 10
    /// seconds.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.settings.retries = retries;
        self
    }

    /// Sets the topic for records whose handler failed at every try. Each record gets the headers
    /// `error`, `topic`, `partition` and `offset`. Default: none; the failure then ends the
    /// reading.
    #[must_use]
    pub fn dead_letter(mut self, topic: impl Into<String>) -> Self {
        self.settings.dead_letter = Some(topic.into());
        self
    }

    /// Begins after the last record in a partition without a committed offset, and in one whose
    /// next records were deleted. Default: at the first record.
    #[must_use]
    pub fn from_end(mut self) -> Self {
        self.settings.from_end = true;
        self
    }

    /// Sets a function that [`RemoteConsumer::run`] calls for each error, with its delivery if it
    /// has one: the handler failed, the server refused its commit, or the server did not answer.
    #[must_use]
    pub fn on_error(mut self, report: impl Fn(Option<&RemoteDelivery>, &ClientError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Box::new(report));
        self
    }

    /// Returns the handle that stops [`RemoteConsumer::run`], after its running handler.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Commits the offset of a delivery. The group continues after the delivery.
    ///
    /// # Errors
    /// As [`Client::commit`].
    pub fn ack(&self, delivery: &RemoteDelivery) -> Result<CommitReply<'static>, ClientError> {
        self.client.commit(&CommitRequest::of(delivery.offset_part()))
    }

    /// Commits the offset of a delivery together with its results: both happen, or neither.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use quire_client::Client;
    /// use quire_client::request::{CommitRequest, Produce};
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// let mut consumer = client.consumer("orders", "billing");
    /// while let Some(delivery) = consumer.wait(Duration::from_secs(10))? {
    ///     let invoices = format!("{} invoices", delivery.records.len());
    ///     consumer.ack_in(CommitRequest::of(Produce::new("invoices", invoices)), &delivery)?;
    /// }
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Client::commit`].
    pub fn ack_in(
        &self,
        commit: CommitRequest<'_>,
        delivery: &RemoteDelivery,
    ) -> Result<CommitReply<'static>, ClientError> {
        self.client.commit(&commit.and(delivery.offset_part()))
    }
}

impl fmt::Debug for RemoteConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteConsumer")
            .field("client", &self.client)
            .field("topic", &self.topic)
            .field("group", &self.group)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// The error of a record that the server can't return.
fn too_long(topic: &str, partition: u32, offset: u64, bytes: usize) -> ClientError {
    let message = format!(
        "the record at offset {offset} of partition {partition} of {topic:?} has {bytes} bytes, more than the \
         {ANSWER_BYTES_MAX} of an answer: read it over gRPC or the Kafka protocol, and commit offset {} for the group",
        offset + 1
    );
    ClientError::new(FailureKind::TooLong, message)
}
