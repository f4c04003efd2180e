//! Frames: a length of four bytes, big-endian, and as many bytes.
//!
//! Memory grows only with the bytes received: a frame that claims 100 MiB and sends ten bytes
//! takes ten bytes. The rest of a large frame is read when there is memory for all of it. A client
//! that holds such memory must keep a minimum rate (`pace.rs`). A frame that has begun must arrive
//! in time.

use std::ops::RangeInclusive;

use bytes::{Buf, Bytes, BytesMut};
use quire_access::budget::{BudgetCaller, ByteClaim};
use quire_access::{ConnectionSettings, Deadline};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::Settings;
use crate::close_reason::CloseReason;
use crate::memory::SMALL_BYTES;
use crate::pace::ClientPace;

/// A request has at least an API key, a version and a correlation id.
const FRAME_BYTES_MIN: usize = 8;

/// The minimum size of the buffer for the next read.
const READ_BYTES_MIN: usize = 16 << 10;

/// A frame, without its length.
#[derive(Debug)]
pub(crate) struct RequestFrame {
    pub(crate) bytes: Bytes,
    /// The memory of a large frame.
    pub(crate) held: Option<ByteClaim>,
}

/// Reads frames.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    input: R,
    buffer: BytesMut,
    /// The lengths of frames that are accepted.
    lengths: RangeInclusive<usize>,
    caller: BudgetCaller,
    pace: ClientPace,
    connections: ConnectionSettings,
    /// When the incoming frame began.
    begun: Option<Instant>,
    /// The memory of the incoming frame, when it was taken, and how many bytes had arrived by then.
    held: Option<(ByteClaim, Instant, usize)>,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(crate) fn new(input: R, settings: &Settings, caller: BudgetCaller, pace: ClientPace) -> Self {
        let (lengths, connections) = (FRAME_BYTES_MIN..=settings.frame_bytes_max, settings.connections());
        Frames { input, buffer: BytesMut::new(), lengths, caller, pace, connections, begun: None, held: None }
    }

    /// Accepts frames of up to `bytes_max` from now on: requests, or messages without a header,
    /// which may be empty.
    pub(crate) fn accept(&mut self, bytes_max: usize, without_header: bool) {
        self.lengths = if without_header { 0 } else { FRAME_BYTES_MIN }..=bytes_max;
    }

    /// Returns the next frame, without its length; `None` when the client has closed the connection
    /// after the last one. Dropping the future loses no bytes.
    ///
    /// # Errors
    /// * [`CloseReason::Malformed`] for a length that no request has;
    /// * [`CloseReason::Idle`] when a frame does not arrive in time, or a large one arrives too
    ///   slowly and others wait for its memory;
    /// * [`CloseReason::Failed`] when the connection breaks.
    pub(crate) async fn next(&mut self) -> Result<Option<RequestFrame>, CloseReason> {
        loop {
            let missing = match self.buffer.first_chunk::<4>() {
                None => READ_BYTES_MIN,
                Some(length) => {
                    let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| CloseReason::Malformed)?;
                    if !self.lengths.contains(&length) {
                        return Err(CloseReason::Malformed);
                    }
                    // Memory is claimed only after enough bytes have arrived to make the
                    // claimed length credible.
                    if length > SMALL_BYTES && self.buffer.len() > SMALL_BYTES && self.held.is_none() {
                        let mut held = self.caller.claim();
                        held.grow_patiently(length).await;
                        // The time without memory is not the client's.
                        self.begun = None;
                        self.held = Some((held, Instant::now(), self.buffer.len()));
                    }
                    if self.buffer.len() - 4 >= length {
                        self.buffer.advance(4);
                        let bytes = self.buffer.split_to(length).freeze();
                        self.begun = None;
                        return Ok(Some(RequestFrame { bytes, held: self.held.take().map(|(held, ..)| held) }));
                    }
                    length - (self.buffer.len() - 4)
                }
            };
            if !self.buffer.is_empty() {
                self.begun.get_or_insert_with(Instant::now);
            }
            // The buffer doubles: large frames are not read in small pieces, and a claimed length
            // costs nothing.
            self.buffer.reserve(missing.min(self.buffer.len()).max(READ_BYTES_MIN));
            if self.read().await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(CloseReason::Failed) };
            }
        }
    }

    /// Reads available bytes, and returns their number.
    async fn read(&mut self) -> Result<usize, CloseReason> {
        loop {
            let arrived = self.buffer.len() as u64;
            let read = self.input.read_buf(&mut self.buffer);
            let Some((_, since, before)) = self.held else {
                return match self.begun {
                    None => read.await.map_err(|_| CloseReason::Failed),
                    Some(begun) => {
                        let end = begun + self.connections.request(arrived);
                        let read = timeout_at(end, read).await.map_err(|_| CloseReason::Idle(Deadline::Request))?;
                        read.map_err(|_| CloseReason::Failed)
                    }
                };
            };
            let read = timeout(self.pace.grace, read).await;
            if self.pace.is_behind(since.elapsed(), self.buffer.len() - before) && self.caller.is_waited_for() {
                return Err(CloseReason::Idle(Deadline::Request));
            }
            if let Ok(read) = read {
                return read.map_err(|_| CloseReason::Failed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quire_access::budget::{ByteBudget, FrontEnd};
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// The bytes of a frame of which the smallest budget has memory for one.
    const LARGE: u32 = 700 << 10;

    fn frames<R: AsyncRead + Unpin>(input: R, bytes_max: usize, budget: &ByteBudget, pace: ClientPace) -> Frames<R> {
        let settings = Settings { frame_bytes_max: bytes_max, ..Settings::default() };
        Frames::new(input, &settings, budget.caller(FrontEnd::Kafka, None), pace)
    }

    async fn check(input: &[u8], expect: &[Result<Option<&[u8]>, CloseReason>]) {
        let mut frames = frames(input, 16, &ByteBudget::default(), ClientPace::USUAL);
        for expected in expect {
            let frame = frames.next().await.map(|frame| frame.map(|frame| frame.bytes));
            assert_eq!(frame, expected.map(|frame| frame.map(Bytes::copy_from_slice)));
        }
    }

    #[tokio::test]
    async fn frames_come_out_as_they_went_in() {
        let input = b"\0\0\0\x08abcdefgh\0\0\0\x09123456789";
        check(input, &[Ok(Some(b"abcdefgh")), Ok(Some(b"123456789")), Ok(None)]).await;
    }

    #[tokio::test]
    async fn a_length_that_no_request_has_is_malformed() {
        check(b"\0\0\0\x11", &[Err(CloseReason::Malformed)]).await;
        check(b"\0\0\0\x07", &[Err(CloseReason::Malformed)]).await;
        check(b"\xff\xff\xff\xffmore", &[Err(CloseReason::Malformed)]).await;
        check(b"GET / HTTP/1.1\r\n", &[Err(CloseReason::Malformed)]).await;
    }

    #[tokio::test]
    async fn a_large_frame_waits_for_memory_and_a_small_one_does_not() {
        let budget = ByteBudget::new(ByteBudget::BYTES_LEAST);
        let large = [&LARGE.to_be_bytes()[..], &vec![1; LARGE as usize]].concat();
        let mut first = frames(&large[..], 1 << 20, &budget, ClientPace::USUAL);
        let held = first.next().await.expect("a frame");
        let mut second = frames(&large[..], 1 << 20, &budget, ClientPace::USUAL);
        tokio::select! {
            biased;
            _ = second.next() => panic!("there is not enough for two"),
            () = std::future::ready(()) => {}
        }
        let mut small = frames(&b"\0\0\0\x08abcdefgh"[..], 1 << 20, &budget, ClientPace::USUAL);
        assert!(small.next().await.expect("a frame").is_some());
        drop(held);
        assert_eq!(second.next().await.expect("a frame").expect("a frame").bytes.len(), LARGE as usize);
    }

    #[tokio::test]
    async fn a_slow_sender_that_holds_memory_is_closed_once_others_wait_for_the_memory() {
        let budget = ByteBudget::new(ByteBudget::BYTES_LEAST);
        let large = [&LARGE.to_be_bytes()[..], &vec![1; LARGE as usize]].concat();
        let pace = ClientPace { grace: Duration::from_millis(20), bytes_per_s: 1 << 20 };
        // It sends more than the uncounted size, and then stops.
        let (mut sender, receiver) = tokio::io::duplex(1 << 20);
        sender.write_all(&large[..70_000]).await.expect("there is room");
        let mut slow = frames(receiver, 1 << 20, &budget, pace);
        let alone = timeout(5 * pace.grace, slow.next()).await;
        assert!(alone.is_err(), "nobody waits: it may take its time");
        let mut other = frames(&large[..], 1 << 20, &budget, pace);
        let (ended, served) = tokio::join!(
            async {
                let ended = slow.next().await;
                drop(slow);
                ended
            },
            other.next()
        );
        assert_eq!(ended.err(), Some(CloseReason::Idle(Deadline::Request)));
        assert_eq!(served.expect("a frame").expect("a frame").bytes.len(), LARGE as usize);
    }

    #[tokio::test]
    async fn a_frame_that_is_cut_off_is_not_handed_out() {
        check(b"\0\0\0\x08abcd", &[Err(CloseReason::Failed)]).await;
        check(b"\0\0", &[Err(CloseReason::Failed)]).await;
    }

    #[tokio::test]
    async fn a_frame_that_has_begun_must_arrive_in_time_and_a_silent_client_may_stay() {
        let settings = Settings { request_timeout_ms: 10, ..Settings::default() };
        let caller = ByteBudget::default().caller(FrontEnd::Kafka, None);
        let (mut sender, receiver) = tokio::io::duplex(1 << 10);
        let mut frames = Frames::new(receiver, &settings, caller, ClientPace::USUAL);
        let silent = timeout(5 * settings.connections().request(0), frames.next()).await;
        assert!(silent.is_err(), "it has not begun");
        sender.write_all(b"\0\0\0\x08abcdefgh\0").await.expect("there is room");
        assert!(frames.next().await.expect("a frame").is_some());
        assert_eq!(frames.next().await.err(), Some(CloseReason::Idle(Deadline::Request)));
    }
}
