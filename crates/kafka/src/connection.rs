//! One connection: reads frames, and writes responses in the order of the requests.
//!
//! ```text
//! frames ──▶ Produce: committed now ──▶ waits for its turn and its durability ──▶ answer
//!        └─▶ anything else: when all before it are answered ──▶ handled ──▶ answer
//! ```
//!
//! A producer that pipelines does not wait for one sync per request, and responses still stay in
//! order. Memory is bounded. A committed request has released its bytes to the log. Besides
//! one other request, the connection holds only a few frames that were read ahead.

use std::collections::VecDeque;
use std::future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quire_access::budget::FrontEnd;
use quire_access::{
    Admission, BoundedRequest, ConnectionActivity, Deadline, EstablishedConnection, ForwardOrigin, Peer,
    RunningRequest, Session, StreamReader, StreamWriter,
};
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::api;
use crate::api::produce::ProduceCommit;
use crate::authentication::{self, Authentication};
use crate::broker::Broker;
use crate::client::{ClientLeft, ClientState};
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::forward;
use crate::frame::{Frames, RequestFrame};
use crate::pace::ClientPace;
use crate::quotas::{self, RequestQuotas, RunningTime};
use crate::request::{Api, Request};
use crate::request_timer::RequestTimer;

/// How many produce requests of a connection may wait for durability.
const PENDING_MAX: usize = 128;

/// How many bytes are read ahead while a request is handled; the last frame is read whole.
const AHEAD_BYTES: usize = 64 << 10;

/// How long a request is still handled after its client has closed its side. A client that waits
/// for the response and a client that has disconnected look the same. A fetch ends its wait at
/// once, and is answered.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// How often a connection without credentials looks whether access control was enabled.
const LOOK: Duration = Duration::from_secs(1);

/// How long a client that gets its last response may take to close the connection itself.
const FAREWELL: Duration = Duration::from_millis(250);

/// Serves a connection of a listener until the client closes it.
///
/// # Errors
/// The reason for closing it earlier.
pub(crate) async fn serve(admission: Admission, listener: usize, broker: &Arc<Broker>) -> Result<(), CloseReason> {
    let settings = broker.settings();
    let first_end = Instant::now() + settings.connections().first_request();
    let mut needed = pin!(admission.place().needed());
    let established = tokio::select! {
        established = admission.establish(first_end) => established.ok_or(CloseReason::Failed)?,
        // A new connection takes the place of this idle one.
        () = &mut needed => return Ok(()),
    };
    let EstablishedConnection { stream, peer, place } = established;
    let (Peer::Tcp { local, remote, .. }, Some((input, output))) = (&peer, stream.into_halves()) else {
        unreachable!("the server listens on TCP")
    };
    let (local, remote, has_tls) = (*local, *remote, peer.has_tls());
    let authentication = Authentication::of_connection(place.verified(&peer), peer.host());
    let caller = broker.budget.caller(FrontEnd::Kafka, Some(remote.ip()));
    let (left, left_seen) = watch::channel(false);
    let mut connection = Connection {
        broker,
        activity: place.activity().clone(),
        peer,
        is_forwarded: place.is_forwarded(),
        ends: Endpoints { listener, local, remote, has_tls },
        idle: Duration::from_millis(settings.idle_timeout_ms),
        input: ReadAhead {
            frames: Frames::new(input, &settings, caller.clone(), ClientPace::USUAL),
            ahead: VecDeque::new(),
            first: Some(first_end),
            ahead_bytes_max: AHEAD_BYTES,
            closed_until: None,
            left,
        },
        frame_bytes_max: settings.frame_bytes_max,
        state: ClientState::new(caller, authentication, ClientLeft::new(left_seen)),
        pending: VecDeque::new(),
        first_end,
        is_limited: false,
        muted_until: None,
        left_behind: None,
        output,
    };
    let ended = tokio::select! {
        ended = connection.run() => ended,
        () = &mut needed => Ok(()),
    };
    // Over TLS, the client learns that nothing was cut off. A client may not read it.
    let _ = timeout(HALF_CLOSED, connection.output.shutdown()).await;
    // A member that never requested an assignment would stay for the timeout that its client chose.
    for (group, member) in connection.state.joined {
        broker.groups.abandon(&group, member).await;
    }
    ended
}

struct Connection<'b> {
    broker: &'b Arc<Broker>,
    activity: ConnectionActivity,
    peer: Peer,
    /// Whether another node forwards the connection. Its requests are not forwarded again.
    is_forwarded: bool,
    ends: Endpoints,
    idle: Duration,
    /// The longest request, in bytes, of a client that is authenticated or need not be.
    frame_bytes_max: usize,
    input: ReadAhead,
    state: ClientState,
    /// Committed requests without a response yet, in order.
    pending: VecDeque<PendingProduce>,
    /// When the first frame must have arrived, and a client that has to authenticate must have done
    /// so.
    first_end: Instant,
    /// Whether the client must authenticate before anything else.
    is_limited: bool,
    /// Until when no request is read: the client used more than its quota.
    muted_until: Option<Instant>,
    /// The steps of all requests with `acks=0` that begin after their client has disconnected. The
    /// client has no reason to stay until all are unpacked, and together they get the steps of one.
    left_behind: Option<BoundedRequest>,
    output: StreamWriter,
}

/// A committed request without a response yet.
struct PendingProduce {
    timer: RequestTimer,
    running: RunningRequest,
    response: api::produce::PendingResponse,
}

/// The stream of requests from the client.
struct ReadAhead {
    frames: Frames<StreamReader>,
    /// The frames that arrived while a request was handled.
    ahead: VecDeque<RequestFrame>,
    /// When the first frame must have arrived; `None` afterwards.
    first: Option<Instant>,
    /// How many bytes are read ahead while a request is handled.
    ahead_bytes_max: usize,
    /// Until when requests are handled after the client has closed its side; `None` until it has.
    closed_until: Option<Instant>,
    /// Whether the client has closed its side. A fetch then ends its wait.
    left: watch::Sender<bool>,
}

impl Connection<'_> {
    async fn run(&mut self) -> Result<(), CloseReason> {
        if !self.is_admitted() {
            self.is_limited = true;
            self.limit_input();
            // The deadline holds whatever the client sends, and while it waits for a response.
            let admitted = timeout_at(self.first_end, self.serve_until(Connection::is_admitted)).await;
            if !admitted.map_err(|_| CloseReason::Idle(Deadline::FirstRequest))?? {
                return Ok(());
            }
            self.is_limited = false;
            self.input.first = None;
        }
        self.limit_input();
        self.serve_until(|_| false).await.map(drop)
    }

    /// Whether the client is authenticated, or need not be.
    fn is_admitted(&self) -> bool {
        self.state.authentication.principal.is_some() || !self.broker.served().is_access_enabled()
    }

    /// Serves requests until the client closes the connection, or `is_over` after one. Returns
    /// whether it is.
    async fn serve_until(&mut self, is_over: impl Fn(&Self) -> bool) -> Result<bool, CloseReason> {
        while !is_over(self) {
            // Access control may be enabled while the connection is open.
            let (broker, has_credential) = (self.broker, self.state.authentication.principal.is_some());
            let may_end = !self.is_limited && !has_credential;
            let is_refused = || may_end && broker.served().is_access_enabled();
            let look = if may_end { LOOK } else { self.idle };
            let muted_until = self.muted_until.filter(|until| *until > Instant::now());
            let may_read = self.pending.len() < PENDING_MAX && muted_until.is_none();
            // Writes every response that is ready, before the frames that were read ahead are
            // handled. A failed write then reveals a client that has disconnected, even while the
            // end of its stream is behind unread frames.
            let frame = tokio::select! {
                biased;
                answer = answer_of_first(&mut self.pending), if !self.pending.is_empty() => {
                    self.send_first(answer?).await?;
                    continue;
                }
                frame = self.input.next(self.idle, look, is_refused), if may_read => frame?,
                () = async { sleep_until(muted_until.expect("the client is muted")).await }, if muted_until.is_some() => {
                    self.muted_until = None;
                    continue;
                }
            };
            match frame {
                Some(_) if is_refused() => return Err(CloseReason::Unauthenticated),
                Some(frame) => self.take(frame).await?,
                None => {
                    self.answer_pending().await?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Handles a request: a produce request is committed and answered later, any other is answered
    /// now.
    async fn take(&mut self, frame: RequestFrame) -> Result<(), CloseReason> {
        let Some(running) = self.activity.begin() else {
            // The connection is about to be closed.
            return future::pending().await;
        };
        if self.state.authentication.is_raw() {
            return self.take_message(&frame.bytes).await;
        }
        let api = Request::api_of(&frame).ok_or(CloseReason::Unsupported)?;
        let session = self.state.authentication.session(self.broker.served(), api)?;
        if !self.is_limited {
            self.input.first = None;
        }
        let frame_bytes = frame.bytes.len();
        let forwarded = !self.is_forwarded && forward::is_forwarded(self.broker, api);
        let forwarded = forwarded.then(|| frame.bytes.clone());
        let mut request = Request::read(frame)?;
        request.claim_items(&self.state.caller, api::SHORT_OF_MEMORY.min(self.idle)).await?;
        self.broker.counters().request();
        let timer = RequestTimer::begin(api::name_of(request.api), request.version, &request.client, frame_bytes);
        let quotas = RequestQuotas::of(self.broker, self.state.authentication.principal.as_ref(), &request);
        if request.api == Api::Produce {
            let wait = quotas.as_ref().map(|quotas| quotas.produced(self.broker, frame_bytes)).unwrap_or_default();
            let response = self.start(session, ProduceCommit::read(request)?, quotas, wait).await?;
            self.pending.push_back(PendingProduce { timer, running, response });
            return Ok(());
        }
        self.answer_pending().await?;
        let (api, version) = (request.api, request.version);
        let (answer, time) = {
            let (broker, ends, state) = (self.broker, self.ends, &mut self.state);
            let origin = || ForwardOrigin {
                front_end: FrontEnd::Kafka,
                peer: self.peer.clone(),
                principal: state.authentication.principal.clone(),
            };
            let origin = forwarded.map(|frame| (origin(), frame));
            let handled = async move {
                match origin {
                    Some((origin, frame)) => forward::ask_leader(broker, origin, &state.caller, frame).await,
                    None => api::handle(broker, ends, state, request).await,
                }
            };
            let handled = pin!(in_session(self.broker, session, handled));
            let mut handled = RunningTime::of(handled);
            let answer = self.input.meanwhile(&self.output, Pin::new(&mut handled)).await?;
            (answer.ok_or(CloseReason::ByClient)???, handled.time)
        };
        // The memory of a large response is released when the client has read it.
        let RequestFrame { mut bytes, held } = answer;
        if let Some(quotas) = quotas {
            let wait = quotas.answered(self.broker, bytes.len()).max(quotas.worked(self.broker, time));
            if !wait.is_zero() {
                bytes = quotas::with_throttle(api, version, bytes, wait);
                self.mute(wait);
            }
        }
        match held {
            None => self.send(&bytes).await?,
            Some(_held) => {
                let written = ClientPace::USUAL.write(&mut self.output, &bytes, &self.state.caller);
                timeout(self.idle, written).await.map_err(|_| CloseReason::Idle(Deadline::Response))??;
            }
        }
        drop(running);
        self.broker.answered(timer, bytes.len());
        self.limit_input();
        let Some(closing) = self.state.closing.take() else { return Ok(()) };
        // Some clients report the end of the stream in place of a response right before it.
        let _ = timeout(FAREWELL, self.output.client_closed()).await;
        Err(closing)
    }

    /// Answers a message of SASL without a header.
    async fn take_message(&mut self, message: &[u8]) -> Result<(), CloseReason> {
        let answered = api::sasl_authenticate::handle_raw(self.broker, self.ends, &mut self.state, message);
        let answer = self.input.meanwhile(&self.output, pin!(answered)).await?.ok_or(CloseReason::ByClient)?;
        let answer = answer.ok_or(CloseReason::AuthenticationFailed)?;
        let length = i32::try_from(answer.len()).expect("a message is short");
        self.send(&[&length.to_be_bytes()[..], &answer].concat()).await?;
        self.limit_input();
        Ok(())
    }

    /// Reads no further request for this time.
    fn mute(&mut self, wait: Duration) {
        if !wait.is_zero() {
            self.muted_until = Some(Instant::now() + wait);
        }
    }

    /// Bounds the bytes of a client that must authenticate first.
    fn limit_input(&mut self) {
        let (authentication, is_limited) = (&self.state.authentication, self.is_limited);
        let bytes_max = if is_limited { authentication::FRAME_BYTES_MAX } else { self.frame_bytes_max };
        self.input.frames.accept(bytes_max.min(self.frame_bytes_max), authentication.is_raw());
        self.input.ahead_bytes_max = if is_limited { 0 } else { AHEAD_BYTES };
    }

    /// Commits a produce request. After the client has disconnected, no further batch of it is
    /// unpacked.
    async fn start(
        &mut self,
        session: Option<Session>,
        produce: ProduceCommit,
        quotas: Option<RequestQuotas>,
        produced_wait: Duration,
    ) -> Result<api::produce::PendingResponse, CloseReason> {
        let wants_answer = produce.wants_answer();
        let mut steps = None;
        let steps = if self.input.closed_until.is_some() { &mut self.left_behind } else { &mut steps };
        let started = produce.start(self.broker, &self.state.caller, steps);
        let (started, time) = {
            let started = pin!(in_session(self.broker, session, started));
            let mut starting = RunningTime::of(started);
            let started = match self.input.meanwhile(&self.output, Pin::new(&mut starting)).await? {
                Some(started) => started?,
                None if wants_answer => return Err(CloseReason::ByClient),
                None => (&mut starting).await?,
            };
            (started, starting.time)
        };
        let worked = quotas.map(|quotas| quotas.worked(self.broker, time));
        let wait = produced_wait.max(worked.unwrap_or_default());
        self.mute(wait);
        Ok(started.response(quotas::throttle_ms(wait)))
    }

    async fn answer_pending(&mut self) -> Result<(), CloseReason> {
        while !self.pending.is_empty() {
            let answer = answer_of_first(&mut self.pending).await?;
            self.send_first(answer).await?;
        }
        Ok(())
    }

    /// Sends the response of the oldest pending request, which may want none.
    async fn send_first(&mut self, answer: Option<Bytes>) -> Result<(), CloseReason> {
        let PendingProduce { timer, running, .. } = self.pending.pop_front().expect("a pending request exists");
        let answer = answer.unwrap_or_default();
        if !answer.is_empty() {
            self.send(&answer).await?;
        }
        drop(running);
        self.broker.answered(timer, answer.len());
        Ok(())
    }

    async fn send(&mut self, answer: &[u8]) -> Result<(), CloseReason> {
        let sending = async {
            self.output.write_all(answer).await?;
            self.output.flush().await
        };
        let sent = timeout(self.idle, sending).await;
        let sent = sent.map_err(|_| CloseReason::Idle(Deadline::Response))?;
        sent.map_err(|_| CloseReason::Failed)
    }
}

impl ReadAhead {
    /// Returns the next frame; like [`Frames::next`]. A client that sends none for `idle` is
    /// disconnected, and one that sends no first frame earlier. After each `look`, a client that
    /// `is_refused` is disconnected.
    async fn next(
        &mut self,
        idle: Duration,
        look: Duration,
        is_refused: impl Fn() -> bool,
    ) -> Result<Option<RequestFrame>, CloseReason> {
        if let Some(frame) = self.ahead.pop_front() {
            return Ok(Some(frame));
        }
        let Some(end) = self.first else {
            let end = Instant::now() + idle;
            loop {
                let now = Instant::now();
                if now >= end {
                    return Err(CloseReason::Idle(Deadline::Idle));
                }
                if let Ok(frame) = timeout_at(end.min(now + look), self.frames.next()).await {
                    return frame;
                }
                if is_refused() {
                    return Err(CloseReason::Unauthenticated);
                }
            }
        };
        let frame = timeout_at(end, self.frames.next()).await;
        frame.map_err(|_| CloseReason::Idle(Deadline::FirstRequest))?
    }

    /// Awaits a future, and reads ahead meanwhile; `None` when the client disconnects first. After
    /// the client has closed its side, the future has [`HALF_CLOSED`] left.
    async fn meanwhile<T>(
        &mut self,
        output: &StreamWriter,
        mut handled: Pin<&mut impl Future<Output = T>>,
    ) -> Result<Option<T>, CloseReason> {
        let mut closed = pin!(output.client_closed());
        let mut ahead_bytes: usize = self.ahead.iter().map(|frame| frame.bytes.len()).sum();
        // Until when the requests of a client that closed its side are handled.
        let mut until = self.closed_until;
        let mut is_at_end = false;
        let ahead_bytes_max = self.ahead_bytes_max;
        loop {
            tokio::select! {
                biased;
                handled = &mut handled => return Ok(Some(handled)),
                // The end of the stream comes after everything that was sent before it, and not all
                // of that is read ahead.
                () = &mut closed, if until.is_none() => {
                    until = Some(Instant::now() + HALF_CLOSED);
                    self.closed_until = until;
                    self.left.send_replace(true);
                }
                frame = self.frames.next(), if ahead_bytes < ahead_bytes_max && !is_at_end => match frame? {
                    Some(frame) => {
                        ahead_bytes += frame.bytes.len();
                        self.ahead.push_back(frame);
                    }
                    None => {
                        is_at_end = true;
                        until.get_or_insert_with(|| Instant::now() + HALF_CLOSED);
                        self.closed_until = until;
                        self.left.send_replace(true);
                    }
                },
                () = async { sleep_until(until.expect("the client closed its side")).await }, if until.is_some() => {
                    return Ok(None);
                }
            }
        }
    }
}

/// Handles a request of a session.
///
/// # Errors
/// [`CloseReason::Unauthenticated`] when the session ends before: a client that no longer has a
/// valid credential gets no response that it still waits for.
async fn in_session<T>(
    broker: &Broker,
    session: Option<Session>,
    handling: impl Future<Output = T>,
) -> Result<T, CloseReason> {
    let Some(session) = session else { return Ok(handling.await) };
    tokio::select! {
        biased;
        handled = session.clone().scope(handling) => Ok(handled),
        () = broker.served().ended(&session) => Err(CloseReason::Unauthenticated),
    }
}

/// Returns the response of the oldest pending request. The request stays pending, so that the
/// future can be dropped and created again.
async fn answer_of_first(pending: &mut VecDeque<PendingProduce>) -> Result<Option<Bytes>, CloseReason> {
    (&mut pending.front_mut().expect("a pending request exists").response).await
}
