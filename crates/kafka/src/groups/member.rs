//! A member of a group.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ask::{Join, Joined, NotJoined, Synced};

/// A member, and the answers that it waits for: at most one, of its newest ask.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) join: Join,
    pub(super) assignment: Bytes,
    /// When it is taken out, unless something is heard of it; not while it waits for an answer.
    pub(super) deadline: Instant,
    pub(super) joining: Option<oneshot::Sender<Result<Joined, NotJoined>>>,
    pub(super) syncing: Option<oneshot::Sender<Result<Synced, ResponseError>>>,
    /// Whether it asked what it is to read in this generation.
    pub(super) has_synced: bool,
}

impl Member {
    pub(super) fn new(join: Join, now: Instant) -> Self {
        let deadline = now + join.session_timeout;
        Member { join, assignment: Bytes::new(), deadline, joining: None, syncing: None, has_synced: false }
    }

    pub(super) fn hear(&mut self, now: Instant) {
        self.deadline = now + self.join.session_timeout;
    }

    /// Whether it waits for an answer that it can still be given.
    pub(super) fn is_waiting(&self) -> bool {
        self.joining.as_ref().is_some_and(|answer| !answer.is_closed())
            || self.syncing.as_ref().is_some_and(|answer| !answer.is_closed())
    }

    /// Waits for the next generation. An older ask of the same member is told to ask again.
    pub(super) fn wait_to_join(&mut self, answer: oneshot::Sender<Result<Joined, NotJoined>>) {
        if let Some(older) = self.joining.replace(answer) {
            let (code, member) = (ResponseError::RebalanceInProgress, self.join.member.clone());
            let _ = older.send(Err(NotJoined { code, member }));
        }
    }

    /// Whether it wants to share partitions as before.
    pub(super) fn wants_the_same(&self, join: &Join) -> bool {
        self.join.protocols == join.protocols
    }

    /// What it said about this protocol.
    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.join.protocols.iter().find(|(name, _)| name == protocol);
        found.map_or_else(Bytes::new, |(_, metadata)| metadata.clone())
    }

    /// Tells it, if it waits, that it is none any more.
    pub(super) fn end(mut self, code: ResponseError) {
        if let Some(joining) = self.joining.take() {
            let _ = joining.send(Err(NotJoined { code, member: self.join.member.clone() }));
        }
        if let Some(syncing) = self.syncing.take() {
            let _ = syncing.send(Err(code));
        }
    }
}
