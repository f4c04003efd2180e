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
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use crate::api;
use crate::broker::Broker;
use crate::frame::{Frame, Frames, Pace};
use crate::request::{Api, Request};
use crate::sessions::Session;

/// How many produce requests of a connection may wait for their durability.
const PENDING_MAX: usize = 128;

/// How much is read ahead while a request is handled, to notice that the client goes: until there are so many bytes, the
/// last frame whole.
const AHEAD_BYTES: usize = 64 << 10;

/// Why a connection is at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The client went.
    ByClient,
    /// What it sent is not the protocol.
    Malformed,
    /// What it asked for is not offered.
    Unsupported,
    /// It said nothing, or took nothing, for too long; or sent slowly what takes memory that others waited for.
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
        frames: Frames::new(input, broker.settings.frame_bytes_max, broker.memory.clone(), Pace::USUAL),
        ahead: VecDeque::new(),
        session: None,
        pending: VecDeque::new(),
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
    frames: Frames<OwnedReadHalf>,
    /// The frames that came while a request was handled.
    ahead: VecDeque<Frame>,
    /// What the client fetches again and again.
    session: Option<Session>,
    /// Committed and not answered, in order.
    pending: VecDeque<api::produce::Pending>,
    output: OwnedWriteHalf,
}

impl Connection<'_> {
    async fn run(mut self) -> Result<(), Closed> {
        loop {
            let frame = match self.ahead.pop_front() {
                Some(frame) => Some(frame),
                None => tokio::select! {
                    biased;
                    answer = answer_of_first(&mut self.pending), if !self.pending.is_empty() => {
                        self.pending.pop_front();
                        self.send(answer?).await?;
                        continue;
                    }
                    frame = timeout(self.idle, self.frames.next()), if self.pending.len() < PENDING_MAX => {
                        frame.map_err(|_| Closed::Idle)??
                    }
                },
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
            if self.pending.len() >= PENDING_MAX {
                self.answer_pending().await?;
            }
            self.pending.push_back(api::produce::start(self.broker, request).await?);
            return Ok(());
        }
        self.answer_pending().await?;
        let mut ahead_bytes: usize = self.ahead.iter().map(|frame| frame.bytes.len()).sum();
        let answer = {
            let mut handled = pin!(api::handle(self.broker, self.ends, &mut self.session, request));
            loop {
                tokio::select! {
                    biased;
                    answer = &mut handled => break answer?,
                    // A client that goes while a fetch waits for records is noticed here.
                    frame = self.frames.next(), if ahead_bytes < AHEAD_BYTES => match frame? {
                        Some(frame) => {
                            ahead_bytes += frame.bytes.len();
                            self.ahead.push_back(frame);
                        }
                        None => return Err(Closed::ByClient),
                    },
                }
            }
        };
        // The memory of a large answer is given back when the client has taken it.
        let Frame { bytes, held: _held } = answer;
        self.send(Some(bytes)).await
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

/// The answer of the first that is pending; it stays there, so that the future can be dropped and asked for again.
async fn answer_of_first(pending: &mut VecDeque<api::produce::Pending>) -> Result<Option<Bytes>, Closed> {
    pending.front_mut().expect("only asked when something is pending").await
}
