//! The two halves of a TCP or TLS stream, for a protocol that reads while it writes.
//!
//! The halves of a plain stream are those of its socket. The halves of a TLS stream share the state
//! of TLS, and the writing half keeps the socket: only the socket shows a client that leaves while
//! earlier bytes are unread.

use std::future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, ReadHalf, WriteHalf, split};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::stream::{Socket, Stream};
use crate::tls::TlsByteStream;

/// The poll event for a client that closed the connection, even while earlier bytes are unread. On
/// Linux no other event has this name, because out-of-band data is not polled. On other systems it
/// arrives together with readable data.
#[cfg(target_os = "linux")]
const CLOSING: Interest = Interest::PRIORITY;
#[cfg(not(target_os = "linux"))]
const CLOSING: Interest = Interest::READABLE;

/// The reading half of a TCP or TLS stream.
#[derive(Debug)]
pub struct StreamReader(ReaderKind);

#[derive(Debug)]
enum ReaderKind {
    Tcp(OwnedReadHalf),
    Tls(ReadHalf<TlsByteStream>),
}

/// The writing half of a TCP or TLS stream. Over TLS, written bytes are sent at the latest when it
/// is flushed.
#[derive(Debug)]
pub struct StreamWriter(WriterKind);

#[derive(Debug)]
enum WriterKind {
    Tcp(OwnedWriteHalf),
    Tls { half: WriteHalf<TlsByteStream>, socket: Socket },
}

impl Stream {
    /// Splits a TCP or TLS stream; `None` for a Unix socket.
    pub fn into_halves(self) -> Option<(StreamReader, StreamWriter)> {
        match self {
            Stream::Tcp(stream) => {
                let (reader, writer) = stream.into_split();
                Some((StreamReader(ReaderKind::Tcp(reader)), StreamWriter(WriterKind::Tcp(writer))))
            }
            Stream::Tls(stream) => {
                let socket = stream.socket.clone();
                let (reader, half) = split(stream.bytes);
                Some((StreamReader(ReaderKind::Tls(reader)), StreamWriter(WriterKind::Tls { half, socket })))
            }
            Stream::Unix(_) => None,
        }
    }
}

impl StreamWriter {
    /// Waits until the client has closed its side. Waits forever once something is to be read: the
    /// protocol then reads it, and calls this again.
    pub async fn client_closed(&self) {
        let ready = match &self.0 {
            WriterKind::Tcp(half) => half.ready(CLOSING).await,
            WriterKind::Tls { socket, .. } => socket.0.ready(CLOSING).await,
        };
        if ready.is_ok_and(|ready| !ready.is_read_closed()) {
            future::pending::<()>().await;
        }
    }
}

impl AsyncRead for StreamReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            ReaderKind::Tcp(half) => Pin::new(half).poll_read(context, buffer),
            ReaderKind::Tls(half) => Pin::new(half).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for StreamWriter {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            WriterKind::Tcp(half) => Pin::new(half).poll_write(context, bytes),
            WriterKind::Tls { half, .. } => Pin::new(half).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            WriterKind::Tcp(half) => Pin::new(half).poll_write_vectored(context, pieces),
            WriterKind::Tls { half, .. } => Pin::new(half).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            WriterKind::Tcp(half) => half.is_write_vectored(),
            WriterKind::Tls { half, .. } => half.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            WriterKind::Tcp(half) => Pin::new(half).poll_flush(context),
            WriterKind::Tls { half, .. } => Pin::new(half).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            WriterKind::Tcp(half) => Pin::new(half).poll_shutdown(context),
            WriterKind::Tls { half, .. } => Pin::new(half).poll_shutdown(context),
        }
    }
}
