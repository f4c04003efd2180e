//! The connections: limited in number, and all of them cut when the server has to end.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::app::closing;

/// Maximum number of connections; further ones wait in the listener's queue.
const CONNECTIONS_MAX: usize = 4_096;

type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Accepts connections. Dropping it stops listening.
pub(crate) struct Connections {
    listener: Arc<TcpListener>,
    free: Arc<Semaphore>,
    /// When the remaining connections are cut.
    cut: watch::Receiver<bool>,
    next: BoxedFuture<Connection>,
}

impl Connections {
    pub(crate) fn new(listener: TcpListener, cut: watch::Receiver<bool>) -> Self {
        let (listener, free) = (Arc::new(listener), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
        let next = next(Arc::clone(&listener), Arc::clone(&free), cut.clone());
        Connections { listener, free, cut, next }
    }
}

impl Stream for Connections {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Connection>>> {
        let connection = ready!(self.next.as_mut().poll(context));
        self.next = next(Arc::clone(&self.listener), Arc::clone(&self.free), self.cut.clone());
        Poll::Ready(Some(Ok(connection)))
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// Accepts the next connection, once there is a permit.
fn next(listener: Arc<TcpListener>, free: Arc<Semaphore>, cut: watch::Receiver<bool>) -> BoxedFuture<Connection> {
    Box::pin(async move {
        let permit = free.acquire_owned().await.expect("the semaphore is never closed");
        let stream = accept(&listener).await;
        // Messages are written whole, so delaying small packets only adds latency. A failure to set
        // the option is harmless.
        let _ = stream.set_nodelay(true);
        Connection { stream, cut: Box::pin(closing(cut)), _permit: permit }
    })
}

/// Accepts the next connection. A failure to accept concerns only that connection, or is temporary
/// (no free file handle), so it is retried.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A connection, which ends with an error when it is cut.
pub(crate) struct Connection {
    stream: TcpStream,
    cut: BoxedFuture<()>,
    _permit: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A connection always has a pending read, so this also wakes a silent one.
        if self.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("stream", &self.stream).finish_non_exhaustive()
    }
}
