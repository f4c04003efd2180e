//! A member of a group.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use quire_access::budget::ByteClaim;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ask::{Join, JoinRefusal, JoinReply, SyncReply};

/// A member, and at most one waiting reply, to its newest request.
#[derive(Debug)]
pub(super) struct MemberState {
    pub(super) join: Join,
    pub(super) assignment: MemberAssignment,
    /// When its session expires. A session does not expire while a reply waits.
    pub(super) deadline: Instant,
    pub(super) joining: Option<oneshot::Sender<Result<JoinReply, JoinRefusal>>>,
    pub(super) syncing: Option<oneshot::Sender<Result<SyncReply, ResponseError>>>,
    /// Whether it requested its assignment in this generation.
    pub(super) has_synced: bool,
    /// Whether it requested an assignment in any generation.
    pub(super) has_ever_synced: bool,
}

/// The assignment of a member, and its memory.
#[derive(Debug, Default)]
pub(super) struct MemberAssignment {
    pub(super) bytes: Bytes,
    _claim: Option<ByteClaim>,
}

impl MemberAssignment {
    pub(super) fn new(bytes: Bytes, claim: ByteClaim) -> Self {
        MemberAssignment { bytes, _claim: Some(claim) }
    }
}

impl MemberState {
    pub(super) fn new(join: Join, now: Instant) -> Self {
        let deadline = now + join.session_timeout;
        MemberState {
            join,
            assignment: MemberAssignment::default(),
            deadline,
            joining: None,
            syncing: None,
            has_synced: false,
            has_ever_synced: false,
        }
    }

    pub(super) fn hear(&mut self, now: Instant) {
        self.deadline = now + self.join.session_timeout;
    }

    /// Whether a reply waits that can still be sent.
    pub(super) fn is_waiting(&self) -> bool {
        self.joining.as_ref().is_some_and(|answer| !answer.is_closed())
            || self.syncing.as_ref().is_some_and(|answer| !answer.is_closed())
    }

    /// Waits for the next generation. An older request of the same member gets "rebalance in
    /// progress".
    pub(super) fn wait_to_join(&mut self, answer: oneshot::Sender<Result<JoinReply, JoinRefusal>>) {
        if let Some(older) = self.joining.replace(answer) {
            let (code, member) = (ResponseError::RebalanceInProgress, self.join.member.clone());
            let _ = older.send(Err(JoinRefusal { code, member }));
        }
    }

    /// Whether it supports the same protocols as before.
    pub(super) fn wants_the_same(&self, join: &Join) -> bool {
        self.join.protocols == join.protocols
    }

    /// Its metadata for this protocol.
    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.join.protocols.iter().find(|(name, _)| name == protocol);
        found.map_or_else(Bytes::new, |(_, metadata)| metadata.clone())
    }

    /// Replies, if it waits, that it is no longer a member.
    pub(super) fn end(mut self, code: ResponseError) {
        if let Some(joining) = self.joining.take() {
            let _ = joining.send(Err(JoinRefusal { code, member: self.join.member.clone() }));
        }
        if let Some(syncing) = self.syncing.take() {
            let _ = syncing.send(Err(code));
        }
    }
}
