//! Frames on a connection between nodes.
//!
//! ```text
//! length u32 │ CRC-32C u32 │ kind u8 │ content
//! ```
//! The length and the checksum are those of kind and content. Numbers are little-endian.

use std::io;

use quire_log::crc32c;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The bytes before the kind.
const HEADER_BYTES: usize = 8;

/// The bytes of a frame besides its records.
pub(super) const FRAME_OVERHEAD_BYTES: u64 = 256 << 10;

/// The most bytes that are read before the buffer grows for more.
const READ_BYTES: usize = 256 << 10;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// The first frame of the node that connects.
    Hello = 1,
    /// The answer to a hello.
    Welcome = 2,
    /// The last frame of a node that refuses the other: the reason.
    Refused = 3,
    /// A message of the agreement, with its records.
    Packet = 4,
    /// Nothing: the connection is alive.
    Ping = 5,
    /// A node asks to become a member: its addresses.
    Join = 6,
    /// The node is a member.
    Joined = 7,
    /// Another node leads: its address.
    LeaderIs = 8,
    /// The next bytes of the files that a node fetches.
    Files = 9,
    /// All files were sent.
    FilesEnd = 10,
    /// The client of a forwarded request. The bytes after this frame are those of the front end.
    Client = 11,
}

impl FrameKind {
    const ALL: [FrameKind; 11] = [
        FrameKind::Hello,
        FrameKind::Welcome,
        FrameKind::Refused,
        FrameKind::Packet,
        FrameKind::Ping,
        FrameKind::Join,
        FrameKind::Joined,
        FrameKind::LeaderIs,
        FrameKind::Files,
        FrameKind::FilesEnd,
        FrameKind::Client,
    ];
}

/// Builds a frame; `content` writes what follows its kind.
pub(crate) fn frame(kind: FrameKind, content: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES];
    frame.push(kind as u8);
    content(&mut frame);
    let length = u32::try_from(frame.len() - HEADER_BYTES).expect("a frame is shorter than 4 GiB");
    let crc = crc32c(&frame[HEADER_BYTES..]);
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame[4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    frame
}

/// Reads a frame of at most `bytes_max` bytes. `None` at the end of the connection.
///
/// # Errors
/// `InvalidData` for bytes that are no frame, and the errors of the connection.
pub(super) async fn read_frame(
    from: &mut (impl AsyncRead + Unpin),
    bytes_max: u64,
) -> io::Result<Option<(FrameKind, Vec<u8>)>> {
    let mut header = [0; HEADER_BYTES];
    if from.read(&mut header[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut header[1..]).await?;
    let [length, crc] = [0, 4].map(|at| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes")));
    if length == 0 || u64::from(length) > bytes_max {
        return Err(invalid(format!("a frame must have 1 to {bytes_max} bytes, got {length}")));
    }
    let (mut bytes, length) = (Vec::new(), length as usize);
    // The memory grows with the bytes that arrive, not with the length that is claimed.
    while bytes.len() < length {
        let at = bytes.len();
        bytes.resize(length.min(at + READ_BYTES), 0);
        from.read_exact(&mut bytes[at..]).await?;
    }
    if crc32c(&bytes) != crc {
        return Err(invalid(format!("the checksum of a frame of {length} bytes does not match")));
    }
    let kind = FrameKind::ALL.into_iter().find(|kind| *kind as u8 == bytes[0]);
    let kind = kind.ok_or_else(|| invalid(format!("a frame has the unknown kind {}", bytes[0])))?;
    bytes.remove(0);
    Ok(Some((kind, bytes)))
}

pub(super) fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> io::Result<Option<(FrameKind, Vec<u8>)>> {
        read_frame(&mut &bytes[..], 1_000).await
    }

    #[tokio::test]
    async fn a_frame_reads_back_and_a_damaged_one_is_refused() {
        for kind in FrameKind::ALL {
            let bytes = frame(kind, |out| out.extend(b"content"));
            assert_eq!(read(&bytes).await.expect("whole"), Some((kind, b"content".to_vec())));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x21;
                assert!(read(&damaged).await.is_err(), "byte {at} of {kind:?}");
                assert_eq!(read(&bytes[..at]).await.is_err(), at > 0, "{at} bytes of {kind:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_length_beyond_the_limit_is_refused_before_memory_is_taken() {
        let mut bytes = frame(FrameKind::Ping, |_| ());
        bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = read(&bytes).await.expect_err("too long");
        assert_eq!(error.to_string(), "a frame must have 1 to 1000 bytes, got 4294967295");
    }
}
