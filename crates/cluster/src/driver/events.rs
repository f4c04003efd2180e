//! What reaches the driver from other threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use quire_log::LogWatcher;
use quire_system::MemberAddresses;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::agreement::NodeId;
use crate::net::PeerIdentity;
use crate::shard::{ChangeRefusal, PeerPacket};

/// How a change of the members ended.
pub type ChangeOutcome = Result<(), ChangeRefusal>;

/// An event for the driver.
#[derive(Debug)]
pub(crate) enum DriverEvent {
    /// A packet of another node, which arrived over this link.
    Packet { link: u64, packet: Box<PeerPacket>, _space: OwnedSemaphorePermit },
    /// A connection with a node has ended: packets may be lost.
    Unreachable(NodeId),
    /// A read waits until this node knows that it leads.
    Read(oneshot::Sender<ChangeOutcome>),
    /// A command, and where its outcome goes.
    Command(NodeCommand, oneshot::Sender<ChangeOutcome>),
}

/// A command for the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeCommand {
    /// Make a node a member, or note its addresses.
    Join(PeerIdentity, MemberAddresses),
    /// Remove a member.
    Remove(NodeId),
    /// Hand the office over, to this node or to the one that is closest.
    HandOver(Option<NodeId>),
}

/// The answer to a node that asks to join.
#[derive(Debug)]
pub(crate) enum JoinOutcome {
    Joined,
    LeaderIs(String),
    Refused(String),
}

/// The events that the driver has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct DriverMailbox {
    events: Mutex<OpenEvents>,
    /// Whether records were appended or synced since the driver looked.
    has_moved: AtomicBool,
    is_stopping: AtomicBool,
    driver: OnceLock<Thread>,
    leader: Mutex<LeaderAddress>,
    files: Mutex<FilesSent>,
}

/// The events, in order; `None` once the driver has ended.
#[derive(Debug)]
struct OpenEvents(Option<Vec<DriverEvent>>);

impl Default for OpenEvents {
    fn default() -> Self {
        OpenEvents(Some(Vec::new()))
    }
}

/// The node that leads, for nodes that ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum LeaderAddress {
    #[default]
    Unknown,
    This,
    /// Its address between nodes.
    Other(String),
}

/// The files that other nodes fetch.
#[derive(Debug, Default)]
struct FilesSent {
    is_open: bool,
    /// The node that fetched files last.
    ended: Option<NodeId>,
}

/// A node fetches files until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    mailbox: Arc<DriverMailbox>,
    node: NodeId,
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        *self.mailbox.files() = FilesSent { is_open: false, ended: Some(self.node) };
    }
}

impl DriverMailbox {
    /// Notes the thread of the driver, which calls it first.
    pub(super) fn begin(&self) {
        let _ = self.driver.set(std::thread::current());
    }

    /// Gives an event to the driver. Once the driver has ended, the event is dropped, so that who
    /// waits for its outcome learns of the end.
    pub(crate) fn push(&self, event: DriverEvent) {
        if let Some(events) = &mut self.events().0 {
            events.push(event);
        }
        self.wake();
    }

    /// Takes all events, in order.
    pub(super) fn take(&self) -> Vec<DriverEvent> {
        self.events().0.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Drops all events, and each later one.
    pub(super) fn close(&self) {
        self.events().0 = None;
    }

    /// Whether records were appended or synced since the last call.
    pub(super) fn take_moved(&self) -> bool {
        self.has_moved.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Notes that a node begins to fetch files, one at a time. `None` while another one does.
    pub(crate) fn begin_files(self: &Arc<Self>, node: NodeId) -> Option<OpenFiles> {
        let mut files = self.files();
        let is_free = !std::mem::replace(&mut files.is_open, true);
        is_free.then(|| OpenFiles { mailbox: Arc::clone(self), node })
    }

    /// Whether a node fetches files, and the node that has ended since the last call.
    pub(super) fn take_files(&self) -> (bool, Option<NodeId>) {
        let mut files = self.files();
        (files.is_open, files.ended.take())
    }

    fn files(&self) -> MutexGuard<'_, FilesSent> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_leader(&self, leader: LeaderAddress) {
        *self.leader.lock().unwrap_or_else(PoisonError::into_inner) = leader;
    }

    pub(crate) fn leader(&self) -> LeaderAddress {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Carries out a command, and returns its outcome.
    pub(crate) async fn command(&self, command: NodeCommand) -> ChangeOutcome {
        let (reply, outcome) = oneshot::channel();
        self.push(DriverEvent::Command(command, reply));
        outcome.await.unwrap_or(Err(ChangeRefusal::Stopped))
    }

    /// Waits until a majority has confirmed that this node leads, after this call.
    pub(crate) async fn confirm(&self) -> ChangeOutcome {
        let (reply, outcome) = oneshot::channel();
        self.push(DriverEvent::Read(reply));
        outcome.await.unwrap_or(Err(ChangeRefusal::Stopped))
    }

    pub(crate) async fn join(&self, from: PeerIdentity, addresses: MemberAddresses) -> JoinOutcome {
        match self.command(NodeCommand::Join(from, addresses)).await {
            Ok(()) => JoinOutcome::Joined,
            Err(ChangeRefusal::Invalid(reason)) => JoinOutcome::Refused(reason),
            // The other node asks again.
            Err(_) => JoinOutcome::LeaderIs(match self.leader() {
                LeaderAddress::Other(address) => address,
                LeaderAddress::Unknown | LeaderAddress::This => String::new(),
            }),
        }
    }

    fn wake(&self) {
        if let Some(driver) = self.driver.get() {
            driver.unpark();
        }
    }

    fn events(&self) -> MutexGuard<'_, OpenEvents> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogWatcher for DriverMailbox {
    fn moved(&self) {
        if !self.has_moved.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_read_of_a_driver_that_has_ended_is_answered() {
        let mailbox = Arc::new(DriverMailbox::default());
        let waiting = tokio::spawn({
            let mailbox = Arc::clone(&mailbox);
            async move { mailbox.confirm().await }
        });
        while mailbox.events().0.as_ref().is_none_or(Vec::is_empty) {
            tokio::task::yield_now().await;
        }
        mailbox.close();
        assert_eq!(waiting.await.expect("answered"), Err(ChangeRefusal::Stopped));
        assert_eq!(mailbox.confirm().await, Err(ChangeRefusal::Stopped));
    }
}
