//! Decompression of record batches: the four codecs of Kafka, in the framings that its clients
//! write.
//!
//! A batch is stored compressed. Only readers that return records, not batches, decompress it, and
//! never to more than [`OPENED_BYTES_MAX`], because a few bytes can expand to very many.

use std::borrow::Cow;
use std::io::Read;

use quire_streams::wire::{Batch, Codec};

use crate::error::{Error, ErrorKind, Result};
use crate::snappy;

/// Largest number of decompressed bytes of a batch's records.
pub const OPENED_BYTES_MAX: usize = 256 << 20;

/// The first bytes of Snappy's framing for Java. Most of Kafka's clients write it, and some write
/// Snappy without it.
pub(crate) const SNAPPY_JAVA: &[u8] = b"\x82SNAPPY\x00";

/// The bytes after [`SNAPPY_JAVA`]: a version, and the oldest version that can read it.
const SNAPPY_JAVA_VERSIONS_BYTES: usize = 8;

/// Decompresses the records of a batch. See [`Batch::records_from`].
///
/// # Errors
/// [`ErrorKind::Invalid`] when they can't be decompressed, or have more than [`OPENED_BYTES_MAX`]
/// bytes.
pub fn open_batch(batch: &Batch<'_>) -> Result<Vec<u8>> {
    opened(batch).map(Cow::into_owned)
}

/// Decompresses the first `bytes_max` bytes of a batch's records, and nothing beyond.
///
/// # Errors
/// [`ErrorKind::Invalid`] when they can't be decompressed.
pub fn open_batch_up_to(batch: &Batch<'_>, bytes_max: usize) -> Result<Vec<u8>> {
    let (bytes, codec) = (batch.records_bytes(), batch.codec());
    let opened = match codec {
        Codec::None => Ok(bytes[..bytes.len().min(bytes_max)].to_vec()),
        codec => decompress(bytes, codec, bytes_max),
    };
    opened.map_err(|error| unopened(codec, error))
}

/// Decompresses the records of a batch. Borrows them if the batch is not compressed.
///
/// # Errors
/// As [`open_batch`].
pub fn opened<'b>(batch: &Batch<'b>) -> Result<Cow<'b, [u8]>> {
    opened_within(batch, OPENED_BYTES_MAX)
}

/// Like [`opened`], with `bytes_max` as the limit.
///
/// # Errors
/// As [`open_batch`].
pub fn opened_within<'b>(batch: &Batch<'b>, bytes_max: usize) -> Result<Cow<'b, [u8]>> {
    let (bytes, codec) = (batch.records_bytes(), batch.codec());
    if codec == Codec::None {
        return Ok(Cow::Borrowed(bytes));
    }
    let opened = decompress(bytes, codec, bytes_max.saturating_add(1)).map_err(|error| unopened(codec, error))?;
    if opened.len() > bytes_max { Err(unopened(codec, too_many(bytes_max))) } else { Ok(Cow::Owned(opened)) }
}

fn unopened(codec: Codec, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Invalid, format!("the records can't be decompressed with {codec}: {error}"))
}

fn decompress(bytes: &[u8], codec: Codec, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    match codec {
        Codec::None => unreachable!("uncompressed records are borrowed"),
        Codec::Gzip => read(flate2::read::MultiGzDecoder::new(bytes), bytes_max),
        Codec::Snappy => snappy(bytes, bytes_max),
        Codec::Lz4 => read(lz4_flex::frame::FrameDecoder::new(bytes), bytes_max),
        Codec::Zstd => zstd::stream::read::Decoder::new(bytes).and_then(|from| read(from, bytes_max)),
    }
}

fn read(from: impl Read, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let mut opened = Vec::new();
    from.take(bytes_max as u64).read_to_end(&mut opened)?;
    Ok(opened)
}

fn too_many(bytes_max: usize) -> std::io::Error {
    std::io::Error::other(format!("they exceed {bytes_max} bytes"))
}

fn snappy(bytes: &[u8], bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let mut opened = Vec::new();
    match bytes.strip_prefix(SNAPPY_JAVA) {
        None => opened = raw_snappy(bytes, bytes_max)?,
        Some(framed) => {
            let cut = || std::io::Error::other("the frame is cut off");
            let mut rest = framed.get(SNAPPY_JAVA_VERSIONS_BYTES..).ok_or_else(cut)?;
            while !rest.is_empty() && opened.len() < bytes_max {
                let (length, behind) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
                let (block, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or_else(cut)?;
                opened.extend(raw_snappy(block, bytes_max - opened.len())?);
                rest = behind;
            }
        }
    }
    Ok(opened)
}

/// Decompresses one block. Its decompressed length precedes it.
fn raw_snappy(block: &[u8], bytes_max: usize) -> std::io::Result<Vec<u8>> {
    if snap::raw::decompress_len(block)? > OPENED_BYTES_MAX {
        return Err(too_many(OPENED_BYTES_MAX));
    }
    snappy::beginning(block, bytes_max)
}
