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
//!
//! The requests that a node forwards at a time are bounded, in all and for each address. So they
//! leave places at the leader for the connections of the agreement.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use quire::system::Principal;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Mutex, mpsc};

use crate::activity::RunningRequest;
use crate::budget::FrontEnd;
use crate::future::BoxedFuture;
use crate::listener::{Admission, Listener};
use crate::peer::Peer;
use crate::places::{ConnectionPlace, Places};
use crate::settings::ConnectionSettings;
use crate::stream::Stream;
use crate::tls::PeerStream;

/// How many forwarded connections may wait for their front end.
const WAITING_MAX: usize = 64;

/// The most requests that a node forwards at a time, and the most of one address. The port between
/// nodes admits 2,048 connections of an address.
const FORWARDED_MAX: usize = 512;
const FORWARDED_OF_ADDRESS_MAX: usize = FORWARDED_MAX / 2;

/// When a client may retry whose request has no place.
const RETRY_AFTER: Duration = Duration::from_secs(1);

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
    fn connect(&self, origin: ForwardOrigin) -> BoxedFuture<io::Result<LeaderConnection>>;
}

/// A connection to the leader.
pub struct LeaderConnection {
    /// The bytes.
    pub stream: PeerStream,
    /// Ready when the node at the other end leads no longer, as far as this node knows. A node that
    /// is gone without a word answers nothing, and its connections stay open.
    pub deposed: BoxedFuture<()>,
}

impl fmt::Debug for LeaderConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderConnection").finish_non_exhaustive()
    }
}

/// Why a request is not forwarded. The leader has got nothing of it.
#[derive(Debug)]
pub enum ForwardRefusal {
    /// This process forwards nothing, or the leader is unknown, can't be reached or refuses.
    NoLeader,
    /// This node forwards too many requests now, in all or of this client.
    Busy(ForwardsBusy),
}

/// A request without a place among those that a node forwards.
#[derive(Debug)]
pub struct ForwardsBusy;

impl ForwardsBusy {
    /// When the client may retry.
    pub fn retry_after(&self) -> Duration {
        RETRY_AFTER
    }
}

impl fmt::Display for ForwardsBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this node forwards {FORWARDED_MAX} requests to the leader at a time, {FORWARDED_OF_ADDRESS_MAX} of one \
             address: ask the leader, or retry later"
        )
    }
}

impl std::error::Error for ForwardsBusy {}

/// A stream that holds its place until it ends.
struct HeldStream {
    stream: PeerStream,
    _running: Option<RunningRequest>,
    _place: ConnectionPlace,
}

impl AsyncRead for HeldStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for HeldStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// What the front ends and the node of a process share to forward requests. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Forwarder(Arc<ForwarderParts>);

#[derive(Debug)]
struct ForwarderParts {
    connector: OnceLock<Arc<dyn LeaderConnector>>,
    /// In the order of [`FrontEnd::ALL`].
    entrances: [OnceLock<ForwardEntrance>; FrontEnd::ALL.len()],
    /// The places of requests that are forwarded.
    places: Arc<Places>,
}

impl Default for ForwarderParts {
    fn default() -> Self {
        let bounds = ConnectionSettings {
            connections_max: FORWARDED_MAX,
            connections_per_address_max: Some(FORWARDED_OF_ADDRESS_MAX),
            ..ConnectionSettings::default()
        };
        let (connector, entrances) = (OnceLock::new(), Default::default());
        ForwarderParts { connector, entrances, places: Places::new(&bounds, 0) }
    }
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

    /// Connects to the leader.
    ///
    /// # Errors
    /// The request may be sent again, here or to the leader.
    pub async fn connect(&self, origin: ForwardOrigin) -> Result<LeaderConnection, ForwardRefusal> {
        let connector = self.0.connector.get().ok_or(ForwardRefusal::NoLeader)?;
        let place = self.0.places.take(&origin.peer).map_err(|_| ForwardRefusal::Busy(ForwardsBusy))?;
        // A place without a running request would go to another client.
        let running = place.activity().begin();
        let LeaderConnection { stream, deposed } =
            connector.connect(origin).await.map_err(|_| ForwardRefusal::NoLeader)?;
        Ok(LeaderConnection { stream: Box::new(HeldStream { stream, _running: running, _place: place }), deposed })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Connects to nobody.
    #[derive(Debug)]
    struct Nowhere;

    impl LeaderConnector for Nowhere {
        fn connect(&self, _: ForwardOrigin) -> BoxedFuture<io::Result<LeaderConnection>> {
            let stream: PeerStream = Box::new(tokio::io::duplex(16).0);
            Box::pin(async { Ok(LeaderConnection { stream, deposed: Box::pin(std::future::pending()) }) })
        }
    }

    #[tokio::test]
    async fn the_forwarded_requests_are_bounded_in_all_and_for_each_address() {
        let forwarder = Forwarder::default();
        let of = |client: &str| {
            let address = |text: &str| text.parse().expect("an address");
            let peer = Peer::tcp(address("127.0.0.1:7070"), address(&format!("{client}:5")));
            ForwardOrigin { front_end: FrontEnd::Http, peer, principal: None }
        };
        assert!(matches!(forwarder.connect(of("192.0.2.1")).await, Err(ForwardRefusal::NoLeader)));
        forwarder.begin(Arc::new(Nowhere));
        let mut open = Vec::new();
        for _ in 0..FORWARDED_OF_ADDRESS_MAX {
            open.push(forwarder.connect(of("192.0.2.1")).await.expect("a place"));
        }
        assert!(matches!(forwarder.connect(of("192.0.2.1")).await, Err(ForwardRefusal::Busy(_))));
        for _ in FORWARDED_OF_ADDRESS_MAX..FORWARDED_MAX {
            open.push(forwarder.connect(of("192.0.2.2")).await.expect("the other half is free"));
        }
        assert!(matches!(forwarder.connect(of("192.0.2.3")).await, Err(ForwardRefusal::Busy(_))));
        open.pop();
        forwarder.connect(of("192.0.2.3")).await.expect("a request has ended");
    }
}
