//! What every connection has in common: the database, the settings and the counts.

use std::net::SocketAddr;
use std::sync::Arc;

use quire::streams::{Command, Reply};
use quire::{Commit, Database, Outcome, Part, View};

use crate::connection::Closed;
use crate::errors::Failure;
use crate::groups::Groups;
use crate::memory::Memory;
use crate::unpacking::Unpacking;
use crate::waiting::Waiting;
use crate::{Counters, Settings};

/// The number of the only broker there is.
pub(crate) const BROKER_ID: i32 = 0;

/// The leader epoch of every partition: leadership never changes hands here.
pub(crate) const LEADER_EPOCH: i32 = 0;

#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) database: Database,
    pub(crate) settings: Settings,
    pub(crate) groups: Groups,
    pub(crate) memory: Memory,
    pub(crate) unpacking: Unpacking,
    pub(crate) waiting: Waiting,
    counters: Arc<Counters>,
}

impl Broker {
    pub(crate) fn new(database: Database, settings: Settings) -> Self {
        let groups = Groups::new(database.clone(), &settings);
        let memory = Memory::new(settings.memory_bytes_max);
        let (unpacking, waiting) = (Unpacking::new(), Waiting::default());
        Broker { database, settings, groups, memory, unpacking, waiting, counters: Arc::default() }
    }

    /// Where clients are told to connect to; `local` is the address through which one did.
    pub(crate) fn address(&self, local: SocketAddr) -> (String, u16) {
        match &self.settings.advertised {
            Some(advertised) => (advertised.host.clone(), advertised.port),
            None => (local.ip().to_string(), local.port()),
        }
    }

    /// Commits one command, and waits until it is durable.
    ///
    /// # Errors
    /// Why it is refused, or what failed.
    pub(crate) async fn commit(&self, command: Command<'_>) -> Result<Reply, Failure> {
        match self.database.submit(&Commit::new().part(Part::Streams(command)))?.await? {
            Outcome::Committed(mut committed) => match committed.replies.pop() {
                Some(quire::Reply::Streams(reply)) => Ok(reply),
                other => unreachable!("a command of streams is answered by streams, not by {other:?}"),
            },
            Outcome::Refused(refused) => Err(refused.into()),
        }
    }

    /// The same, or only whether it would be done now, and how it would be answered.
    ///
    /// # Errors
    /// As [`Broker::commit`].
    pub(crate) async fn commit_or_try(&self, command: Command<'_>, only_try: bool) -> Result<Reply, Failure> {
        if !only_try {
            return self.commit(command).await;
        }
        let tried = self.database.read_published(|view| view.streams.would(view.history, command))?;
        tried.map_err(Failure::from)
    }

    /// Looks something up that is durable.
    ///
    /// # Errors
    /// When the database has failed.
    pub(crate) async fn read<T>(&self, look: impl FnOnce(u128, &View<'_>) -> T) -> Result<T, Closed> {
        let id = self.database.id();
        let ticket = self.database.read(|view| look(id, view)).map_err(|_| Closed::Failed)?;
        ticket.await.map_err(|_| Closed::Failed)
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}
