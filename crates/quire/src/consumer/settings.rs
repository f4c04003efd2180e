//! The settings of a consumer.

use std::time::Duration;

use crate::{Error, ErrorKind, Result};

/// The settings of a consumer.
///
/// ```
/// use std::time::Duration;
///
/// use quire::{ConsumerSettings, Lease, PartitionSharing};
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// db.topic("orders").create(4)?;
/// let name = format!("billing-{}", std::process::id());
/// let settings = ConsumerSettings {
///     sharing: PartitionSharing::Lease(Lease { name, ..Lease::default() }),
///     backoff: Duration::from_millis(50),
///     dead_letter: Some("orders-failed".to_owned()),
///     ..ConsumerSettings::default()
/// };
/// let consumer = db.topic("orders").consumer("billing", settings)?;
/// assert_eq!(consumer.partitions(), [0, 1, 2, 3], "the only member reads all partitions");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerSettings {
    /// How the consumer shares the partitions with the other members of its group. Default: the
    /// consumer reads all partitions.
    pub sharing: PartitionSharing,
    /// Largest delivery, in bytes of record batches; at least one batch. Default: 1 MiB.
    pub bytes_max: usize,
    /// Most records in a delivery. Default: no limit other than `bytes_max`.
    pub records_max: usize,
    /// Number of times that the consumer retries a delivery whose handler failed. Default: 3.
    pub retries: u32,
    /// Wait before the first retry. The wait doubles with each further retry. Default: 100
    /// milliseconds.
    pub backoff: Duration,
    /// Longest wait before a retry. Default: 10 seconds.
    pub backoff_max: Duration,
    /// The topic for records whose handler failed at every try. Each record gets the headers
    /// `error`, `topic`, `partition` and `offset`. Default: none; the failure then ends the
    /// reading.
    pub dead_letter: Option<String>,
    /// Where the consumer starts in a partition without a committed offset, or whose next records
    /// were deleted. True starts at the first record, false after the last. Default: true.
    pub from_start: bool,
}

/// How the members of a group share the partitions of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionSharing {
    /// By number: the member reads the partitions whose number modulo `members` is its own number.
    /// Members need no knowledge of each other. Two members never read the same partition, as long
    /// as they have the same count.
    Fixed {
        /// This member's number, from 0.
        member: u32,
        /// The number of members.
        members: u32,
    },
    /// Among all present members, in any process that has the database open. A new member gets a
    /// share. The share of a member that leaves or dies goes to the remaining members.
    ///
    /// When a partition moves, its new reader receives the records that its old reader had not
    /// committed. A later commit of the old reader in that partition is refused.
    Lease(Lease),
}

/// How a member of a group proves that it is running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The name of the member's place. A member that joins under the same name takes over the place
    /// at once. A restarted process therefore need not wait until its old lease expires. Default:
    /// empty, no place.
    pub name: String,
    /// Length of the lease. Without a renewal for this time, the other members share the
    /// partitions. A thread renews the lease each third of this time. Default: 10 seconds.
    pub duration: Duration,
    /// Longest time between calls for records. After this time the thread stops renewing the
    /// lease, because the handler hangs. Default: 5 minutes.
    pub handling_max: Duration,
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        ConsumerSettings {
            sharing: PartitionSharing::Fixed { member: 0, members: 1 },
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
    /// [`ErrorKind::Invalid`] with the setting that is invalid.
    pub(super) fn check(&self) -> Result<()> {
        let message = match self.sharing {
            PartitionSharing::Fixed { member, members } if member >= members => {
                format!("member must be below members, got member {member} of {members} members")
            }
            _ if self.bytes_max == 0 => "bytes_max must be at least 1, got 0".to_owned(),
            _ if self.records_max == 0 => "records_max must be at least 1, got 0".to_owned(),
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::Invalid, message))
    }
}
