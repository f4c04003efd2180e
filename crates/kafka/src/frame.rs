//! Frames: a length of four bytes, most significant first, and so many bytes.
//!
//! A length is believed only as far as bytes come in: a frame that claims 100 MiB and sends ten bytes takes ten bytes. Of a
//! large frame, the rest is read when there is memory for all of it; whoever has that memory keeps to a pace (`pace.rs`).

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout};

use crate::connection::Closed;
use crate::memory::{Held, Memory, SMALL_BYTES};
use crate::pace::Pace;

/// A request has at least an API key, a version and a correlation id.
const FRAME_BYTES_MIN: usize = 8;

/// How much room is made for what comes next, at least.
const READ_BYTES_MIN: usize = 16 << 10;

/// A frame, without its length.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    /// The memory that a large one takes.
    pub(crate) held: Option<Held>,
}

/// Reads frames.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    input: R,
    buffer: BytesMut,
    bytes_max: usize,
    memory: Memory,
    pace: Pace,
    /// What is taken for the frame that comes in, since when, and how much of it was there by then.
    held: Option<(Held, Instant, usize)>,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(crate) fn new(input: R, bytes_max: usize, memory: Memory, pace: Pace) -> Self {
        Frames { input, buffer: BytesMut::new(), bytes_max, memory, pace, held: None }
    }

    /// The next frame, without its length; `None` when the client has closed behind the last one. Nothing is lost when the
    /// future is dropped and asked for again.
    ///
    /// # Errors
    /// [`Closed::Malformed`] for a length that no request has, [`Closed::Idle`] when a large frame comes too slowly and others wait for the
    /// memory that it takes, [`Closed::Failed`] when the connection breaks.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, Closed> {
        loop {
            let missing = match self.buffer.first_chunk::<4>() {
                None => READ_BYTES_MIN,
                Some(length) => {
                    let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| Closed::Malformed)?;
                    if !(FRAME_BYTES_MIN..=self.bytes_max).contains(&length) {
                        return Err(Closed::Malformed);
                    }
                    // Only once so much of it has come that the claim is meant.
                    if length > SMALL_BYTES && self.buffer.len() > SMALL_BYTES && self.held.is_none() {
                        let held = self.memory.take(length).await;
                        self.held = Some((held, Instant::now(), self.buffer.len()));
                    }
                    if self.buffer.len() - 4 >= length {
                        self.buffer.advance(4);
                        let bytes = self.buffer.split_to(length).freeze();
                        return Ok(Some(Frame { bytes, held: self.held.take().map(|(held, ..)| held) }));
                    }
                    length - (self.buffer.len() - 4)
                }
            };
            // As much again as came in already: large frames are not read in small pieces, and claims cost nothing.
            self.buffer.reserve(missing.min(self.buffer.len()).max(READ_BYTES_MIN));
            if self.read().await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(Closed::Failed) };
            }
        }
    }

    /// Reads what comes, and says how many bytes came.
    async fn read(&mut self) -> Result<usize, Closed> {
        loop {
            let read = self.input.read_buf(&mut self.buffer);
            let Some((_, since, before)) = self.held else { return read.await.map_err(|_| Closed::Failed) };
            let read = timeout(self.pace.grace, read).await;
            if self.pace.is_behind(since.elapsed(), self.buffer.len() - before) && self.memory.is_waited_for() {
                return Err(Closed::Idle);
            }
            if let Ok(read) = read {
                return read.map_err(|_| Closed::Failed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn check(input: &[u8], expect: &[Result<Option<&[u8]>, Closed>]) {
        let mut frames = Frames::new(input, 16, Memory::new(1 << 20), Pace::USUAL);
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
        check(b"\0\0\0\x11", &[Err(Closed::Malformed)]).await;
        check(b"\0\0\0\x07", &[Err(Closed::Malformed)]).await;
        check(b"\xff\xff\xff\xffmore", &[Err(Closed::Malformed)]).await;
        check(b"GET / HTTP/1.1\r\n", &[Err(Closed::Malformed)]).await;
    }

    #[tokio::test]
    async fn a_large_frame_waits_for_memory_and_a_small_one_does_not() {
        let memory = Memory::new(100 << 10);
        let large = [&80_000u32.to_be_bytes()[..], &vec![1; 80_000]].concat();
        let mut first = Frames::new(&large[..], 1 << 20, memory.clone(), Pace::USUAL);
        let held = first.next().await.expect("a frame");
        let mut second = Frames::new(&large[..], 1 << 20, memory.clone(), Pace::USUAL);
        tokio::select! {
            biased;
            _ = second.next() => panic!("there is not enough for two"),
            () = std::future::ready(()) => {}
        }
        let mut small = Frames::new(&b"\0\0\0\x08abcdefgh"[..], 1 << 20, memory, Pace::USUAL);
        assert!(small.next().await.expect("a frame").is_some());
        drop(held);
        assert_eq!(second.next().await.expect("a frame").expect("a frame").bytes.len(), 80_000);
    }

    #[tokio::test]
    async fn who_holds_memory_and_sends_slowly_is_closed_when_others_wait_for_it_and_not_before() {
        let memory = Memory::new(100 << 10);
        let large = [&80_000u32.to_be_bytes()[..], &vec![1; 80_000]].concat();
        let pace = Pace { grace: Duration::from_millis(20), bytes_per_s: 1 << 20 };
        // It sends more than what is not counted, and no more.
        let (mut sender, receiver) = tokio::io::duplex(1 << 20);
        sender.write_all(&large[..70_000]).await.expect("there is room");
        let mut slow = Frames::new(receiver, 1 << 20, memory.clone(), pace);
        let alone = timeout(5 * pace.grace, slow.next()).await;
        assert!(alone.is_err(), "nobody waits: it may take its time");
        let mut other = Frames::new(&large[..], 1 << 20, memory.clone(), pace);
        let (ended, served) = tokio::join!(
            async {
                let ended = slow.next().await;
                drop(slow);
                ended
            },
            other.next()
        );
        assert_eq!(ended.err(), Some(Closed::Idle));
        assert_eq!(served.expect("a frame").expect("a frame").bytes.len(), 80_000);
    }

    #[tokio::test]
    async fn a_frame_that_is_cut_off_is_not_handed_out() {
        check(b"\0\0\0\x08abcd", &[Err(Closed::Failed)]).await;
        check(b"\0\0", &[Err(Closed::Failed)]).await;
    }
}
