//! Reads that one node of a cluster answers from its own records, whichever node leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ureq::http::{HeaderMap, HeaderValue};

use crate::Client;

/// The header of a request, and that of its answer.
pub(crate) const QUIRE_READ: &str = "quire-read";
const QUIRE_POSITION: &str = "quire-position";

/// The reads of a client, when its server answers them.
#[derive(Debug, Clone)]
pub(crate) struct LocalReads {
    /// The value of [`QUIRE_READ`].
    pub(crate) field: HeaderValue,
    /// The greatest position that an answer has shown.
    shown: Arc<AtomicU64>,
}

impl LocalReads {
    fn new(field: HeaderValue) -> Self {
        LocalReads { field, shown: Arc::default() }
    }

    /// Notes the position of an answer.
    pub(crate) fn note(&self, headers: &HeaderMap) {
        let position = headers.get(QUIRE_POSITION).and_then(|value| value.to_str().ok()?.parse().ok());
        self.shown.fetch_max(position.unwrap_or(0), Ordering::Relaxed);
    }
}

impl Client {
    /// A client whose reads the server at [`Client::address`] answers from its own records,
    /// whichever node of the cluster leads. The last commits may be missing. Commits need the
    /// leader as before. A server refuses such a read of a subscription or a backup.
    ///
    /// ```no_run
    /// use quire_client::Client;
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// let stats = client.local().stats()?;
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    #[must_use]
    pub fn local(&self) -> Self {
        self.with_reads(HeaderValue::from_static("local"))
    }

    /// The same, where each read shows the commit at this position and all earlier ones. The server
    /// waits up to 2 seconds for the position, and then refuses the read with `ahead_of_log`.
    ///
    /// ```no_run
    /// use quire_client::Client;
    /// use quire_client::request::{CommitRequest, Produce};
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// let done = client.commit(&CommitRequest::of(Produce::new("orders", "17")))?;
    /// let topics = client.local_at(done.position).stats()?.topics;
    /// assert!(topics.iter().any(|topic| topic.topic == "orders"));
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    #[must_use]
    pub fn local_at(&self, position: u64) -> Self {
        let field = HeaderValue::try_from(format!("at={position}")).expect("digits are valid in a header");
        self.with_reads(field)
    }

    /// The greatest position up to which an answer to a read of this client has shown every commit,
    /// 0 before the first answer. Pass it to [`Client::local_at`], and later reads of any node show
    /// no older state. `None` for a client whose reads the leader answers.
    pub fn shown_position(&self) -> Option<u64> {
        self.local.as_ref().map(|local| local.shown.load(Ordering::Relaxed))
    }

    fn with_reads(&self, field: HeaderValue) -> Self {
        Client { parts: Arc::clone(&self.parts), local: Some(LocalReads::new(field)) }
    }
}
