//! A message for a topic. It becomes a record batch of its own when its commit is encoded.

use std::borrow::Cow;
use std::time::SystemTime;

use quire_model::CowBytes;

use crate::streams::wire::{Batch, BatchBuilder, Header};
use crate::streams::{self, TopicRef};
use crate::time::milliseconds_of;
use crate::{Error, ErrorKind, Result};

/// A message for a topic. Its bytes are borrowed or owned.
///
/// ```
/// use quire::Message;
///
/// let order = 17;
/// let message = Message::new(format!("order {order} was placed"))
///     .key(format!("order:{order}"))
///     .header("content-type", "text/plain");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Message<'c> {
    pub(crate) key: Option<Cow<'c, [u8]>>,
    pub(crate) value: Option<Cow<'c, [u8]>>,
    headers: MessageHeaders<'c>,
    timestamp_ms: Option<i64>,
    pub(crate) partition: Option<u32>,
}

/// The key and the value of a header, each owned or borrowed.
type OwnedHeader<'c> = (Cow<'c, [u8]>, Option<Cow<'c, [u8]>>);

/// The headers of a message, in order.
#[derive(Debug, Clone, Default)]
struct MessageHeaders<'c> {
    /// The headers up to the first one that owns its bytes: encoded as they are.
    borrowed: Vec<Header<'c>>,
    /// The remaining headers.
    owned: Vec<OwnedHeader<'c>>,
}

impl<'c> MessageHeaders<'c> {
    fn push(&mut self, key: Cow<'c, [u8]>, value: Option<Cow<'c, [u8]>>) {
        match (key, value) {
            (Cow::Borrowed(key), None) if self.owned.is_empty() => self.borrowed.push(Header { key, value: None }),
            (Cow::Borrowed(key), Some(Cow::Borrowed(value))) if self.owned.is_empty() => {
                self.borrowed.push(Header { key, value: Some(value) });
            }
            header => self.owned.push(header),
        }
    }

    #[cold]
    fn all(&self) -> Vec<Header<'_>> {
        let owned = self.owned.iter().map(|(key, value)| Header { key, value: value.as_deref() });
        self.borrowed.iter().copied().chain(owned).collect()
    }
}

impl<'c> Message<'c> {
    /// Returns a message with this value.
    pub fn new(value: impl Into<CowBytes<'c>>) -> Self {
        Message { value: Some(value.into().into_cow()), ..Message::default() }
    }

    /// Returns a message without a value. A compacted topic then deletes the message's key.
    pub fn tombstone() -> Self {
        Message::default()
    }

    /// Sets the key. Messages with equal keys go to the same partition, the one that Kafka's
    /// producers choose.
    #[must_use]
    pub fn key(mut self, key: impl Into<CowBytes<'c>>) -> Self {
        self.key = Some(key.into().into_cow());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, key: impl Into<Cow<'c, str>>, value: impl Into<CowBytes<'c>>) -> Self {
        self.headers.push(CowBytes::from(key.into()).into_cow(), Some(value.into().into_cow()));
        self
    }

    /// Adds a header without a value. An empty value differs from no value.
    #[must_use]
    pub fn header_without_value(mut self, key: impl Into<Cow<'c, str>>) -> Self {
        self.headers.push(CowBytes::from(key.into()).into_cow(), None);
        self
    }

    /// Adds headers as a record has them: their keys may be other bytes than text.
    pub(crate) fn record_headers(mut self, headers: impl Iterator<Item = Header<'c>>) -> Self {
        headers.for_each(|header| self.headers.push(header.key.into(), header.value.map(Cow::Borrowed)));
        self
    }

    /// Sets the time. Default: the time of the commit.
    #[must_use]
    pub fn time(self, time: SystemTime) -> Self {
        self.timestamp_ms(milliseconds_of(time))
    }

    /// Sets the time, in milliseconds since 1970. Default: the time of the commit.
    #[must_use]
    pub fn timestamp_ms(mut self, timestamp_ms: i64) -> Self {
        self.timestamp_ms = Some(timestamp_ms);
        self
    }

    /// Sets the partition. Default: the partition of the key, or partition 0 without a key.
    #[must_use]
    pub fn partition(mut self, partition: u32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Returns the command that produces the message as this batch. It creates a missing topic with
    /// one partition.
    pub(crate) fn command<'p>(&'p self, topic: TopicRef<'p>, batch: Batch<'p>) -> streams::Command<'p> {
        let create_partitions = Some(1);
        match (self.partition, &self.key) {
            (None, Some(key)) => streams::Command::ProduceByKey { topic, key, batch, create_partitions },
            (partition, _) => {
                let partition = partition.unwrap_or(0);
                streams::Command::Produce { topic, partition, batch, create_partitions }
            }
        }
    }

    /// Adds the message to a batch.
    #[inline]
    pub(crate) fn add_to(&self, batch: &mut BatchBuilder, now_ms: i64) -> Result<()> {
        match self.headers.owned.is_empty() {
            true => self.add_with(&self.headers.borrowed, batch, now_ms),
            false => self.add_with(&self.headers.all(), batch, now_ms),
        }
    }

    #[inline]
    fn add_with(&self, headers: &[Header<'_>], batch: &mut BatchBuilder, now_ms: i64) -> Result<()> {
        batch
            .add(self.key.as_deref(), self.value.as_deref(), headers, self.timestamp_ms.unwrap_or(now_ms))
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))
    }
}
