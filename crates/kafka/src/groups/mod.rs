//! The coordinator of consumer groups (the classic protocol: KIP-62, KIP-134, KIP-345, KIP-394).
//!
//! ```text
//! JoinGroup, SyncGroup, Heartbeat, LeaveGroup ──▶ GroupRequest ──▶ Keeper, a task for each group ──▶ Membership
//!                                                              │   decides nothing that is kept:
//!                                                              └──▶ commits each generation, then answers its members
//! ```
//!
//! Membership is soft state: it exists only here, and ends with the server; members then rejoin.
//! The log holds the state that must outlive the server: the offsets, the generation, which fences
//! earlier members, and the ids of static members.

mod ask;
mod keeper;
mod member;
mod membership;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quire::Database;
use quire_access::LiveSettings;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use uuid::Uuid;

use ask::GroupRequest;
pub(crate) use ask::{
    ClaimedMember, DescribedMember, GroupStatus, Join, JoinRefusal, JoinReply, MemberIdentity, Sync, SyncReply,
};
use kafka_protocol::ResponseError;
use keeper::Keeper;
pub(crate) use membership::GROUP_BYTES_MAX;

use crate::Settings;
use crate::permissions::PermittedGroup;

/// How many requests may wait for a group's task.
const ASKS_MAX: usize = 1024;

/// The groups that have members, or had some a moment ago.
#[derive(Debug)]
pub(crate) struct GroupCoordinator {
    database: Database,
    settings: Arc<LiveSettings<Settings>>,
    kept: Arc<Mailboxes>,
    ids: MemberIds,
    keepers: Mutex<JoinSet<()>>,
}

/// The settings for groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupLimits {
    pub(crate) members_max: usize,
    pub(crate) initial_delay_ms: u64,
}

impl GroupLimits {
    fn of(settings: &Settings) -> Self {
        GroupLimits { members_max: settings.group_members_max, initial_delay_ms: settings.group_initial_delay_ms }
    }
}

/// The mailboxes of the tasks, by group name.
#[derive(Debug, Default)]
struct Mailboxes(Mutex<HashMap<String, mpsc::Sender<GroupRequest>>>);

impl Mailboxes {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<GroupRequest>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Generates member ids that are unique, also across restarts.
#[derive(Debug, Clone)]
struct MemberIds(Arc<RandomState>, Arc<AtomicU64>);

impl MemberIds {
    fn new_for(&self, client: &str) -> String {
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        let half = |salt: u8| {
            let mut hasher = self.0.build_hasher();
            hasher.write_u64(number);
            hasher.write_u8(salt);
            hasher.finish()
        };
        format!("{client}-{}", Uuid::from_u64_pair(half(0), half(1)))
    }
}

impl GroupCoordinator {
    pub(crate) fn new(database: Database, settings: Arc<LiveSettings<Settings>>) -> Self {
        GroupCoordinator {
            database,
            settings,
            kept: Arc::default(),
            ids: MemberIds(Arc::new(RandomState::new()), Arc::default()),
            keepers: Mutex::default(),
        }
    }

    /// Joins a group. The reply comes when its next generation begins, or at once when the member
    /// is in the current one.
    pub(crate) async fn join(&self, group: PermittedGroup<'_>, join: Join) -> Result<JoinReply, JoinRefusal> {
        let failed = |code| JoinRefusal { code, member: String::new() };
        let answer = self.ask(group, |answer| GroupRequest::Join(Box::new(join), answer)).await;
        answer.map_err(failed)?
    }

    /// Waits for the member's assignment.
    pub(crate) async fn sync(&self, group: PermittedGroup<'_>, sync: Sync) -> Result<SyncReply, ResponseError> {
        self.ask(group, |answer| GroupRequest::Sync(sync, answer)).await?
    }

    pub(crate) async fn heartbeat(&self, group: PermittedGroup<'_>, who: ClaimedMember) -> Result<(), ResponseError> {
        self.ask(group, |answer| GroupRequest::Heartbeat(who, answer)).await?
    }

    /// Removes members; each gets its own reply.
    pub(crate) async fn leave(
        &self,
        group: PermittedGroup<'_>,
        members: Vec<MemberIdentity>,
    ) -> Result<Vec<Result<(), ResponseError>>, ResponseError> {
        self.ask(group, |answer| GroupRequest::Leave(members, answer)).await
    }

    /// Reports that the connection has ended through which a member joined.
    pub(crate) async fn abandon(&self, group: &str, member: String) {
        if self.is_kept(group) {
            self.send(group, GroupRequest::Abandon(member)).await;
        }
    }

    /// Whether this member may commit offsets now. The commit checks the generation again.
    pub(crate) async fn may_commit(
        &self,
        group: PermittedGroup<'_>,
        who: Option<ClaimedMember>,
    ) -> Result<(), ResponseError> {
        if who.is_none() && !self.is_kept(group.name()) {
            return Ok(());
        }
        self.ask(group, |answer| GroupRequest::MayCommit(who, answer)).await?
    }

    /// Describes a group with its members; `None` when it has none.
    pub(crate) async fn describe(&self, group: PermittedGroup<'_>) -> Result<Option<GroupStatus>, ResponseError> {
        if !self.is_kept(group.name()) {
            return Ok(None);
        }
        let described = self.ask(group, GroupRequest::Describe).await?;
        Ok((described.state != "Empty").then_some(described))
    }

    /// Lists the groups that may have members.
    pub(crate) fn names(&self) -> Vec<String> {
        self.kept.lock().keys().cloned().collect()
    }

    fn is_kept(&self, group: &str) -> bool {
        self.kept.lock().contains_key(group)
    }

    /// Sends a request to a group's task, and starts the task when there is none.
    async fn ask<T>(
        &self,
        group: PermittedGroup<'_>,
        ask: impl FnOnce(oneshot::Sender<T>) -> GroupRequest,
    ) -> Result<T, ResponseError> {
        let (sender, answer) = oneshot::channel();
        self.send(group.name(), ask(sender)).await;
        // The task panicked: its members rejoin.
        answer.await.map_err(|_| ResponseError::NotCoordinator)
    }

    async fn send(&self, group: &str, mut ask: GroupRequest) {
        loop {
            let keeper = self.keeper(group);
            // A task ends only when it is idle; one that just ended is replaced.
            match keeper.send(ask).await {
                Ok(()) => return,
                Err(refused) => ask = refused.0,
            }
        }
    }

    fn keeper(&self, group: &str) -> mpsc::Sender<GroupRequest> {
        let mut kept = self.kept.lock();
        if let Some(keeper) = kept.get(group).filter(|keeper| !keeper.is_closed()) {
            return keeper.clone();
        }
        let (sender, asks) = mpsc::channel(ASKS_MAX);
        kept.insert(group.to_owned(), sender.clone());
        let settings = Arc::clone(&self.settings);
        let keeper = Keeper::new(group.to_owned(), self.database.clone(), settings, self.ids.clone());
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        while keepers.try_join_next().is_some() {}
        keepers.spawn(keeper.run(asks, Arc::clone(&self.kept)));
        sender
    }

    /// Endpoints every task, and waits until none of them holds the database.
    pub(crate) async fn shutdown(&self) {
        let mut keepers = std::mem::take(&mut *self.keepers.lock().unwrap_or_else(PoisonError::into_inner));
        keepers.shutdown().await;
        self.kept.lock().clear();
    }
}
