//! One connection: frames in, answers out, in the order of the requests.
//!
//! ```text
//! frames ──▶ Produce: committed now ──▶ waits for its turn and its durability ──▶ answer
//!        └─▶ anything else: when all before it are answered ──▶ handled ──▶ answer
//! ```
//!
//! A producer that pipelines is not slowed down to one sync a request, and still nothing is seen out of order. Memory is
//! bounded: a committed request has left its bytes behind in the log, and besides one other request only a few frames that
//! were read ahead are held.

use std::collections::VecDeque;
use std::future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, timeout, timeout_at};

use crate::api;
use crate::api::produce::Produce;
use crate::broker::Broker;
use crate::frame::{Frame, Frames};
use crate::pace::Pace;
use crate::request::{Api, Request};
use crate::sessions::Session;

/// How many produce requests of a connection may wait for their durability.
const PENDING_MAX: usize = 128;

/// How much is read ahead while a request is handled: until there are so many bytes, the last frame whole.
const AHEAD_BYTES: usize = 64 << 10;

/// How long is gone on with all that a producer sent that wants no answer, when it has gone: it has no reason to stay until all is
/// unpacked, and whoever sends what takes longer than that is owed nothing.
const LEFT_BEHIND: Duration = Duration::from_secs(5);

/// What is told of a connection when the client closes it, also while something that it sent is not read. Linux tells nothing else
/// under this name: what comes out of band is not asked for. Elsewhere it is told together with what is to be read.
#[cfg(target_os = "linux")]
const CLOSING: Interest = Interest::PRIORITY;
#[cfg(not(target_os = "linux"))]
const CLOSING: Interest = Interest::READABLE;

/// Why a connection is at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The client went.
    ByClient,
    /// What it sent is not the protocol.
    Malformed,
    /// What it asked for is not offered.
    Unsupported,
    /// It said nothing, or took nothing, for too long; or sent or took slowly what has memory that others waited for.
    Idle,
    /// A batch was refused and its producer wants no answer.
    Unacknowledged,
    /// There are as many connections as there may be.
    Surplus,
    /// The network, the database or this program failed.
    Failed,
}

/// Serves a connection until the client closes it.
///
/// # Errors
/// Why it has to be closed before that.
pub(crate) async fn serve(stream: TcpStream, broker: &Arc<Broker>) -> Result<(), Closed> {
    // Answers are written whole; waiting for more to send only adds latency.
    stream.set_nodelay(true).map_err(|_| Closed::Failed)?;
    let local = stream.local_addr().map_err(|_| Closed::Failed)?;
    let remote = stream.peer_addr().map_err(|_| Closed::Failed)?;
    let (input, output) = stream.into_split();
    let connection = Connection {
        broker,
        ends: Ends { local, remote },
        idle: Duration::from_millis(broker.settings.idle_timeout_ms),
        input: Input {
            frames: Frames::new(input, broker.settings.frame_bytes_max, broker.memory.clone(), Pace::USUAL),
            ahead: VecDeque::new(),
        },
        session: None,
        pending: VecDeque::new(),
        left_behind: None,
        output,
    };
    connection.run().await
}

/// The two ends of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// The address through which the client reached the server.
    pub(crate) local: SocketAddr,
    /// The client's own.
    pub(crate) remote: SocketAddr,
}

struct Connection<'b> {
    broker: &'b Arc<Broker>,
    ends: Ends,
    idle: Duration,
    input: Input,
    /// What the client fetches again and again.
    session: Option<Session>,
    /// Committed and not answered, in order.
    pending: VecDeque<api::produce::Pending>,
    /// Until when is gone on with what a client sent that has gone and wants no answer.
    left_behind: Option<Instant>,
    output: OwnedWriteHalf,
}

/// What comes from the client.
struct Input {
    frames: Frames<OwnedReadHalf>,
    /// The frames that came while a request was handled.
    ahead: VecDeque<Frame>,
}

impl Connection<'_> {
    async fn run(mut self) -> Result<(), Closed> {
        loop {
            // What can be answered is, also before what was read ahead: the system of a client that has gone tells so then, even
            // when the end of its stream can't come through for all that it sent.
            let frame = tokio::select! {
                biased;
                answer = answer_of_first(&mut self.pending), if !self.pending.is_empty() => {
                    self.pending.pop_front();
                    self.send(answer?).await?;
                    continue;
                }
                frame = timeout(self.idle, self.input.next()), if self.pending.len() < PENDING_MAX => {
                    frame.map_err(|_| Closed::Idle)??
                }
            };
            match frame {
                Some(frame) => self.take(frame).await?,
                None => return self.answer_pending().await,
            }
        }
    }

    /// Takes a request: commits it and leaves its answer for later, or handles and answers it.
    async fn take(&mut self, frame: Frame) -> Result<(), Closed> {
        let request = Request::read(frame)?;
        self.broker.counters().request();
        if request.api == Api::Produce {
            self.start(Produce::read(request)?).await?;
            return Ok(());
        }
        self.answer_pending().await?;
        let answer = {
            let mut handled = pin!(api::handle(self.broker, self.ends, &mut self.session, request));
            self.input.meanwhile(&self.output, handled.as_mut()).await?.ok_or(Closed::ByClient)??
        };
        // The memory of a large answer is given back when the client has taken it.
        match answer {
            Frame { bytes, held: None } => self.send(Some(bytes)).await,
            Frame { bytes, held: Some(_held) } => {
                let written = Pace::USUAL.write(&mut self.output, &bytes, &self.broker.memory);
                timeout(self.idle, written).await.map_err(|_| Closed::Idle)?
            }
        }
    }

    /// Commits what is produced. Of what is to be unpacked for that, nothing more is begun when the client has gone.
    async fn start(&mut self, produce: Produce) -> Result<(), Closed> {
        let wants_answer = produce.wants_answer();
        let mut started = pin!(produce.start(self.broker));
        let pending = match self.input.meanwhile(&self.output, started.as_mut()).await? {
            Some(pending) => pending,
            None if wants_answer => return Err(Closed::ByClient),
            None => {
                let until = *self.left_behind.get_or_insert_with(|| Instant::now() + LEFT_BEHIND);
                timeout_at(until, started).await.map_err(|_| Closed::ByClient)?
            }
        };
        self.pending.push_back(pending);
        Ok(())
    }

    async fn answer_pending(&mut self) -> Result<(), Closed> {
        while !self.pending.is_empty() {
            let answer = answer_of_first(&mut self.pending).await?;
            self.pending.pop_front();
            self.send(answer).await?;
        }
        Ok(())
    }

    async fn send(&mut self, answer: Option<Bytes>) -> Result<(), Closed> {
        let Some(answer) = answer else { return Ok(()) };
        let sent = timeout(self.idle, self.output.write_all(&answer)).await.map_err(|_| Closed::Idle)?;
        sent.map_err(|_| Closed::Failed)
    }
}

impl Input {
    /// The next frame; as [`Frames::next`].
    async fn next(&mut self) -> Result<Option<Frame>, Closed> {
        match self.ahead.pop_front() {
            Some(frame) => Ok(Some(frame)),
            None => self.frames.next().await,
        }
    }

    /// Waits for this, and reads ahead meanwhile; `None` when the client goes before.
    async fn meanwhile<T>(
        &mut self,
        output: &OwnedWriteHalf,
        mut handled: Pin<&mut impl Future<Output = T>>,
    ) -> Result<Option<T>, Closed> {
        let mut closed = pin!(closed(output));
        let mut ahead_bytes: usize = self.ahead.iter().map(|frame| frame.bytes.len()).sum();
        loop {
            tokio::select! {
                biased;
                handled = &mut handled => return Ok(Some(handled)),
                // The end of the stream stands behind whatever was sent before it, and not all of that is read ahead.
                () = &mut closed => return Ok(None),
                frame = self.frames.next(), if ahead_bytes < AHEAD_BYTES => match frame? {
                    Some(frame) => {
                        ahead_bytes += frame.bytes.len();
                        self.ahead.push_back(frame);
                    }
                    None => return Ok(None),
                },
            }
        }
    }
}

/// Waits until the client has closed its end.
async fn closed(output: &OwnedWriteHalf) {
    let ready = output.ready(CLOSING).await;
    if ready.is_ok_and(|ready| !ready.is_read_closed()) {
        // There is something to read, and whether the client goes is asked again with its next request.
        future::pending::<()>().await;
    }
}

/// The answer of the first that is pending; it stays there, so that the future can be dropped and asked for again.
async fn answer_of_first(pending: &mut VecDeque<api::produce::Pending>) -> Result<Option<Bytes>, Closed> {
    pending.front_mut().expect("only asked when something is pending").await
}
