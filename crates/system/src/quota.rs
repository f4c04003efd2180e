//! Quotas: how much clients may use per second.

use alloc::string::String;
use core::fmt;

use crate::AccessNameProblem;
use crate::name::check_name;

/// What a quota limits. Its number is part of the file format, and its name is Kafka's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaKind {
    /// Bytes per second that a client produces.
    ProducerByteRate = 0,
    /// Bytes per second that a client fetches.
    ConsumerByteRate = 1,
    /// Processor time for the client's requests, in percent of one processor.
    RequestPercentage = 2,
}

impl QuotaKind {
    /// Every kind, in the order of the numbers.
    pub const ALL: [QuotaKind; 3] =
        [QuotaKind::ProducerByteRate, QuotaKind::ConsumerByteRate, QuotaKind::RequestPercentage];

    /// The name in Kafka.
    pub const fn name(self) -> &'static str {
        match self {
            QuotaKind::ProducerByteRate => "producer_byte_rate",
            QuotaKind::ConsumerByteRate => "consumer_byte_rate",
            QuotaKind::RequestPercentage => "request_percentage",
        }
    }

    /// The kind of this name; `None` for an unknown name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The users or the clients that a quota holds for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaName {
    /// Each one without a quota of its own.
    Default,
    /// The one of this name.
    Named(String),
}

/// The holders of a quota: a user, the name that a client gives itself, or both. Each user, each
/// client, or each pair has the quota for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaEntity {
    /// The user; `None` for a quota of a client of any user.
    pub user: Option<QuotaName>,
    /// The client's name for itself; `None` for a quota of all clients of a user together.
    pub client: Option<QuotaName>,
}

/// The value of a quota, more than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaValue(u64);

impl QuotaValue {
    /// A value. `None` unless it is finite and more than 0.
    pub fn new(value: f64) -> Option<Self> {
        (value.is_finite() && value > 0.0).then(|| QuotaValue(value.to_bits()))
    }

    /// The value.
    pub const fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl QuotaEntity {
    /// Checks that it names a user or a client, and that the names are valid.
    ///
    /// # Errors
    /// The problem.
    pub fn check(&self) -> Result<(), AccessNameProblem> {
        if self.user.is_none() && self.client.is_none() {
            return Err(AccessNameProblem::Empty);
        }
        [&self.user, &self.client].into_iter().flatten().try_for_each(|name| match name {
            QuotaName::Default => Ok(()),
            QuotaName::Named(name) => check_name(name),
        })
    }
}

/// Shows as `user ann client *`.
impl fmt::Display for QuotaEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (kind, name) in [("user", &self.user), ("client", &self.client)] {
            let name = match name {
                None => continue,
                Some(QuotaName::Default) => "*",
                Some(QuotaName::Named(name)) => name,
            };
            write!(f, "{separator}{kind} {name}")?;
            separator = " ";
        }
        Ok(())
    }
}
