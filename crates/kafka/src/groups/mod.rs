//! The coordinator of consumer groups (the classic protocol: KIP-62, KIP-134, KIP-345, KIP-394).
//!
//! ```text
//! JoinGroup, SyncGroup, Heartbeat, LeaveGroup ──▶ Ask ──▶ Keeper, a task for each group ──▶ Membership
//!                                                              │   decides nothing that is kept:
//!                                                              └──▶ commits each generation, then answers its members
//! ```
//!
//! Who is a member is soft state: it is here only, and ends with the server; members then join anew. What must outlive it is
//! in the log: the offsets, the number of the generation, which fences off who was a member before, and who has the place of
//! each static member.

mod ask;
mod keeper;
mod member;
mod membership;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quire::Database;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use uuid::Uuid;

use ask::Ask;
pub(crate) use ask::{Described, DescribedMember, Identity, Join, Joined, NotJoined, Sync, Synced, Who};
use kafka_protocol::ResponseError;
use keeper::Keeper;

use crate::Settings;

/// How many asks may wait for a group's keeper.
const ASKS_MAX: usize = 1024;

/// The groups that have, or had a moment ago, a member.
#[derive(Debug)]
pub(crate) struct Groups {
    database: Database,
    limits: Limits,
    kept: Arc<Kept>,
    ids: Ids,
    keepers: Mutex<JoinSet<()>>,
}

/// What the settings say about groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) members_max: usize,
    pub(crate) initial_delay_ms: u64,
}

/// The keepers' mailboxes, by the groups' names.
#[derive(Debug, Default)]
struct Kept(Mutex<HashMap<String, mpsc::Sender<Ask>>>);

impl Kept {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<Ask>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes ids for members that nobody else has, also not before a restart.
#[derive(Debug, Clone)]
struct Ids(Arc<RandomState>, Arc<AtomicU64>);

impl Ids {
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

impl Groups {
    pub(crate) fn new(database: Database, settings: &Settings) -> Self {
        let limits =
            Limits { members_max: settings.group_members_max, initial_delay_ms: settings.group_initial_delay_ms };
        Groups {
            database,
            limits,
            kept: Arc::default(),
            ids: Ids(Arc::new(RandomState::new()), Arc::default()),
            keepers: Mutex::default(),
        }
    }

    /// Joins a group; answered when its next generation begins, or at once when the member is in the current one.
    pub(crate) async fn join(&self, group: &str, join: Join) -> Result<Joined, NotJoined> {
        let failed = |code| NotJoined { code, member: String::new() };
        let answer = self.ask(group, |answer| Ask::Join(Box::new(join), answer)).await;
        answer.map_err(failed)?
    }

    /// Waits for what the leader gives this member to read.
    pub(crate) async fn sync(&self, group: &str, sync: Sync) -> Result<Synced, ResponseError> {
        self.ask(group, |answer| Ask::Sync(sync, answer)).await?
    }

    pub(crate) async fn heartbeat(&self, group: &str, who: Who) -> Result<(), ResponseError> {
        self.ask(group, |answer| Ask::Heartbeat(who, answer)).await?
    }

    /// Takes members out, each answered by itself.
    pub(crate) async fn leave(
        &self,
        group: &str,
        members: Vec<Identity>,
    ) -> Result<Vec<Result<(), ResponseError>>, ResponseError> {
        self.ask(group, |answer| Ask::Leave(members, answer)).await
    }

    /// Whether this member may commit offsets now. The generation is checked again where they are committed.
    pub(crate) async fn may_commit(&self, group: &str, who: Option<Who>) -> Result<(), ResponseError> {
        if who.is_none() && !self.is_kept(group) {
            return Ok(());
        }
        self.ask(group, |answer| Ask::MayCommit(who, answer)).await?
    }

    /// The group with its members; `None` when it has none.
    pub(crate) async fn describe(&self, group: &str) -> Result<Option<Described>, ResponseError> {
        if !self.is_kept(group) {
            return Ok(None);
        }
        let described = self.ask(group, Ask::Describe).await?;
        Ok((described.state != "Empty").then_some(described))
    }

    /// The names of the groups that may have members.
    pub(crate) fn names(&self) -> Vec<String> {
        self.kept.lock().keys().cloned().collect()
    }

    fn is_kept(&self, group: &str) -> bool {
        self.kept.lock().contains_key(group)
    }

    /// Asks a group's keeper, and starts one when there is none.
    async fn ask<T>(&self, group: &str, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, ResponseError> {
        let (sender, answer) = oneshot::channel();
        let mut ask = ask(sender);
        loop {
            let keeper = self.keeper(group);
            // A keeper ends only when it has nothing to do; one that just did is replaced.
            match keeper.send(ask).await {
                Ok(()) => break,
                Err(refused) => ask = refused.0,
            }
        }
        // The keeper failed: its members join anew.
        answer.await.map_err(|_| ResponseError::NotCoordinator)
    }

    fn keeper(&self, group: &str) -> mpsc::Sender<Ask> {
        let mut kept = self.kept.lock();
        if let Some(keeper) = kept.get(group).filter(|keeper| !keeper.is_closed()) {
            return keeper.clone();
        }
        let (sender, asks) = mpsc::channel(ASKS_MAX);
        kept.insert(group.to_owned(), sender.clone());
        let keeper = Keeper::new(group.to_owned(), self.database.clone(), self.limits, self.ids.clone());
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        while keepers.try_join_next().is_some() {}
        keepers.spawn(keeper.run(asks, Arc::clone(&self.kept)));
        sender
    }

    /// Ends every keeper, and waits until they hold the database no more.
    pub(crate) async fn shutdown(&self) {
        let mut keepers = std::mem::take(&mut *self.keepers.lock().unwrap_or_else(PoisonError::into_inner));
        keepers.shutdown().await;
        self.kept.lock().clear();
    }
}
