//! Frames: a length of four bytes, most significant first, and so many bytes.
//!
//! A length is believed only as far as bytes come in: a frame that claims 100 MiB and sends ten bytes takes ten bytes.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::connection::Closed;

/// A request has at least an API key, a version and a correlation id.
const FRAME_BYTES_MIN: usize = 8;

/// How much room is made for what comes next, at least.
const READ_BYTES_MIN: usize = 16 << 10;

/// Reads frames.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    input: R,
    buffer: BytesMut,
    bytes_max: usize,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(crate) fn new(input: R, bytes_max: usize) -> Self {
        Frames { input, buffer: BytesMut::new(), bytes_max }
    }

    /// The next frame, without its length; `None` when the client has closed behind the last one. Nothing is lost when the
    /// future is dropped and asked for again.
    ///
    /// # Errors
    /// [`Closed::Malformed`] for a length that no request has, [`Closed::Failed`] when the connection breaks.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Closed> {
        loop {
            let missing = match self.buffer.first_chunk::<4>() {
                None => READ_BYTES_MIN,
                Some(length) => {
                    let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| Closed::Malformed)?;
                    if !(FRAME_BYTES_MIN..=self.bytes_max).contains(&length) {
                        return Err(Closed::Malformed);
                    }
                    if self.buffer.len() - 4 >= length {
                        self.buffer.advance(4);
                        return Ok(Some(self.buffer.split_to(length).freeze()));
                    }
                    length - (self.buffer.len() - 4)
                }
            };
            // As much again as came in already: large frames are not read in small pieces, and claims cost nothing.
            self.buffer.reserve(missing.min(self.buffer.len()).max(READ_BYTES_MIN));
            if self.input.read_buf(&mut self.buffer).await.map_err(|_| Closed::Failed)? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(Closed::Failed) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(input: &[u8], expect: &[Result<Option<&[u8]>, Closed>]) {
        let mut frames = Frames::new(input, 16);
        for expected in expect {
            assert_eq!(frames.next().await, expected.map(|frame| frame.map(Bytes::copy_from_slice)));
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
    async fn a_frame_that_is_cut_off_is_not_handed_out() {
        check(b"\0\0\0\x08abcd", &[Err(Closed::Failed)]).await;
        check(b"\0\0", &[Err(Closed::Failed)]).await;
    }
}
