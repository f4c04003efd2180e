//! Compression of record batches: the four codecs of Kafka, in the framings that its clients read.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use quire_streams::wire::{Batch, Codec};

use crate::compression::SNAPPY_JAVA;
use crate::error::{Error, ErrorKind, Result};

/// Default of the smallest batch, in bytes of records, that is compressed by the process that
/// produces it.
pub const BYTES_MIN: usize = 4 << 10;

/// Largest block of Snappy's framing for Java, before compression.
const SNAPPY_BLOCK_BYTES: usize = 32 << 10;

/// Levels of gzip and Zstandard: the defaults of Kafka's clients.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// Largest number of idle Zstandard contexts. Creating one takes 8 to 20 µs, as long as compressing
/// a few kilobytes. A context that compressed 16 MiB takes 2.8 MiB of memory; after small batches
/// it takes less.
const ZSTD_KEPT_MAX: usize = 4;

/// Compresses batches.
pub struct Compressor {
    /// Smallest batch, in bytes of records, that is compressed when it is produced.
    bytes_min: usize,
    zstd: Mutex<Vec<zstd::bulk::Compressor<'static>>>,
}

impl Compressor {
    pub(crate) fn new(bytes_min: usize) -> Self {
        Compressor { bytes_min, zstd: Mutex::new(Vec::new()) }
    }

    /// Compresses a batch that is produced to a topic with `codec`. Returns `None` if the batch is
    /// below the smallest size, or would not get smaller.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when the codec refuses.
    #[inline]
    pub fn produced(&self, batch: Batch<'_>, codec: Codec) -> Result<Option<Vec<u8>>> {
        if codec == Codec::None || batch.records_bytes().len() < self.bytes_min {
            Ok(None)
        } else {
            self.compressed(batch, codec)
        }
    }

    /// Compresses a batch of any size. Returns `None` if it would not get smaller.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when the codec refuses.
    #[cold]
    pub(crate) fn compressed(&self, batch: Batch<'_>, codec: Codec) -> Result<Option<Vec<u8>>> {
        let bytes = batch.records_bytes();
        let compressed = match codec {
            Codec::None => return Ok(None),
            Codec::Gzip => {
                let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL));
                out.write_all(bytes).and_then(|()| out.finish())
            }
            Codec::Snappy => snappy_java(bytes),
            Codec::Lz4 => {
                // Kafka's clients read independent blocks only.
                let frame = lz4_flex::frame::FrameInfo::new().block_mode(lz4_flex::frame::BlockMode::Independent);
                let mut out = lz4_flex::frame::FrameEncoder::with_frame_info(frame, Vec::new());
                out.write_all(bytes).and_then(|()| out.finish().map_err(std::io::Error::from))
            }
            Codec::Zstd => self.zstd(bytes),
        };
        let failed = |error| Error::new(ErrorKind::Invalid, format!("{codec} can't compress the records: {error}"));
        let compressed = compressed.map_err(failed)?;
        Ok((compressed.len() < bytes.len()).then(|| batch.with_records(codec, &compressed)))
    }

    /// Compresses with an idle context, if there is one.
    fn zstd(&self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let kept = || self.zstd.lock().unwrap_or_else(PoisonError::into_inner);
        let free = kept().pop();
        let mut context = match free {
            Some(context) => context,
            None => zstd::bulk::Compressor::new(ZSTD_LEVEL)?,
        };
        let compressed = context.compress(bytes)?;
        let mut kept = kept();
        if kept.len() < ZSTD_KEPT_MAX {
            kept.push(context);
        }
        Ok(compressed)
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("bytes_min", &self.bytes_min).finish_non_exhaustive()
    }
}

/// Compresses to blocks after Snappy's header for Java, each with its length, as Kafka's Java
/// client reads and writes.
fn snappy_java(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = [SNAPPY_JAVA, &1u32.to_be_bytes(), &1u32.to_be_bytes()].concat();
    for block in bytes.chunks(SNAPPY_BLOCK_BYTES) {
        let block = snap::raw::Encoder::new().compress_vec(block)?;
        out.extend_from_slice(&(block.len() as u32).to_be_bytes());
        out.extend_from_slice(&block);
    }
    Ok(out)
}
