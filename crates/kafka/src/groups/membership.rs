//! The members of a group, and what they wait for. Nothing here waits itself, and time comes in as an argument.
//!
//! ```text
//! Empty ──a member joins──▶ Joining ──all are back, or their time is up──▶ (generation committed) ──▶ Syncing
//!   ▲                          ▲                                                                        │
//!   └── nobody is left ────────┤◀──── a member joins, leaves, is silent, or wants something else ───────┤
//!                              └──────────────────────────────── Stable ◀──── the leader has shared out ┘
//! ```

mod join;
mod leave;
mod next;
mod sync;

use std::collections::{BTreeMap, HashMap};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Limits;
use super::ask::{Described, DescribedMember, Joined, NotJoined};
use super::member::Member;
pub(super) use next::Next;

type JoinAnswer = oneshot::Sender<Result<Joined, NotJoined>>;

/// Where a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Empty,
    /// Waits for its members to join again, at most until then.
    Joining {
        until: Instant,
    },
    /// Waits for the leader to share out, and for everyone to ask, at most until then.
    Syncing {
        until: Instant,
    },
    Stable,
}

/// The members of a group.
#[derive(Debug)]
pub(super) struct Membership {
    limits: Limits,
    phase: Phase,
    generation: i32,
    protocol_type: String,
    protocol: String,
    leader: String,
    members: BTreeMap<String, Member>,
    /// The ids of the static members. Of a generation before a restart, too: they are known to have been given.
    statics: HashMap<String, String>,
    /// Ids that were given out to join with, and until when.
    promised: HashMap<String, Instant>,
}

impl Membership {
    /// A group without members, whose current generation and static members are these.
    pub(super) fn new(limits: Limits, generation: i32, statics: HashMap<String, String>) -> Self {
        Membership {
            limits,
            phase: Phase::Empty,
            generation,
            protocol_type: String::new(),
            protocol: String::new(),
            leader: String::new(),
            members: BTreeMap::new(),
            statics,
            promised: HashMap::new(),
        }
    }

    pub(super) fn generation(&self) -> i32 {
        self.generation
    }

    /// Whether there is nothing to keep.
    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Empty && self.members.is_empty() && self.promised.is_empty()
    }

    pub(super) fn describe(&self) -> Described {
        let members = self.members.values().map(|member| DescribedMember {
            member: member.join.member.clone(),
            instance: member.join.instance.clone(),
            client: member.join.client.clone(),
            host: member.join.host.clone(),
            metadata: member.metadata(&self.protocol),
            assignment: member.assignment.clone(),
        });
        let state = match self.phase {
            Phase::Empty => "Empty",
            Phase::Joining { .. } => "PreparingRebalance",
            Phase::Syncing { .. } => "CompletingRebalance",
            Phase::Stable => "Stable",
        };
        Described {
            state,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            members: members.collect(),
        }
    }
}
