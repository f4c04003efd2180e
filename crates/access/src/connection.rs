//! A connection with deadlines: for its first request, for a client that stops reading, and for a
//! client that closed its side.
//!
//! The deadline of the first request is checked on reads: a protocol always has a pending read. The
//! timers exist only while they run.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::listener::{Admission, EstablishedConnection};
use crate::peer::Peer;
use crate::places::ConnectionPlace;
use crate::statistics::Deadline;
use crate::stream::Stream;

/// How long a client may not read available data. A client that follows events and is busy with one
/// also stops reading.
const RESPONSE_TIME: Duration = Duration::from_secs(600);

/// How long the request of a client that closed its side is still worked on, after each part of the
/// response that was sent. A client that has disconnected looks the same, so this is short.
const HALF_CLOSED_TIME: Duration = Duration::from_secs(1);

/// A connection with deadlines; see the module.
#[derive(Debug)]
pub struct Connection<S = Stream> {
    // Dropped before the stream: a client that sees the end of its connection finds a place.
    place: ConnectionPlace,
    stream: S,
    first: Option<FirstRequestTimer>,
    response_time: Duration,
    /// When the client must have read; `None` while it reads.
    response_end: Option<Pin<Box<Sleep>>>,
    half_closed: Option<HalfClosed>,
}

#[derive(Debug)]
struct FirstRequestTimer {
    arrived: FirstRequest,
    end: Pin<Box<Sleep>>,
}

/// Whether the first request of a connection has arrived.
#[derive(Debug, Clone, Default)]
pub struct FirstRequest(Arc<AtomicBool>);

impl FirstRequest {
    /// Records that a request has arrived: the deadline of the first request is over.
    pub fn arrived(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn has_arrived(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How the end of the client's data is handled while a request is answered.
#[derive(Debug)]
struct HalfClosed {
    time: Duration,
    told: watch::Sender<bool>,
    /// Running since the client closed its side.
    end: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    /// Establishes an admitted connection, and gives it its deadlines. `first_request` is the time
    /// until its first request, with its handshake. `None` when the handshake fails.
    pub async fn establish(admission: Admission, first_request: Duration) -> Option<(Self, Peer, FirstRequest)> {
        let end = Instant::now() + first_request;
        let EstablishedConnection { stream, peer, place } = admission.establish(end).await?;
        let arrived = FirstRequest::default();
        Some((Connection::over(stream, place, end, arrived.clone()), peer, arrived))
    }
}

impl<S> Connection<S> {
    fn over(stream: S, place: ConnectionPlace, first_end: Instant, arrived: FirstRequest) -> Self {
        Connection {
            place,
            stream,
            first: Some(FirstRequestTimer { arrived, end: Box::pin(sleep_until(first_end)) }),
            response_time: RESPONSE_TIME,
            response_end: None,
            half_closed: None,
        }
    }

    /// Keeps the end of the client's data back, so that a running request is answered: the returned
    /// signal becomes true at once, and the protocol reads the end a second later.
    pub fn answers_half_closed(&mut self) -> watch::Receiver<bool> {
        let (told, signal) = watch::channel(false);
        self.half_closed = Some(HalfClosed { time: HALF_CLOSED_TIME, told, end: None });
        signal
    }

    /// The connection's place.
    pub fn place(&self) -> &ConnectionPlace {
        &self.place
    }

    fn expired(&self, deadline: Deadline) -> io::Error {
        self.place.counters().expired(deadline);
        io::ErrorKind::TimedOut.into()
    }

    /// Checks the deadline of the first request.
    fn poll_first(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(first) = &mut self.first else { return Ok(()) };
        if first.arrived.has_arrived() {
            self.first = None;
        } else if first.end.as_mut().poll(context).is_ready() {
            return Err(self.expired(Deadline::FirstRequest));
        }
        Ok(())
    }

    /// Checks the result of a write; a pending one may wait until its deadline.
    fn waited(&mut self, context: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(done) = &wrote {
            self.place.counters().sent(*done.as_ref().unwrap_or(&0));
            if let Some(HalfClosed { time, end: Some(end), .. }) = &mut self.half_closed {
                end.as_mut().reset(Instant::now() + *time);
            }
        }
        self.until_response_end(context, wrote)
    }

    /// Checks the result of a write or a flush; a pending one may wait until its deadline.
    fn until_response_end<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.response_end = None;
            return done;
        }
        let time = self.response_time;
        let end = self.response_end.get_or_insert_with(|| Box::pin(sleep(time)));
        ready!(end.as_mut().poll(context));
        Poll::Ready(Err(self.expired(Deadline::Response)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.poll_first(context)?;
        if let Some(HalfClosed { end: Some(end), .. }) = &mut this.half_closed {
            return end.as_mut().poll(context).map(Ok);
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        this.place.counters().received(buffer.filled().len() - before);
        let is_end = buffer.filled().len() == before && buffer.remaining() > 0;
        match &mut this.half_closed {
            Some(half_closed) if is_end => {
                half_closed.told.send_replace(true);
                let end = half_closed.end.insert(Box::pin(sleep(half_closed.time)));
                end.as_mut().poll(context).map(Ok)
            }
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
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
        // TLS has bytes that are written and not yet sent.
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.until_response_end(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.place.activity().closes();
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use crate::places::Places;
    use crate::settings::ConnectionSettings;

    use super::*;

    /// More than the client reads at once.
    const BYTES: [u8; 1000] = [7; 1000];

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(10);

    fn connected(first_request: Duration) -> (Connection<DuplexStream>, FirstRequest, DuplexStream) {
        let (server, client) = duplex(16);
        let (address, arrived) = ("127.0.0.1:1".parse().expect("an address"), FirstRequest::default());
        let place = Places::new(&ConnectionSettings::default(), 0).take(&Peer::tcp(address, address));
        let end = Instant::now() + first_request;
        let connection = Connection::over(server, place.expect("a place"), end, arrived.clone());
        (connection, arrived, client)
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (mut server, _, _client) = connected(LONG);
        server.response_time = SHORT;
        let error = server.write_all(&BYTES).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(server.place().counters().statistics().ended_response, 1);
    }

    #[tokio::test]
    async fn a_client_that_reads_a_little_at_a_time_gets_all() {
        let (mut server, _, mut client) = connected(LONG);
        let mut taken = Vec::new();
        let take = async {
            while taken.len() < BYTES.len() {
                client.read_buf(&mut taken).await.expect("more");
            }
        };
        let (written, ()) = tokio::join!(server.write_all(&BYTES), take);
        written.expect("all is taken");
        assert_eq!(taken, BYTES);
        client.write_all(b"abc").await.expect("sent");
        server.read_exact(&mut [0; 3]).await.expect("received");
        let counts = server.place().counters().statistics();
        assert_eq!((counts.received_bytes, counts.sent_bytes), (3, BYTES.len() as u64));
    }

    #[tokio::test]
    async fn a_client_without_a_first_request_is_given_up_even_while_it_sends() {
        let (mut server, _, mut client) = connected(SHORT);
        let sending = tokio::spawn(async move { while client.write_all(&[0; 16]).await.is_ok() {} });
        let error = loop {
            if let Err(error) = server.read_u8().await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(server.place().counters().statistics().ended_first_request, 1);
        drop(server);
        sending.await.expect("it ends");
    }

    #[tokio::test]
    async fn after_the_first_request_a_connection_may_be_silent() {
        let (mut server, arrived, mut client) = connected(Duration::ZERO);
        arrived.arrived();
        client.write_all(b"a").await.expect("room");
        assert_eq!(server.read_u8().await.expect("a byte"), b'a');
    }

    #[tokio::test]
    async fn the_end_of_the_clients_data_is_reported_at_once_and_read_later() {
        let (mut server, _, mut client) = connected(LONG);
        let mut left = server.answers_half_closed();
        client.write_all(b"a").await.expect("room");
        client.shutdown().await.expect("half closed");
        assert_eq!(server.read_u8().await.expect("a byte"), b'a');
        tokio::select! {
            biased;
            _ = server.read_u8() => panic!("the end is kept back"),
            told = left.wait_for(|left| *left) => drop(told.expect("told")),
        }
        server.write_all(b"answer").await.expect("the client reads");
        let mut answer = [0; 6];
        client.read_exact(&mut answer).await.expect("answered");
        assert_eq!(&answer, b"answer");
        assert_eq!(server.read_u8().await.expect_err("the end").kind(), io::ErrorKind::UnexpectedEof);
    }
}
