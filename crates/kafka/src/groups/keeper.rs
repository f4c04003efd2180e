//! The task of one group. It handles one request after another, so no two changes of a group
//! overlap. It ends when the group has no member and no request is waiting.

use std::collections::HashMap;
use std::sync::Arc;

use kafka_protocol::ResponseError;
use quire::streams::{Command, Generation, Refusal, StaticMember};
use quire::{Commit, Database, Outcome, Part, Reason};
use quire_access::LiveSettings;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep_until};

use super::ask::{GroupRequest, Join};
use super::membership::{Membership, NextGeneration};
use super::{GroupLimits, Mailboxes, MemberIds};
use crate::Settings;

/// How long an idle task waits for further requests.
const IDLE_REST: Duration = Duration::from_secs(1);

/// The task of a group; see the module.
#[derive(Debug)]
pub(super) struct Keeper {
    group: String,
    database: Database,
    settings: Arc<LiveSettings<Settings>>,
    ids: MemberIds,
}

impl Keeper {
    pub(super) fn new(
        group: String,
        database: Database,
        settings: Arc<LiveSettings<Settings>>,
        ids: MemberIds,
    ) -> Self {
        Keeper { group, database, settings, ids }
    }

    fn limits(&self) -> GroupLimits {
        GroupLimits::of(&self.settings.current())
    }

    pub(super) async fn run(self, mut asks: mpsc::Receiver<GroupRequest>, kept: Arc<Mailboxes>) {
        // A failed database answers no request: the senders get "not coordinator".
        let Ok((generation, statics)) = self.read().await else {
            kept.lock().remove(&self.group);
            return;
        };
        let mut membership = Membership::new(self.limits(), generation, statics);
        loop {
            let now = Instant::now();
            if membership.is_idle() {
                // Under the lock no other task can send, and only the map holds the mailbox. So no
                // further request can arrive.
                let mut kept = kept.lock();
                if asks.is_empty() && asks.sender_strong_count() == 1 {
                    kept.remove(&self.group);
                    return;
                }
            }
            let idle_until = membership.is_idle().then(|| now + IDLE_REST);
            let until = membership.next_deadline(now).or(idle_until);
            let ask = tokio::select! {
                ask = asks.recv() => match ask {
                    Some(ask) => Some(ask),
                    // The server ends.
                    None => return,
                },
                () = sleep_until(until.unwrap_or(now)), if until.is_some() => None,
            };
            if let Some(ask) = ask {
                self.take(&mut membership, ask).await;
            }
            let now = Instant::now();
            membership.expire(now);
            if membership.is_complete(now) {
                let next = membership.next();
                self.begin(&mut membership, next).await;
            }
        }
    }

    async fn take(&self, membership: &mut Membership, ask: GroupRequest) {
        let now = Instant::now();
        membership.limits = self.limits();
        match ask {
            GroupRequest::Join(join, answer) => {
                let id = self.ids.new_for(&join.client);
                if membership.replaces(&join).is_some() && self.replace(membership, &join, &id).await.is_err() {
                    // Nothing has changed. The joining members get "not coordinator", and retry.
                    return;
                }
                membership.join(*join, id, now, answer);
            }
            // If the sender has disconnected, the reply is not needed.
            GroupRequest::Sync(sync, answer) => membership.sync(sync, now, answer),
            GroupRequest::Heartbeat(who, answer) => drop(answer.send(membership.heartbeat(&who, now))),
            GroupRequest::Leave(members, answer) => {
                let left = members.iter().map(|member| membership.leave(member, now)).collect();
                drop(answer.send(left));
            }
            GroupRequest::MayCommit(who, answer) => drop(answer.send(membership.may_commit(who.as_ref(), now))),
            GroupRequest::Describe(answer) => drop(answer.send(membership.describe())),
            GroupRequest::Abandon(member) => membership.abandon(&member, now),
        }
    }

    /// The group according to the log.
    async fn read(&self) -> quire::Result<(i32, HashMap<String, String>)> {
        let found = self.database.read(|view| {
            let generation = view.streams.group_named(&self.group).map_or(0, |group| group.generation.get());
            let statics = view.streams.static_members(&self.group);
            let statics = statics.map(|member| (member.instance.to_owned(), member.member.to_owned())).collect();
            (i32::try_from(generation).unwrap_or(i32::MAX), statics)
        })?;
        found.await
    }

    /// Begins the next generation: first in the log, then among its members.
    async fn begin(&self, membership: &mut Membership, next: NextGeneration) {
        let number = membership.generation() + 1;
        let members: Vec<StaticMember<'_>> =
            next.statics.iter().map(|(instance, member)| StaticMember { instance, member }).collect();
        let command = Command::BeginGeneration {
            group: &self.group,
            generation: Generation::new(number as u32),
            protocol_type: &next.protocol_type,
            protocol: &next.protocol,
            members: &members,
        };
        let outcome = self.commit(command).await;
        drop(members);
        match outcome {
            Ok(None) => membership.begin(number, next, Instant::now()),
            // Another coordinator led the group meanwhile, or the group was deleted. Its generation
            // number continues.
            Ok(Some(Refusal::StaleGeneration { current, .. })) => {
                let current = i32::try_from(current.get()).unwrap_or(i32::MAX);
                membership.fail(current, ResponseError::NotCoordinator, Instant::now());
            }
            // The group is of another type while embedded consumers share it by leases.
            Ok(Some(Refusal::GroupHasMembers { .. })) => membership.refuse(ResponseError::InconsistentGroupProtocol),
            Ok(Some(_)) | Err(_) => {
                membership.fail(membership.generation(), ResponseError::NotCoordinator, Instant::now());
            }
        }
    }

    async fn replace(&self, membership: &Membership, join: &Join, id: &str) -> Result<(), ()> {
        let instance = join.instance.as_deref().unwrap_or_default();
        let command = Command::ReplaceMember {
            group: &self.group,
            generation: Generation::new(membership.generation() as u32),
            member: StaticMember { instance, member: id },
        };
        match self.commit(command).await {
            Ok(None) => Ok(()),
            Ok(Some(_)) | Err(_) => Err(()),
        }
    }

    /// Commits a command, and waits until it is durable. Returns the refusal, if it is refused.
    async fn commit(&self, command: Command<'_>) -> quire::Result<Option<Refusal>> {
        let submitted = self.database.submit(&Commit::new().part(Part::Streams(command)))?;
        Ok(match submitted.await? {
            Outcome::Committed(_) => None,
            Outcome::Refused(refused) => match refused.reason {
                Reason::Streams(refusal) => Some(refusal),
                reason => unreachable!("a streams command gets a streams refusal, not {reason}"),
            },
        })
    }
}
