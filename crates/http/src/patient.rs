//! A connection with a write timeout: a client that stops reading for too long is disconnected, and
//! the memory of its response is released.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream with a write timeout; see the module.
#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// When the timeout expires; `None` while the client reads.
    end: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Patient { stream, patience, end: None }
    }

    /// Checks the result of a write; a pending one may wait until the timeout.
    fn waited(&mut self, context: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if wrote.is_ready() {
            self.end = None;
            return wrote;
        }
        let patience = self.patience;
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(end.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.waited(context, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.waited(context, wrote)
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// More than the client reads at once.
    const BYTES: [u8; 1000] = [7; 1000];

    #[tokio::test]
    async fn who_takes_nothing_is_given_up() {
        let (server, _client) = duplex(16);
        let written = Patient::new(server, Duration::from_millis(10)).write_all(&BYTES).await;
        assert_eq!(written.expect_err("nobody reads").kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn who_takes_a_little_at_a_time_gets_all() {
        let (server, mut client) = duplex(16);
        let mut server = Patient::new(server, Duration::from_secs(600));
        let mut taken = Vec::new();
        let take = async {
            while taken.len() < BYTES.len() {
                client.read_buf(&mut taken).await.expect("more");
            }
        };
        let (written, ()) = tokio::join!(server.write_all(&BYTES), take);
        written.expect("all is taken");
        assert_eq!(taken, BYTES);
    }
}
