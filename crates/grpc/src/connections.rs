//! The connections: admitted within limits, and all of them cut when the server has to end.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quire::system::Principal;
use quire_access::budget::{BudgetCaller, ByteBudget, FrontEnd};
use quire_access::{
    Admission, BoxedFuture, Connection, ConnectionActivity, ConnectionCounters, ConnectionPlace, FirstRequest,
    Listener, Peer, SessionCache,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use crate::Settings;
use crate::app::{DatabaseHold, closing};

/// Admits connections, and establishes several at a time. Dropping it stops listening.
pub(crate) struct Connections {
    listener: Arc<Listener>,
    settings: Settings,
    budget: ByteBudget,
    hold: DatabaseHold,
    /// When the remaining connections are cut.
    cut: watch::Receiver<bool>,
    next: BoxedFuture<Admission>,
    /// Connections in their handshake. Each has a place and a deadline.
    established: JoinSet<Option<CallConnection>>,
}

impl Connections {
    pub(crate) fn new(
        listener: Listener,
        settings: Settings,
        budget: ByteBudget,
        hold: DatabaseHold,
        cut: watch::Receiver<bool>,
    ) -> Self {
        let listener = Arc::new(listener);
        let next = next(Arc::clone(&listener));
        Connections { listener, settings, budget, hold, cut, next, established: JoinSet::new() }
    }

    fn establish(&mut self, admission: Admission) {
        let (first_request, budget) = (self.settings.connections.first_request(), self.budget.clone());
        let (hold, cut) = (self.hold.clone(), self.cut.clone());
        let needed = admission.place().needed();
        let mut cut: BoxedFuture<()> = Box::pin(async {
            tokio::select! {
                () = closing(cut) => {}
                // A new connection takes the place of this idle one.
                () = needed => {}
            }
        });
        self.established.spawn(async move {
            let (connection, peer, first) = tokio::select! {
                established = Connection::establish(admission, first_request) => established?,
                () = &mut cut => return None,
            };
            let caller = budget.caller(FrontEnd::Grpc, peer.ip());
            let identity = Arc::new(ConnectionIdentity::of_place(connection.place(), &peer, hold));
            Some(CallConnection { connection, first, peer, identity, caller, cut, is_cut: false })
        });
    }
}

impl Stream for Connections {
    type Item = io::Result<CallConnection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<CallConnection>>> {
        loop {
            match self.established.poll_join_next(context) {
                Poll::Ready(Some(Ok(Some(connection)))) => return Poll::Ready(Some(Ok(connection))),
                // The handshake failed; the counters have the reason.
                Poll::Ready(Some(Ok(None) | Err(_))) => {}
                Poll::Ready(None) | Poll::Pending => {
                    let admission = ready!(self.next.as_mut().poll(context));
                    self.next = next(Arc::clone(&self.listener));
                    self.establish(admission);
                }
            }
        }
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// Admits the next connection.
fn next(listener: Arc<Listener>) -> BoxedFuture<Admission> {
    Box::pin(async move { listener.accept().await })
}

/// A connection, which ends with an error when it is cut.
pub(crate) struct CallConnection {
    connection: Connection,
    first: FirstRequest,
    peer: Peer,
    identity: Arc<ConnectionIdentity>,
    caller: BudgetCaller,
    cut: BoxedFuture<()>,
    is_cut: bool,
}

impl CallConnection {
    /// Whether the connection must end. Otherwise the task is woken when it must.
    fn poll_cut(&mut self, context: &mut Context<'_>) -> bool {
        self.is_cut = self.is_cut || self.cut.as_mut().poll(context).is_ready();
        self.is_cut
    }

    /// Waits for a write only as long as the connection may last.
    fn waited(&mut self, context: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if wrote.is_pending() && self.poll_cut(context) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        wrote
    }
}

/// Who the client of a connection is.
#[derive(Debug)]
pub(crate) struct ConnectionIdentity {
    /// The session of the last call.
    pub(crate) sessions: SessionCache,
    /// The principal that the connection has verified.
    pub(crate) verified: Option<Principal>,
    /// The address of the client, as the audit has it.
    pub(crate) host: String,
    /// Whether another node forwards the connection. Its calls are not forwarded again.
    pub(crate) is_forwarded: bool,
    // Dropped after the sessions, which hold the database.
    _hold: DatabaseHold,
}

impl ConnectionIdentity {
    pub(crate) fn new(peer: &Peer, hold: DatabaseHold) -> Self {
        ConnectionIdentity {
            sessions: SessionCache::default(),
            verified: peer.verified(),
            host: peer.host(),
            is_forwarded: false,
            _hold: hold,
        }
    }

    /// The client of a connection with this place.
    fn of_place(place: &ConnectionPlace, peer: &Peer, hold: DatabaseHold) -> Self {
        let (verified, is_forwarded) = (place.verified(peer), place.is_forwarded());
        ConnectionIdentity { verified, is_forwarded, ..ConnectionIdentity::new(peer, hold) }
    }
}

/// What each call of a connection knows of it.
#[derive(Debug, Clone)]
pub(crate) struct CallOrigin {
    pub(crate) first: FirstRequest,
    pub(crate) peer: Peer,
    pub(crate) identity: Arc<ConnectionIdentity>,
    pub(crate) caller: BudgetCaller,
    pub(crate) activity: ConnectionActivity,
    pub(crate) counters: Arc<ConnectionCounters>,
}

impl Connected for CallConnection {
    type ConnectInfo = CallOrigin;

    fn connect_info(&self) -> CallOrigin {
        CallOrigin {
            first: self.first.clone(),
            peer: self.peer.clone(),
            identity: Arc::clone(&self.identity),
            caller: self.caller.clone(),
            activity: self.connection.place().activity().clone(),
            counters: Arc::clone(self.connection.place().counters()),
        }
    }
}

impl AsyncRead for CallConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A connection always has a pending read, so this also wakes a silent one.
        if self.poll_cut(context) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.connection).poll_read(context, buffer)
    }
}

impl AsyncWrite for CallConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.connection).poll_write(context, bytes);
        self.waited(context, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.connection).poll_write_vectored(context, slices);
        self.waited(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}

impl fmt::Debug for CallConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallConnection").field("connection", &self.connection).finish_non_exhaustive()
    }
}
