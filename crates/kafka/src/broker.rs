//! The state that all connections share: the database, the settings and the counters.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quire::streams::{Command, Reply};
use quire::{Commit, Database, Outcome, Part, ReadView};
use quire_access::budget::ByteBudget;
use quire_access::sasl::SaslAuthenticator;
use quire_access::{ConnectionCounters, LiveSettings, Traffic};

use crate::auto_creation::CreationRate;
use crate::close_reason::CloseReason;
use crate::decompression::Decompressor;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::groups::GroupCoordinator;
use crate::request_timer::RequestTimer;
use crate::waiting::WaitingFetches;
use crate::{Counters, Settings};

/// The id of the only broker.
pub(crate) const BROKER_ID: i32 = 0;

/// The leader epoch of every partition: leadership never changes here.
pub(crate) const LEADER_EPOCH: i32 = 0;

#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) database: Database,
    settings: Arc<LiveSettings<Settings>>,
    /// The listeners, in their order.
    listeners: Vec<BrokerListener>,
    pub(crate) groups: GroupCoordinator,
    pub(crate) budget: ByteBudget,
    pub(crate) authenticator: SaslAuthenticator,
    pub(crate) unpacking: Decompressor,
    pub(crate) waiting: WaitingFetches,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) auto_creations: CreationRate,
    counters: Arc<Counters>,
}

/// A listener of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BrokerListener {
    /// The address that it listens on.
    pub(crate) address: SocketAddr,
    pub(crate) has_tls: bool,
}

impl Broker {
    /// Creates the state behind listeners.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn new(
        database: Database,
        settings: Settings,
        connections: Arc<ConnectionCounters>,
    ) -> io::Result<Self> {
        let budget = ByteBudget::new(settings.memory_bytes_max);
        let settings = LiveSettings::new(settings);
        let groups = GroupCoordinator::new(database.clone(), Arc::clone(&settings));
        let (unpacking, waiting) = (Decompressor::new(), WaitingFetches::default());
        let traffic = Arc::default();
        let counters = Arc::new(Counters::new(connections));
        let auto_creations = CreationRate::default();
        Ok(Broker {
            database,
            settings,
            listeners: Vec::new(),
            groups,
            budget,
            authenticator: SaslAuthenticator::new()?,
            unpacking,
            waiting,
            traffic,
            auto_creations,
            counters,
        })
    }

    /// The listeners, in their order.
    pub(crate) fn listeners(&self) -> &[BrokerListener] {
        &self.listeners
    }

    /// Sets the listeners before the broker serves.
    pub(crate) fn listen_on(&mut self, listeners: Vec<BrokerListener>) {
        self.listeners = listeners;
    }

    /// The settings at this moment.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.current()
    }

    /// The settings, to replace them.
    pub(crate) fn live_settings(&self) -> Arc<LiveSettings<Settings>> {
        Arc::clone(&self.settings)
    }

    /// The address that the client of a connection is given to connect to.
    pub(crate) fn address(&self, ends: Endpoints) -> (String, u16) {
        match self.settings().advertised.get(ends.listener) {
            Some(advertised) => (advertised.host.clone(), advertised.port),
            None => (ends.local.ip().to_string(), ends.local.port()),
        }
    }

    /// Commits one command, and waits until it is durable.
    ///
    /// # Errors
    /// The refusal, or the error.
    pub(crate) async fn commit(&self, command: Command<'_>) -> Result<Reply, KafkaError> {
        match self.database.submit(&Commit::new().part(Part::Streams(command)))?.await? {
            Outcome::Committed(mut committed) => match committed.replies.pop() {
                Some(quire::Reply::Streams(reply)) => Ok(reply),
                other => unreachable!("a streams command gets a streams reply, not {other:?}"),
            },
            Outcome::Refused(refused) => Err(refused.into()),
        }
    }

    /// Commits commands together, and waits until they are durable; or only checks whether the
    /// first one would be refused now. The others must follow from it.
    ///
    /// # Errors
    /// The refusal, or the error.
    pub(crate) async fn commit_or_try(&self, commands: &[Command<'_>], only_try: bool) -> Result<(), KafkaError> {
        if let (true, Some(first)) = (only_try, commands.first()) {
            let tried = self.database.read_published(|view| view.would(*first))?;
            return tried.map(drop).map_err(KafkaError::from);
        }
        let commit = commands.iter().fold(Commit::new(), |commit, command| commit.part(Part::Streams(*command)));
        match self.database.submit(&commit)?.await? {
            Outcome::Committed(_) => Ok(()),
            Outcome::Refused(refused) => Err(refused.into()),
        }
    }

    /// Reads durable state.
    ///
    /// # Errors
    /// When the database has failed.
    pub(crate) async fn read<T>(&self, look: impl FnOnce(u128, &ReadView<'_>) -> T) -> Result<T, CloseReason> {
        let id = self.database.id();
        let ticket = self.database.read(|view| look(id, view)).map_err(|_| CloseReason::Failed)?;
        ticket.await.map_err(|_| CloseReason::Failed)
    }

    /// Counts a request after its response of `sent_bytes` was written.
    pub(crate) fn answered(&self, timer: RequestTimer, sent_bytes: usize) {
        timer.end(&self.traffic.kafka, self.counters.connections(), sent_bytes);
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}
