//! Requests that a node of a cluster forwards to the leader.
//!
//! ```text
//! client ─▶ front end of a node ─▶ connection between nodes ─▶ the same front end of the leader
//! ```
//! The connection begins with the client: its address, and the principal that the first node has
//! authenticated. Nodes trust each other. From then on it has the bytes of one request of the front
//! end's protocol, and of its response. The leader serves it like a connection of that client,
//! within the limits of the client's address.
//!
//! A forwarded request is not forwarded again. A node that does not lead refuses it.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use quire::system::Principal;
use tokio::sync::{Mutex, mpsc};

use crate::budget::FrontEnd;
use crate::future::BoxedFuture;
use crate::listener::{Admission, Listener};
use crate::peer::Peer;
use crate::places::Places;
use crate::stream::Stream;
use crate::tls::PeerStream;

/// How many forwarded connections may wait for their front end.
const WAITING_MAX: usize = 64;

/// Whose request is forwarded, and to which front end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardOrigin {
    /// The front end.
    pub front_end: FrontEnd,
    /// The client.
    pub peer: Peer,
    /// Who the client is, by what the node has authenticated. `None` when the request has its
    /// credential with it, and for a client without one.
    pub principal: Option<Principal>,
}

/// Marks a request that another node has forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardedRequest;

/// Connects to the leader.
pub trait LeaderConnector: fmt::Debug + Send + Sync {
    /// Opens a connection on which a request of this client and its response follow.
    ///
    /// # Errors
    /// When the leader is unknown, can't be reached or refuses. It has got nothing of the request
    /// then.
    fn connect(&self, origin: ForwardOrigin) -> BoxedFuture<io::Result<PeerStream>>;

    /// Waits until another node leads than now, or none. A leader that is gone without a word
    /// answers nothing, and its connections stay open.
    fn changed(&self) -> BoxedFuture<()>;
}

/// What the front ends and the node of a process share to forward requests. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Forwarder(Arc<ForwarderParts>);

#[derive(Debug, Default)]
struct ForwarderParts {
    connector: OnceLock<Arc<dyn LeaderConnector>>,
    /// In the order of [`FrontEnd::ALL`].
    entrances: [OnceLock<ForwardEntrance>; FrontEnd::ALL.len()],
}

impl Forwarder {
    /// From now on, requests can be forwarded. Only the first call has an effect.
    pub fn begin(&self, connector: Arc<dyn LeaderConnector>) {
        let _ = self.0.connector.set(connector);
    }

    /// Forwarded connections of this front end are admitted by this listener. Only the first call
    /// for a front end has an effect.
    pub fn listens(&self, front_end: FrontEnd, listener: &Listener) {
        let _ = self.entrance(front_end).set(listener.entrance());
    }

    /// Connects to the leader; `None` when this process forwards nothing.
    pub async fn connect(&self, origin: ForwardOrigin) -> Option<io::Result<PeerStream>> {
        Some(self.0.connector.get()?.connect(origin).await)
    }

    /// Waits until another node leads than now, or none. It waits forever where nothing is
    /// forwarded.
    pub fn changed(&self) -> BoxedFuture<()> {
        match self.0.connector.get() {
            Some(connector) => connector.changed(),
            None => Box::pin(std::future::pending()),
        }
    }

    /// Hands a connection that another node forwards to its front end. Drops it, so that it ends,
    /// when the front end does not listen, is stopping, or has no place for the client. `held` is
    /// dropped after the connection has ended.
    pub fn admit(&self, origin: ForwardOrigin, stream: Stream, held: impl fmt::Debug + Send + Sync + 'static) {
        if let Some(entrance) = self.entrance(origin.front_end).get() {
            let ForwardOrigin { peer, principal, .. } = origin;
            entrance.admit(stream, peer, ForwardedClient { principal, _held: Box::new(held) });
        }
    }

    fn entrance(&self, front_end: FrontEnd) -> &OnceLock<ForwardEntrance> {
        let index = FrontEnd::ALL.iter().position(|known| *known == front_end).expect("every front end is in the list");
        &self.0.entrances[index]
    }
}

/// The client of a forwarded connection.
#[derive(Debug)]
pub(crate) struct ForwardedClient {
    pub(crate) principal: Option<Principal>,
    /// What the connection holds until it ends.
    _held: Box<dyn HeldValue>,
}

/// A value that is only held.
trait HeldValue: fmt::Debug + Send + Sync {}

impl<T: fmt::Debug + Send + Sync> HeldValue for T {}

/// Where forwarded connections reach a listener.
#[derive(Debug)]
struct ForwardEntrance {
    places: Arc<Places>,
    sender: mpsc::Sender<Admission>,
}

impl ForwardEntrance {
    fn admit(&self, stream: Stream, peer: Peer, client: ForwardedClient) {
        let Ok(place) = self.places.take(&peer) else { return };
        // A full queue or a stopped listener ends the connection.
        let _ = self.sender.try_send(Admission::forwarded(stream, peer, place.of_forwarded(client)));
    }
}

/// The forwarded connections that a listener has not accepted yet.
#[derive(Debug, Default)]
pub(crate) struct ForwardQueue(OnceLock<Mutex<mpsc::Receiver<Admission>>>);

impl ForwardQueue {
    /// Returns the next connection. Waits forever where none are forwarded. Dropping the future
    /// loses no connection.
    pub(crate) async fn next(&self) -> Admission {
        let Some(queue) = self.0.get() else { return std::future::pending().await };
        match queue.lock().await.recv().await {
            Some(admission) => admission,
            None => std::future::pending().await,
        }
    }

    fn open(&self, places: &Arc<Places>) -> ForwardEntrance {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let _ = self.0.set(Mutex::new(receiver));
        ForwardEntrance { places: Arc::clone(places), sender }
    }
}

impl Listener {
    /// Lets forwarded connections in, besides those of its own socket. To be called before the
    /// first [`Listener::accept`].
    fn entrance(&self) -> ForwardEntrance {
        self.forwarded().open(self.places())
    }
}
