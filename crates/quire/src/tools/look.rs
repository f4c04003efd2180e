//! Inspection of the files of a database, one at a time.

use std::path::Path;

use quire_log::inspect::{IndexFile, InspectedSegment, Survey, read_checkpoint};
use quire_log::{Checkpoint, Identity};
use quire_model::ModelId;
use quire_model::codec::Decoder;

use super::machine;
use super::verify::identity;
use crate::{Error, Result};

/// The log of the shard in a database's directory, and the shard's files.
///
/// The identity of the log comes from `quire.meta`, or from the segments if `quire.meta` is
/// damaged.
///
/// # Errors
/// [`ErrorKind::NotADatabase`](crate::ErrorKind::NotADatabase),
/// [`ErrorKind::NewerFormat`](crate::ErrorKind::NewerFormat),
/// [`ErrorKind::Io`](crate::ErrorKind::Io).
pub fn survey(database: &Path) -> Result<(Identity, Survey)> {
    let identity = identity(&machine(), database, &mut Vec::new())?;
    let shard = database.join(crate::meta::Meta::shard_name(identity.shard));
    Ok((identity, Survey::of(&machine(), &shard, identity)?))
}

/// Reads a segment file. With `identity`, the segment must be of that log.
///
/// # Errors
/// [`ErrorKind::Io`](crate::ErrorKind::Io); [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) and
/// [`ErrorKind::NewerFormat`](crate::ErrorKind::NewerFormat) of its header.
pub fn segment(file: &Path, identity: Option<Identity>) -> Result<InspectedSegment> {
    Ok(InspectedSegment::read(&machine(), file, identity)?)
}

/// Reads a checkpoint of any log. Returns `None` if it does not verify.
///
/// # Errors
/// [`ErrorKind::Io`](crate::ErrorKind::Io),
/// [`ErrorKind::NewerFormat`](crate::ErrorKind::NewerFormat).
pub fn checkpoint(file: &Path) -> Result<Option<Checkpoint>> {
    Ok(read_checkpoint(&machine(), file)?)
}

/// Reads the index of a sealed segment of any log. Returns `None` if it does not verify.
///
/// # Errors
/// [`ErrorKind::Io`](crate::ErrorKind::Io),
/// [`ErrorKind::NewerFormat`](crate::ErrorKind::NewerFormat).
pub fn index(file: &Path) -> Result<Option<IndexFile>> {
    Ok(IndexFile::read(&machine(), file)?)
}

/// The models whose state a checkpoint's payload holds, each with its bytes. Returns `None` if the
/// payload is malformed.
pub fn checkpoint_sections(payload: &[u8]) -> Option<Vec<(ModelId, u64)>> {
    let mut from = Decoder::new(payload);
    let mut sections = Vec::new();
    while !from.is_empty() {
        let (model, bytes) = (ModelId::new(from.u8().ok()?), from.u64().ok()?);
        from.raw(usize::try_from(bytes).ok()?).ok()?;
        sections.push((model, bytes));
    }
    Some(sections)
}

/// The words of a control file or statistics page that are not zero, with their numbers.
///
/// # Errors
/// [`ErrorKind::Io`](crate::ErrorKind::Io).
pub fn words(file: &Path) -> Result<Vec<(usize, u64)>> {
    let bytes = machine().read(file).map_err(|error| Error::io("read", file, error))?;
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    Ok(words.enumerate().filter(|(_, word)| *word != 0).collect())
}
