//! The state that all connections share: the database, the settings and the counters.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use kafka_protocol::ResponseError;
use quire::streams::{Command, Reply};
use quire::{Commit, Database, Operation, Outcome, Part, PermittedView, Resource};
use quire_access::budget::ByteBudget;
use quire_access::sasl::SaslAuthenticator;
use quire_access::{ConnectionCounters, Forwarder, LiveSettings, QuotaBuckets, ServedDatabase, TokenVerifier, Traffic};
use tokio::sync::Semaphore;

use crate::auto_creation::CreationRate;
use crate::close_reason::CloseReason;
use crate::decompression::Decompressor;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::groups::GroupCoordinator;
use crate::items::TURNS;
use crate::permissions::PermittedGroup;
use crate::request_timer::RequestTimer;
use crate::waiting::WaitingFetches;
use crate::{Counters, Settings};

/// The id of a broker that is alone.
pub(crate) const BROKER_ID: i32 = 0;

/// The leader epoch in every batch. Published records are never truncated, so clients need no epoch
/// to find out.
pub(crate) const LEADER_EPOCH: i32 = 0;

#[derive(Debug)]
pub(crate) struct Broker {
    served: ServedDatabase,
    settings: Arc<LiveSettings<Settings>>,
    /// The listeners, in their order.
    listeners: Vec<BrokerListener>,
    pub(crate) groups: GroupCoordinator,
    pub(crate) budget: ByteBudget,
    pub(crate) authenticator: SaslAuthenticator,
    pub(crate) unpacking: Decompressor,
    /// The turns of requests with many items.
    pub(crate) item_turns: Arc<Semaphore>,
    pub(crate) waiting: WaitingFetches,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) auto_creations: CreationRate,
    pub(crate) quotas: QuotaBuckets,
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
        // Generations are the broker's own work: each request of a member is checked before.
        let groups = GroupCoordinator::new(database.clone(), Arc::clone(&settings));
        let served = ServedDatabase::new(database).with_audit("kafka");
        let (unpacking, waiting) = (Decompressor::new(), WaitingFetches::default());
        let traffic = Arc::default();
        let counters = Arc::new(Counters::new(connections));
        let auto_creations = CreationRate::default();
        Ok(Broker {
            served,
            settings,
            listeners: Vec::new(),
            groups,
            budget,
            authenticator: SaslAuthenticator::new()?,
            unpacking,
            item_turns: Arc::new(Semaphore::new(TURNS)),
            waiting,
            traffic,
            auto_creations,
            quotas: QuotaBuckets::default(),
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

    /// The database as the client of the running request may use it.
    pub(crate) fn database(&self) -> Database {
        self.served.get()
    }

    /// Accepts tokens of an OpenID provider.
    pub(crate) fn accept_tokens(&mut self, tokens: Arc<TokenVerifier>) {
        self.authenticator.accept_tokens(tokens);
    }

    /// Audits no logins and denials.
    pub(crate) fn stop_audit(&mut self) {
        self.served = self.served.clone().without_audit();
    }

    /// The database and the sessions of its clients.
    pub(crate) fn served(&self) -> &ServedDatabase {
        &self.served
    }

    /// The database without a guard: for the broker's own work, and for facts that every client may
    /// know.
    pub(crate) fn owner(&self) -> &Database {
        self.served.owner()
    }

    /// The id of the database, of which the ids of topics are made.
    pub(crate) fn database_id(&self) -> u128 {
        self.owner().id()
    }

    /// The size of the largest batch.
    pub(crate) fn batch_bytes_max(&self) -> u32 {
        self.owner().batch_bytes_max()
    }

    /// Whether metadata requests create missing topics.
    pub(crate) fn creates_topics(&self) -> bool {
        self.settings().auto_create_topics.unwrap_or_else(|| !self.served.is_access_enabled())
    }

    /// Checks that the client may perform the operation on the resource.
    ///
    /// # Errors
    /// The error for the client.
    pub(crate) fn check(&self, resource: Resource<'_>, operation: Operation) -> Result<(), KafkaError> {
        Ok(self.database().check_permission(resource, operation)?)
    }

    /// Checks that the client may perform the operation on the cluster.
    ///
    /// # Errors
    /// The error for the client.
    pub(crate) fn check_cluster(&self, operation: Operation) -> Result<(), KafkaError> {
        self.check(Resource::CLUSTER, operation)
    }

    /// Checks that this broker coordinates the group, and that the client may perform the operation
    /// on it.
    ///
    /// # Errors
    /// The error for the client.
    pub(crate) fn group<'g>(&self, name: &'g str, operation: Operation) -> Result<PermittedGroup<'g>, KafkaError> {
        self.check_coordinates()?;
        PermittedGroup::check(&self.database(), name, operation)
    }

    /// Checks that this broker coordinates groups: it is alone, or the leader of its cluster.
    ///
    /// # Errors
    /// The client must ask for the coordinator again.
    pub(crate) fn check_coordinates(&self) -> Result<(), KafkaError> {
        let other = || KafkaError::new(ResponseError::NotCoordinator, "another node coordinates all groups");
        self.serves().then_some(()).ok_or_else(other)
    }

    /// Forwards requests, where another node leads now.
    pub(crate) fn forwarding(&self) -> Option<&Forwarder> {
        self.served.forwarding()
    }

    /// Forwards requests to the leader while another node leads.
    pub(crate) fn forward_with(&mut self, forwarding: Forwarder) {
        self.served = self.served.clone().with_forwarding(forwarding);
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
        match self.database().submit(&Commit::new().part(Part::Streams(command)))?.await? {
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
            let tried = self.database().read_published_permitted(|view| view.would(*first))??;
            return tried.map(drop).map_err(KafkaError::from);
        }
        let commit = commands.iter().fold(Commit::new(), |commit, command| commit.part(Part::Streams(*command)));
        match self.database().submit(&commit)?.await? {
            Outcome::Committed(_) => Ok(()),
            Outcome::Refused(refused) => Err(refused.into()),
        }
    }

    /// Reads durable state. `look` checks what it shows.
    ///
    /// # Errors
    /// When the database has failed.
    pub(crate) async fn read<T>(&self, look: impl FnOnce(u128, &PermittedView<'_>) -> T) -> Result<T, CloseReason> {
        if !self.serves() {
            return self.read_of_node(look).map_err(|_| CloseReason::Failed);
        }
        let id = self.database_id();
        let ticket = self.database().read_permitted(|view| look(id, view)).map_err(|_| CloseReason::Failed)?;
        ticket.await.map_err(|_| CloseReason::Failed)
    }

    /// Reads the published log. `look` checks what it shows.
    ///
    /// # Errors
    /// When the database has failed.
    pub(crate) fn read_published<T>(&self, look: impl FnOnce(u128, &PermittedView<'_>) -> T) -> quire::Result<T> {
        let id = self.database_id();
        self.database().read_published_permitted(|view| look(id, view))
    }

    /// Reads the published log, and on a node that does not lead its own state: clients learn
    /// topics and leaders from any node. `look` checks what it shows.
    ///
    /// # Errors
    /// When the database has failed.
    pub(crate) fn read_of_node<T>(&self, look: impl FnOnce(u128, &PermittedView<'_>) -> T) -> quire::Result<T> {
        if self.serves() {
            return self.read_published(look);
        }
        let id = self.database_id();
        self.database().read_local_permitted(|view| look(id, view))
    }

    /// Counts a request after its response of `sent_bytes` was written.
    pub(crate) fn answered(&self, timer: RequestTimer, sent_bytes: usize) {
        timer.end(&self.traffic.kafka, self.counters.connections(), sent_bytes);
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}
