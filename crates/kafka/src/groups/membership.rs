//! The members of a group, and their pending requests. This code never waits, and gets the current
//! time as an argument.
//!
//! ```text
//! Empty ──a member joins──▶ Joining ──all are back, or their time is up──▶ (generation committed) ──▶ Syncing
//!   ▲                          ▲                                                                        │
//!   └── no member is left ─────┤◀──── a member joins, leaves, times out, or changes its request ────────┤
//!                              └──────────────────────────────── Stable ◀──── the leader has shared out ┘
//! ```

mod join;
mod leave;
mod next;
mod sync;

use std::collections::{BTreeMap, HashMap};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::GroupLimits;
use super::ask::{DescribedMember, GroupStatus, JoinRefusal, JoinReply};
use super::member::MemberState;
pub(super) use next::NextGeneration;

/// Maximum bytes of the members of a group, and of their assignments.
pub(crate) const GROUP_BYTES_MAX: usize = 16 << 20;

type JoinAnswer = oneshot::Sender<Result<JoinReply, JoinRefusal>>;

/// The state of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupPhase {
    Empty,
    /// Waits for its members to rejoin, until the deadline.
    Joining {
        until: Instant,
    },
    /// Waits for the leader's assignments, and for every member to request its own, until the
    /// deadline.
    Syncing {
        until: Instant,
    },
    Stable,
}

/// The members of a group.
#[derive(Debug)]
pub(super) struct Membership {
    /// The present limits; its task sets them before each request.
    pub(super) limits: GroupLimits,
    phase: GroupPhase,
    generation: i32,
    protocol_type: String,
    protocol: String,
    leader: String,
    members: BTreeMap<String, MemberState>,
    /// The ids of the static members, including those of a generation before a restart.
    statics: HashMap<String, String>,
    /// Ids that were assigned to joining members, and when they expire.
    promised: HashMap<String, Instant>,
}

impl Membership {
    /// Creates a group without members, with this generation and these static members.
    pub(super) fn new(limits: GroupLimits, generation: i32, statics: HashMap<String, String>) -> Self {
        Membership {
            limits,
            phase: GroupPhase::Empty,
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

    /// Whether the group has no state left.
    pub(super) fn is_idle(&self) -> bool {
        self.phase == GroupPhase::Empty && self.members.is_empty() && self.promised.is_empty()
    }

    pub(super) fn describe(&self) -> GroupStatus {
        let members = self.members.values().map(|member| DescribedMember {
            member: member.join.member.clone(),
            instance: member.join.instance.clone(),
            client: member.join.client.clone(),
            host: member.join.host.clone(),
            metadata: member.metadata(&self.protocol),
            assignment: member.assignment.bytes.clone(),
        });
        let state = match self.phase {
            GroupPhase::Empty => "Empty",
            GroupPhase::Joining { .. } => "PreparingRebalance",
            GroupPhase::Syncing { .. } => "CompletingRebalance",
            GroupPhase::Stable => "Stable",
        };
        GroupStatus {
            state,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            members: members.collect(),
        }
    }
}
