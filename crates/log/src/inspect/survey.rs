//! The files of a shard, and the positions stored in its control file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_model::Position;

use crate::durable::office;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::processes::control::{self, ControlValues};
use crate::segment::{COMPACTED_HEADER_BYTES, SegmentHeader};
use crate::storage::Storage;
use crate::storage::directory::Directory;

/// The kind of a file of a shard, derived from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// The control file.
    Control,
    /// The durable cell of a vote.
    Office,
    /// The statistics page.
    Statistics,
    /// A segment, by its first position.
    Segment(Position),
    /// The index of a sealed segment, by its first position.
    Index(Position),
    /// A checkpoint, by the position after which it was taken.
    Checkpoint(Position),
    /// A copy of bytes that opening cut off the tail, by the first position in it.
    Cut(Position),
    /// A segment being prepared.
    Spare,
    /// An empty lock file.
    Lock,
    /// An unfinished file.
    Unfinished,
    /// A file unknown to this version.
    Unknown,
}

/// A file of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyedFile {
    /// The name in the shard's directory.
    pub name: String,
    /// The path.
    pub path: PathBuf,
    /// The kind.
    pub kind: FileKind,
    /// The length in bytes; `None` when the file was removed meanwhile.
    pub bytes: Option<u64>,
}

/// The content of a shard's directory at one moment.
#[derive(Debug, Clone)]
pub struct Survey {
    /// The files in the order of their names.
    pub files: Vec<SurveyedFile>,
    /// The last appended record, when the control file has it.
    pub tail: Option<Position>,
    /// The last synced record, when the control file has it.
    pub durable: Option<Position>,
    /// The last record that the owner of the log published. `None` when the log publishes by
    /// itself.
    pub published: Option<Position>,
    /// Whether the control file belongs to another log or is damaged.
    pub control_is_foreign: bool,
    pub(crate) directory: Arc<Directory>,
}

impl FileKind {
    /// Returns the kind of a file with this name.
    pub fn of(name: &str) -> Self {
        let numbered = |suffix: &str| {
            let digits = name.strip_suffix(suffix).filter(|digits| digits.len() == 20)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok().map(Position::new))?
        };
        match name {
            "control" => return FileKind::Control,
            office::NAME => return FileKind::Office,
            "statistics" => return FileKind::Statistics,
            name if name.starts_with("spare") => return FileKind::Spare,
            "opening" | "duties" | "sealing" | "checkpointing" | "compacting" => return FileKind::Lock,
            name if name.starts_with("seat-") => return FileKind::Lock,
            name if name.ends_with(".new") => return FileKind::Unfinished,
            _ => {}
        }
        numbered(".log")
            .map(FileKind::Segment)
            .or_else(|| numbered(".idx").map(FileKind::Index))
            .or_else(|| numbered(".checkpoint").map(FileKind::Checkpoint))
            .or_else(|| numbered(".cut").map(FileKind::Cut))
            .unwrap_or(FileKind::Unknown)
    }
}

impl Survey {
    /// Surveys the directory of a shard.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when the directory cannot be listed.
    pub fn of(storage: &Arc<dyn Storage>, shard: &Path, identity: Identity) -> Result<Self> {
        let directory = Directory::open(Arc::clone(storage), shard)?;
        // The control file is read first, so that the listed files hold all records up to its tail.
        let known = control::peek(&directory, identity);
        let names = directory.names()?;
        let control_is_foreign = known.is_none() && names.iter().any(|name| name == control::NAME);
        let ControlValues { tail, durable, published } = known.unwrap_or_default();
        let file = |name: String| {
            let path = directory.path_of(&name);
            SurveyedFile { kind: FileKind::of(&name), bytes: directory.bytes_of(&name).ok(), path, name }
        };
        let files = names.into_iter().map(file).collect();
        Ok(Survey { files, tail, durable, published, control_is_foreign, directory: Arc::new(directory) })
    }

    /// Checks that this user may read every data file. A file without permission is not damaged.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) of the first file without read permission.
    pub(crate) fn check_permissions(&self) -> Result<()> {
        let denied = |error: &Error| matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied);
        let holds = |file: &&SurveyedFile| {
            !matches!(file.kind, FileKind::Lock | FileKind::Spare | FileKind::Unfinished | FileKind::Unknown)
        };
        let looked = self.files.iter().filter(holds).map(|file| self.directory.read_head(&file.name, 1));
        looked.filter_map(|head| head.err().filter(denied)).next().map_or(Ok(()), Err)
    }

    /// Returns the last record that is both synced and published, the end of a backup. Returns
    /// `None` when it is unknown.
    pub fn settled(&self) -> Option<Position> {
        self.durable.map(|durable| self.published.map_or(durable, |published| durable.min(published)))
    }

    /// Returns the directory of the shard.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the segments in order of position.
    pub fn segments(&self) -> impl Iterator<Item = (&SurveyedFile, Position)> {
        self.files.iter().filter_map(|file| match file.kind {
            FileKind::Segment(first) => Some((file, first)),
            _ => None,
        })
    }

    /// Returns the checkpoints, oldest first.
    pub fn checkpoints(&self) -> impl Iterator<Item = (&SurveyedFile, Position)> {
        self.files.iter().filter_map(|file| match file.kind {
            FileKind::Checkpoint(position) => Some((file, position)),
            _ => None,
        })
    }
}

/// Returns the log identity stored in the first segment whose header verifies.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) when the directory cannot be listed.
pub fn identity_of(storage: &Arc<dyn Storage>, shard: &Path) -> Result<Option<Identity>> {
    let directory = Directory::open(Arc::clone(storage), shard)?;
    let names = directory.names()?;
    let segments = names.iter().filter(|name| matches!(FileKind::of(name), FileKind::Segment(_)));
    Ok(segments
        .filter_map(|name| directory.read_head(name, COMPACTED_HEADER_BYTES).ok())
        .find_map(|head| SegmentHeader::identity_of(&head)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_name() {
        let kinds = [
            ("00000000000000000017.log", FileKind::Segment(Position::new(17))),
            ("00000000000000000017.idx", FileKind::Index(Position::new(17))),
            ("00000000000000000017.checkpoint", FileKind::Checkpoint(Position::new(17))),
            ("00000000000000000017.cut", FileKind::Cut(Position::new(17))),
            ("00000000000000000017.checkpoint.new", FileKind::Unfinished),
            ("control", FileKind::Control),
            ("statistics", FileKind::Statistics),
            ("spare-00", FileKind::Spare),
            ("seat-63", FileKind::Lock),
            ("opening", FileKind::Lock),
            ("17.log", FileKind::Unknown),
            ("0000000000000000001x.log", FileKind::Unknown),
            ("99999999999999999999.log", FileKind::Unknown),
        ];
        for (name, kind) in kinds {
            assert_eq!(FileKind::of(name), kind, "{name}");
        }
    }
}
