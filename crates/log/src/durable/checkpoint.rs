//! Checkpoints: the models' state after a record, so that a restart replays only what came later.
//!
//! The log keeps the payload as bytes. A checkpoint is valid only if the log holds the record it
//! was taken after, with the same checksum. A checkpoint of a different history is skipped. An
//! older checkpoint, or none, is used instead.
//!
//! A large payload is written piece by piece as it is produced, and mapped when it is read. The
//! whole payload is never in memory.

use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use quire_mapped::View;
use quire_model::Position;

use crate::error::{Error, Result};
use crate::mark::{Mark, Term};
use crate::storage::Storage;
use crate::storage::directory::{Directory, folder_of};

const MAGIC: &[u8; 8] = b"QUIRECKP";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 40;
const SUFFIX: &str = ".checkpoint";
/// The number of checkpoints kept: the newest, and one to fall back on.
const KEPT: usize = 2;
const _: () = assert!(KEPT > 1, "a damaged checkpoint leaves another one");
/// The size, in bytes, from which a file is mapped instead of read into memory.
const MAPPED_FROM: u64 = 16 << 20;

/// The models' state after a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The record that the checkpoint was taken after.
    pub mark: Mark,
    /// The saved state.
    pub payload: Payload,
}

/// The saved state as bytes, in memory or in a mapped file.
#[derive(Clone)]
pub struct Payload {
    bytes: Bytes,
    /// The number of bytes before the payload.
    from: usize,
}

#[derive(Clone)]
enum Bytes {
    Read(Vec<u8>),
    Mapped(View),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Read(bytes) => bytes,
            Bytes::Mapped(view) => view.bytes(0..view.len()).expect("all of it is settled"),
        }
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Payload { bytes: Bytes::Read(bytes), from: 0 }
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.len())
    }
}

/// Produces bytes in pieces, in order, and passes each piece to the given function.
pub type PassOn<'p> = dyn Fn(&mut dyn FnMut(&[u8])) + 'p;

/// Writes a checkpoint of `bytes` bytes, which `write` passes on in pieces. Then removes the
/// checkpoints that are no longer needed.
pub(crate) fn save(directory: &Directory, mark: Mark, bytes: u64, write: &PassOn<'_>) -> Result<()> {
    let mut header = [0; HEADER_BYTES];
    header[0..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&mark.position.get().to_le_bytes());
    header[24..28].copy_from_slice(&mark.chain.to_le_bytes());
    header[28..32].copy_from_slice(&mark.term.get().to_le_bytes());
    header[32..40].copy_from_slice(&bytes.to_le_bytes());
    directory.write_whole_in_pieces(&format!("{:020}{SUFFIX}", mark.position), |file| {
        let mut crc = checksum_of(&header);
        let (mut offset, mut written) = (HEADER_BYTES as u64, Ok(()));
        write(&mut |piece| {
            if written.is_ok() {
                crc.update(piece);
                written = file.write_at(piece, offset);
                offset += piece.len() as u64;
            }
        });
        written?;
        assert_eq!(offset - HEADER_BYTES as u64, bytes, "as many bytes as were announced");
        header[12..16].copy_from_slice(&finished(&crc).to_le_bytes());
        file.write_at(&header, 0)
    })?;
    let names = names(directory)?;
    names.iter().skip(KEPT).try_for_each(|name| directory.remove(name))
}

/// The result of a search among the checkpoints of a log.
#[derive(Debug, Default)]
pub(crate) struct CheckpointSearch {
    pub(crate) checkpoint: Option<Checkpoint>,
    /// The files of newer checkpoints that cannot be used: damaged, or of a different history.
    pub(crate) useless: Vec<String>,
}

/// Returns the newest checkpoint of a record before `before` whose bytes verify and whose mark the
/// log holds.
pub(crate) fn newest(
    directory: &Directory,
    before: Position,
    holds: impl Fn(Mark) -> bool,
) -> Result<CheckpointSearch> {
    let mut found = CheckpointSearch::default();
    for name in names(directory)?.into_iter().filter(|name| position_of(name) < before) {
        let bytes = match contents(directory, &name) {
            // Another process, which has a newer checkpoint, removed this file.
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => continue,
            read => read?,
        };
        match decode(bytes, &name, directory)? {
            Some(checkpoint) if holds(checkpoint.mark) => {
                found.checkpoint = Some(checkpoint);
                break;
            }
            _ => found.useless.push(name),
        }
    }
    Ok(found)
}

/// Returns the position that the oldest kept checkpoint was taken after. Returns [`Position::ZERO`]
/// when there is no checkpoint.
pub(crate) fn oldest(directory: &Directory) -> Result<Position> {
    Ok(names(directory)?.pop().map_or(Position::ZERO, |name| position_of(&name)))
}

/// Returns the position of the newest checkpoint after `position` that verifies. The log was synced
/// up to that position before the checkpoint was written, even if it lost records since.
pub(crate) fn newest_behind(directory: &Directory, position: Position) -> Result<Option<Position>> {
    for name in names(directory)?.iter().take_while(|name| position_of(name) > position) {
        if let Some(checkpoint) = decode(contents(directory, name)?, name, directory)? {
            return Ok(Some(checkpoint.mark.position));
        }
    }
    Ok(None)
}

/// Returns the position in a checkpoint's file name, or [`Position::ZERO`] for any other name.
fn position_of(name: &str) -> Position {
    let position = name.strip_suffix(SUFFIX).and_then(|position| position.parse().ok());
    position.map_or(Position::ZERO, Position::new)
}

/// Reads the checkpoint in a file, whatever log it belongs to. Returns `None` when it does not
/// verify.
///
/// # Errors
/// [`Error::NewerFormat`] and [`Error::Io`].
pub fn read(storage: &Arc<dyn Storage>, path: &Path) -> Result<Option<Checkpoint>> {
    let directory = Directory::open(Arc::clone(storage), folder_of(path))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    decode(contents(&directory, name)?, name, &directory)
}

/// Returns the bytes of a file. A large file is mapped.
fn contents(directory: &Directory, name: &str) -> Result<Bytes> {
    match directory.read_up_to(name, MAPPED_FROM)? {
        Ok(bytes) => Ok(Bytes::Read(bytes)),
        Err(bytes) => directory.map_whole(name, bytes).map(Bytes::Mapped),
    }
}

/// Returns the names of the checkpoint files, newest first.
fn names(directory: &Directory) -> Result<Vec<String>> {
    let mut names = directory.names()?;
    names.retain(|name| name.ends_with(SUFFIX));
    names.reverse();
    debug_assert!(names.is_sorted_by(|one, next| one > next), "names are listed in order, each once");
    Ok(names)
}

/// Decodes a checkpoint. A file that does not verify is no checkpoint. A file of a newer version is
/// an error, because its log may have a newer version, too.
fn decode(bytes: Bytes, name: &str, directory: &Directory) -> Result<Option<Checkpoint>> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>().copied() else { return Ok(None) };
    let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    if &header[..8] != MAGIC || u64_at(32) != (bytes.len() - HEADER_BYTES) as u64 {
        return Ok(None);
    }
    if u32_at(12) != checksum(&header, &bytes[HEADER_BYTES..]) {
        return Ok(None);
    }
    if u32_at(8) > VERSION {
        return Err(Error::NewerFormat { path: directory.path_of(name), version: u32_at(8), supported: VERSION });
    }
    let mark = Mark { position: Position::new(u64_at(16)), term: Term::new(u32_at(28)), chain: u32_at(24) };
    Ok(Some(Checkpoint { mark, payload: Payload { bytes, from: HEADER_BYTES } }))
}

fn checksum(header: &[u8; HEADER_BYTES], payload: &[u8]) -> u32 {
    let mut crc = checksum_of(header);
    crc.update(payload);
    finished(&crc)
}

/// Starts the checksum with the header fields around the checksum's own place.
fn checksum_of(header: &[u8; HEADER_BYTES]) -> crc_fast::Digest {
    let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    crc.update(&header[..12]);
    crc.update(&header[16..]);
    crc
}

fn finished(crc: &crc_fast::Digest) -> u32 {
    u32::try_from(crc.finalize()).expect("a 32-bit checksum")
}
