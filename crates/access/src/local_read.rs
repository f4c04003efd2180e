//! Reads that this node of a cluster answers from its own records, whichever node leads.
//!
//! ```text
//! quire-read: local       ──▶ the commits that this node has published
//! quire-read: at=POSITION ──▶ the same, once this node has published that position
//! ```
//!
//! The field is a header of HTTP and metadata of gRPC. The client has the rights that the rules
//! published on this node give it. Without the field, the leader answers.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use quire::{Database, Error, Position};
use tokio::time::timeout;

use crate::session::Session;

/// How long a read waits for its position.
const REACHED_WITHIN: Duration = Duration::from_secs(2);

/// How long a read waits while this node has unpublished records and publishes none of them: it may
/// have lost its connections.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// A read that this node answers. See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalRead {
    /// At once.
    Now,
    /// Once this position is published here.
    At(Position),
}

/// A local read that this node can't answer.
#[derive(Debug)]
pub enum LocalReadError {
    /// This node has not published the position of the read in time.
    Ahead {
        /// The position of the read.
        at: Position,
        /// The last position that this node has published.
        published: Position,
    },
    /// The database failed, or no majority confirms the records of this node.
    Failed(Error),
}

impl fmt::Display for LocalReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocalReadError::Ahead { at, published } => {
                write!(f, "this node has published position {published}, and not {at} in time")
            }
            LocalReadError::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LocalReadError {}

impl From<Error> for LocalReadError {
    fn from(error: Error) -> Self {
        LocalReadError::Failed(error)
    }
}

impl LocalRead {
    /// Parses the values of the field of a request.
    ///
    /// # Errors
    /// When the field is invalid or there is not exactly one. The error names its value.
    ///
    /// ```
    /// use quire::Position;
    /// use quire_access::LocalRead;
    ///
    /// assert_eq!(LocalRead::of_fields([&b"local"[..]]), Ok(LocalRead::Now));
    /// assert_eq!(LocalRead::of_fields([&b"at=17"[..]]), Ok(LocalRead::At(Position::new(17))));
    /// assert!(LocalRead::of_fields([&b"leader"[..]]).is_err());
    /// ```
    pub fn of_fields<'f>(fields: impl IntoIterator<Item = &'f [u8]>) -> Result<Self, String> {
        let mut fields = fields.into_iter();
        let text = str::from_utf8(fields.next().unwrap_or_default()).unwrap_or_default();
        let read = match text.strip_prefix("at=") {
            _ if fields.next().is_some() => None,
            None => (text == "local").then_some(LocalRead::Now),
            Some(position) => position.parse().ok().map(|position| LocalRead::At(Position::new(position))),
        };
        read.ok_or_else(|| format!("must be local or at=POSITION, once, got {text:?}"))
    }

    /// Waits for the position of the read. Then runs `reading` in the session of the request, with
    /// a database whose reads this node answers. Returns its result, and the position up to which
    /// it shows every commit.
    ///
    /// # Errors
    /// When the position is not published in time, or no majority confirms the records that the
    /// read rests on.
    pub async fn answer<F: Future>(
        self,
        database: &Database,
        reading: F,
    ) -> Result<(F::Output, Position), LocalReadError> {
        if let LocalRead::At(position) = self {
            reach(database, position).await?;
        }
        let begun_at = database.published();
        let mut answered = pin!(async {
            match Session::current() {
                Some(session) => session.reading_here().scope(reading).await,
                None => reading.await,
            }
        });
        loop {
            let published = database.published();
            match timeout(STALLED_AFTER, &mut answered).await {
                Ok(answer) => return Ok((answer, begun_at)),
                Err(_) if database.has_unpublished() && database.published() == published => {
                    return Err(Error::unconfirmed_here().into());
                }
                Err(_) => {}
            }
        }
    }
}

/// Waits until this node has published the position.
async fn reach(database: &Database, at: Position) -> Result<(), LocalReadError> {
    let Some(before) = at.get().checked_sub(1) else { return Ok(()) };
    match timeout(REACHED_WITHIN, database.publication_after(Position::new(before))).await {
        Ok(published) => Ok(published?),
        Err(_) => Err(LocalReadError::Ahead { at, published: database.published() }),
    }
}
