//! The open connections to other nodes, and what waits to be sent over each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::agreement::NodeId;

/// The most bytes of records that wait for one connection.
const RECORD_BYTES_WAITING_MAX: usize = 8 << 20;

/// The most bytes of all frames that wait for one connection.
const BYTES_WAITING_MAX: usize = 12 << 20;

/// Frames are joined until they have as many bytes.
const TOGETHER_BYTES: usize = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct PeerLinks(Mutex<LinkTable>);

#[derive(Debug, Default)]
struct LinkTable {
    last_id: u64,
    links: BTreeMap<NodeId, Vec<PeerLink>>,
}

#[derive(Debug)]
struct PeerLink {
    id: u64,
    frames: UnboundedSender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

/// The end of a link that belongs to its connection.
#[derive(Debug)]
pub(super) struct LinkEnd {
    pub(super) id: u64,
    frames: UnboundedReceiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

impl LinkEnd {
    /// The next frames to send, small ones together: one write costs less than several. `None` when
    /// the link is closed. A call that is cancelled takes nothing.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        let mut frames = self.frames.recv().await?;
        while frames.len() < TOGETHER_BYTES
            && let Ok(frame) = self.frames.try_recv()
        {
            frames.extend(frame);
        }
        Some(frames)
    }

    /// Whether no frame waits.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Notes that this many bytes of frames were sent.
    pub(super) fn sent(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::AcqRel);
    }
}

impl PeerLinks {
    /// Adds a connection to a node.
    pub(super) fn add(&self, node: NodeId) -> LinkEnd {
        let (sender, frames) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut table = self.table();
        table.last_id += 1;
        let id = table.last_id;
        table.links.entry(node).or_default().push(PeerLink { id, frames: sender, waiting: Arc::clone(&waiting) });
        LinkEnd { id, frames, waiting }
    }

    /// Closes a connection.
    pub(crate) fn close(&self, node: NodeId, id: u64) {
        if let Some(links) = self.table().links.get_mut(&node) {
            links.retain(|link| link.id != id);
        }
    }

    /// Closes every connection to a node.
    pub(super) fn close_all_of(&self, node: NodeId) {
        self.table().links.remove(&node);
    }

    /// Closes every connection.
    pub(crate) fn close_all(&self) {
        self.table().links.clear();
    }

    /// Whether a node is connected.
    pub(crate) fn is_connected(&self, node: NodeId) -> bool {
        self.table().links.get(&node).is_some_and(|links| !links.is_empty())
    }

    /// Sends a frame to a node. Returns whether it is on its way: it is not when the node is not
    /// connected, or does not read what was sent before.
    pub(crate) fn send(&self, node: NodeId, has_records: bool, frame: impl FnOnce() -> Vec<u8>) -> bool {
        let table = self.table();
        let Some(link) = table.links.get(&node).and_then(|links| links.first()) else { return false };
        let most = if has_records { RECORD_BYTES_WAITING_MAX } else { BYTES_WAITING_MAX };
        // A frame that is larger than the bound is sent alone.
        if link.waiting.load(Ordering::Acquire) >= most {
            return false;
        }
        let frame = frame();
        link.waiting.fetch_add(frame.len(), Ordering::AcqRel);
        link.frames.send(frame).is_ok()
    }

    fn table(&self) -> MutexGuard<'_, LinkTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_wait_up_to_a_bound_and_a_closed_link_gets_none() {
        let node = NodeId::new(2).expect("not zero");
        let links = PeerLinks::default();
        let frame = || vec![0; 1 << 20];
        assert!(!links.send(node, true, frame), "not connected");
        let mut end = links.add(node);
        for _ in 0..8 {
            assert!(links.send(node, true, frame));
        }
        assert!(!links.send(node, true, frame), "8 MiB of records wait");
        assert!(links.send(node, false, || vec![1; 9]), "a message without records is sent");
        for _ in 0..2 {
            let sent = end.next().await.expect("it waits");
            assert_eq!(sent.len(), 1 << 20, "a large frame is sent alone");
            end.sent(sent.len());
        }
        assert!(links.send(node, true, frame));
        let second = links.add(node);
        links.close(node, end.id);
        assert!(links.is_connected(node));
        links.close(node, second.id);
        assert!(!links.is_connected(node) && !links.send(node, false, frame));
    }

    #[tokio::test]
    async fn small_frames_are_sent_together_in_order() {
        let node = NodeId::new(2).expect("not zero");
        let links = PeerLinks::default();
        let mut end = links.add(node);
        for number in 0..3 {
            assert!(links.send(node, true, || vec![number; 2]));
        }
        assert_eq!(end.next().await, Some(vec![0, 0, 1, 1, 2, 2]));
        end.sent(6);
        assert!(end.is_empty());
        links.close(node, end.id);
        assert_eq!(end.next().await, None);
    }
}
