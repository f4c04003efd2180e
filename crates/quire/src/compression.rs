//! Record batches, compressed and opened again: the four codecs of Kafka, in the framings that its clients write and read.
//!
//! A batch is stored closed. Only readers that hand out records, not batches, open it, and never to more than
//! [`OPENED_BYTES_MAX`]: a few bytes can stand for very many. Embedded producers compress what their topic says.

use std::borrow::Cow;
use std::io::{Read, Write};

use quire_streams::wire::{Batch, Codec};

use crate::error::{Error, ErrorKind, Result};

/// The most bytes that the records of a batch may have when they are opened.
pub const OPENED_BYTES_MAX: usize = 256 << 20;

/// What each block of Snappy's framing for Java holds at most before it is compressed.
const SNAPPY_BLOCK_BYTES: usize = 32 << 10;

/// How hard gzip and Zstandard try: what Kafka's clients do when nothing is said.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// What Snappy's framing for Java begins with; Kafka's clients write it, and some write Snappy without it.
const SNAPPY_JAVA: &[u8] = b"\x82SNAPPY\x00";

/// The bytes behind that: a version, and the oldest version that can read it.
const SNAPPY_JAVA_VERSIONS_BYTES: usize = 8;

/// The records of a batch, decompressed. See [`Batch::records_from`].
///
/// # Errors
/// [`ErrorKind::Invalid`] when they can't be decompressed, or have more than [`OPENED_BYTES_MAX`] bytes.
pub fn open_batch(batch: &Batch<'_>) -> Result<Vec<u8>> {
    opened(batch).map(Cow::into_owned)
}

/// The same, borrowed where nothing is compressed.
pub(crate) fn opened<'b>(batch: &Batch<'b>) -> Result<Cow<'b, [u8]>> {
    let bytes = batch.records_bytes();
    let opened = match batch.codec() {
        Codec::None => return Ok(Cow::Borrowed(bytes)),
        Codec::Gzip => read(flate2::read::MultiGzDecoder::new(bytes)),
        Codec::Snappy => snappy(bytes),
        Codec::Lz4 => read(lz4_flex::frame::FrameDecoder::new(bytes)),
        Codec::Zstd => zstd::stream::read::Decoder::new(bytes).and_then(read),
    };
    let failed = |error| {
        let message = format!("the records can't be decompressed with {}: {error}", batch.codec());
        Error::new(ErrorKind::Invalid, message)
    };
    opened.map(Cow::Owned).map_err(failed)
}

/// The batch, compressed; `None` when it would not get smaller by it.
///
/// # Errors
/// [`ErrorKind::Invalid`] when the codec refuses.
#[inline]
pub(crate) fn compressed(batch: &Batch<'_>, codec: Codec) -> Result<Option<Vec<u8>>> {
    if codec == Codec::None { Ok(None) } else { compress(batch, codec) }
}

#[cold]
fn compress(batch: &Batch<'_>, codec: Codec) -> Result<Option<Vec<u8>>> {
    let bytes = batch.records_bytes();
    let compressed = match codec {
        Codec::None => return Ok(None),
        Codec::Gzip => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL));
            out.write_all(bytes).and_then(|()| out.finish())
        }
        Codec::Snappy => snappy_java(bytes),
        Codec::Lz4 => {
            // Kafka's clients read blocks that stand alone, and no others.
            let frame = lz4_flex::frame::FrameInfo::new().block_mode(lz4_flex::frame::BlockMode::Independent);
            let mut out = lz4_flex::frame::FrameEncoder::with_frame_info(frame, Vec::new());
            out.write_all(bytes).and_then(|()| out.finish().map_err(std::io::Error::from))
        }
        Codec::Zstd => zstd::bulk::compress(bytes, ZSTD_LEVEL),
    };
    let failed = |error| Error::new(ErrorKind::Invalid, format!("{codec} can't compress the records: {error}"));
    let compressed = compressed.map_err(failed)?;
    Ok((compressed.len() < bytes.len()).then(|| batch.with_records(codec, &compressed)))
}

/// Blocks behind Snappy's header for Java, each with its length: what Kafka's Java client reads and writes.
fn snappy_java(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = [SNAPPY_JAVA, &1u32.to_be_bytes(), &1u32.to_be_bytes()].concat();
    for block in bytes.chunks(SNAPPY_BLOCK_BYTES) {
        let block = snap::raw::Encoder::new().compress_vec(block)?;
        out.extend_from_slice(&(block.len() as u32).to_be_bytes());
        out.extend_from_slice(&block);
    }
    Ok(out)
}

fn read(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut opened = Vec::new();
    from.take(OPENED_BYTES_MAX as u64 + 1).read_to_end(&mut opened)?;
    if opened.len() > OPENED_BYTES_MAX { Err(too_many()) } else { Ok(opened) }
}

fn too_many() -> std::io::Error {
    std::io::Error::other(format!("they have more than {OPENED_BYTES_MAX} bytes"))
}

fn snappy(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let Some(framed) = bytes.strip_prefix(SNAPPY_JAVA) else { return raw_snappy(bytes, 0) };
    let cut = || std::io::Error::other("the frame is cut off");
    let mut rest = framed.get(SNAPPY_JAVA_VERSIONS_BYTES..).ok_or_else(cut)?;
    let mut opened = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let (block, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or_else(cut)?;
        opened.extend(raw_snappy(block, opened.len())?);
        rest = behind;
    }
    if rest.is_empty() { Ok(opened) } else { Err(cut()) }
}

/// One block, behind so many bytes that others came to. What it comes to is said in front of it.
fn raw_snappy(block: &[u8], before: usize) -> std::io::Result<Vec<u8>> {
    if snap::raw::decompress_len(block)?.saturating_add(before) > OPENED_BYTES_MAX {
        return Err(too_many());
    }
    Ok(snap::raw::Decoder::new().decompress_vec(block)?)
}
