//! The handshake, and the byte stream behind it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quire::Timestamp;
use quire::system::Principal;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificate;
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
            Some(chain @ [own, ..]) => match state.name_of(own)? {
                Some(name) => Some(Principal { expires: Some(expiry(chain)?), ..Principal::named(name) }),
                None => None,
            },
            _ => None,
        };
        let needs_name = state.settings.client_certificates == ClientCertificates::Required
            && !state.settings.client_names.is_empty();
        if needs_name && principal.is_none() {
            return refused("no rule gives the certificate of the client a name");
        }
        Ok((TlsByteStream(stream), TlsPeer { principal }))
    }
}

/// The time from which on no certificate of a chain is valid. Its last second counts as valid.
///
/// # Errors
/// When a certificate can't be read.
fn expiry(chain: &[CertificateDer<'_>]) -> io::Result<Timestamp> {
    let mut end = i64::MAX;
    for certificate in chain {
        end = end.min(certificate::end(certificate)?);
    }
    let after_ms = u64::try_from(end).unwrap_or(0).saturating_add(1).saturating_mul(1_000);
    Ok(Timestamp::from_millis(after_ms))
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
