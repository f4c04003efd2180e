//! The settings of a consumer.

use std::time::Duration;

use crate::{Error, ErrorKind, Result};

/// The settings of a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerSettings {
    /// How it shares the partitions with the other members of its group. Default: it reads all.
    pub sharing: Sharing,
    /// How many bytes of record batches it takes at once; at least one batch. Default: 1 MiB.
    pub bytes_max: usize,
    /// How many records it takes at once. Default: as many as there are in so many bytes.
    pub records_max: usize,
    /// How often records are handed out again when the handler fails. Default: 3.
    pub retries: u32,
    /// How long it waits before the first of these, in milliseconds; twice as long before each
    /// next. Default: 100.
    pub backoff: Duration,
    /// The longest of these waits, in milliseconds. Default: 10,000.
    pub backoff_max: Duration,
    /// The topic that takes records whose handler fails to the last, each with the headers `error`,
    /// `topic`, `partition` and `offset`. Default: none; the failure then ends the reading.
    pub dead_letter: Option<String>,
    /// Where a partition is begun in which the group has committed nothing, or whose records it
    /// wanted are gone: at the first record there is, or else behind the last. Default: at the
    /// first.
    pub from_start: bool,
}

/// How the members of a group share the partitions of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sharing {
    /// By number: the member reads the partitions whose number, divided by the members, leaves its
    /// own. Members need not know of each other, and two never read the same partition, as long as
    /// they have the same count.
    Fixed {
        /// Which of the members it is, from 0.
        member: u32,
        /// How many members there are.
        members: u32,
    },
    /// Among all who are there, in this process or others that have the database open. Who comes is
    /// given a share, and the share of who goes, or dies, goes to the others. What a member has not
    /// committed when a partition is taken from it is handed out again by its new reader, and a
    /// commit of the old one there is refused.
    Lease(Lease),
}

/// How a member of a group shows that it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The name of its place: who joins under the same name takes the place over at once, as a
    /// process does that was started anew, and need not wait until the lease runs out. Default:
    /// empty, no place.
    pub name: String,
    /// After how long without a sign the others share its partitions, in milliseconds. A thread
    /// gives a sign each third of it. Default: 10,000.
    pub duration: Duration,
    /// After how long without a call for records that thread falls silent, in milliseconds: the
    /// handler hangs. Default: 300,000.
    pub handling_max: Duration,
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        ConsumerSettings {
            sharing: Sharing::Fixed { member: 0, members: 1 },
            bytes_max: 1 << 20,
            records_max: usize::MAX,
            retries: 3,
            backoff: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            dead_letter: None,
            from_start: true,
        }
    }
}

impl Default for Lease {
    fn default() -> Self {
        Lease { name: String::new(), duration: Duration::from_secs(10), handling_max: Duration::from_secs(300) }
    }
}

impl ConsumerSettings {
    /// # Errors
    /// [`ErrorKind::Invalid`] with what can't be.
    pub(super) fn check(&self) -> Result<()> {
        let is_one = match self.sharing {
            Sharing::Fixed { member, members } => member < members,
            Sharing::Lease(_) => true,
        };
        if is_one && self.bytes_max > 0 && self.records_max > 0 {
            return Ok(());
        }
        let message = "a consumer is one of its members, counted from 0, and takes at least one byte and one record";
        Err(Error::new(ErrorKind::Invalid, message))
    }
}
