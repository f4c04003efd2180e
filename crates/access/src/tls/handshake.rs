//! The handshake, and the byte stream behind it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::server::ServerTls;
use super::settings::{ClientCertificates, TlsProtocol};
use crate::peer::TlsPeer;
use crate::stream::Socket;

/// The byte stream of a TLS connection.
///
/// A client that leaves without the alert `close_notify` ends its data like any other: every
/// protocol here says how long its messages are, so a message that is cut off is noticed.
#[derive(Debug)]
pub(crate) struct TlsByteStream(TlsStream<Socket>);

impl ServerTls {
    /// Completes the handshake of a connection. The caller sets its deadline. rustls holds at most
    /// one message of 64 KiB of a client meanwhile.
    ///
    /// # Errors
    /// When the handshake fails, or the client is refused after it.
    pub(crate) async fn accept(&self, protocol: TlsProtocol, socket: Socket) -> io::Result<(TlsByteStream, TlsPeer)> {
        let state = self.state();
        let stream = TlsAcceptor::from(Arc::clone(state.config(protocol))).accept(socket).await?;
        let (_, session) = stream.get_ref();
        let refused = |why| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        if protocol.requires_negotiation() && session.alpn_protocol().is_none() {
            return refused("the client names no protocol (ALPN)");
        }
        let principal = match session.peer_certificates() {
            Some([own, ..]) => state.name_of(own)?,
            _ => None,
        };
        let needs_name = state.settings.client_certificates == ClientCertificates::Required
            && !state.settings.client_names.is_empty();
        if needs_name && principal.is_none() {
            return refused("no rule gives the certificate of the client a name");
        }
        Ok((TlsByteStream(stream), TlsPeer { principal: principal.map(Arc::from) }))
    }
}

impl AsyncRead for TlsByteStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.0).poll_read(context, buffer)) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => Poll::Ready(read),
        }
    }
}

impl AsyncWrite for TlsByteStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
