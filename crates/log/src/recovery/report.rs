//! The report of recovery, for the operator.

use std::fmt;
use std::path::PathBuf;

use quire_model::Position;

use crate::error::Damage;

/// The result of opening a log.
#[derive(Debug, Clone, Default)]
pub struct Recovery {
    /// The count of records in the log.
    pub records: u64,
    /// The count of segments.
    pub segments: usize,
    /// The torn tail that was cut, if any.
    pub cut: Option<TornTail>,
    /// Damaged parts of sealed segments, as far as they are detected without reading records.
    pub damage: Vec<Damage>,
}

/// A torn tail that recovery cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The segment that was cut.
    pub path: PathBuf,
    /// The byte at which the log now ends; 0 when the whole segment was removed.
    pub offset: u64,
    /// The bytes that were cleared, up to the last byte that was not zero.
    pub bytes: u64,
    /// The first lost position, which the next commit takes again.
    pub position: Position,
    /// The count of lost records, if it is known.
    pub records: Option<u64>,
    /// Whether lost records had been synced, so that the file was damaged after it was written.
    pub synced: bool,
    /// The file with a copy of the bytes, if lost records had been synced. A read-only opening cuts
    /// nothing and copies nothing.
    pub kept: Option<PathBuf>,
    /// The reason why the log ends here.
    pub reason: String,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            // The file ends with a whole record, or the kernel lost all later bytes.
            0 => write!(f, "no bytes follow byte {} of {}", self.offset, self.path.display())?,
            bytes => {
                let (end, path) = (self.offset, self.path.display());
                write!(f, "the log ends at byte {end} of {path}; {bytes} later bytes were discarded")?;
            }
        }
        write!(f, ", from record {} on", self.position)?;
        if let Some(records) = self.records {
            write!(f, " ({records} records were appended and are lost)")?;
        }
        write!(f, ": {}", self.reason)?;
        if self.synced {
            f.write_str("; some had been synced, so the file was damaged afterwards")?;
        }
        if let Some(kept) = &self.kept {
            write!(f, "; the bytes were copied to {}", kept.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_the_loss_with_and_without_bytes() {
        let cut = |bytes, records| TornTail {
            path: "1.log".into(),
            offset: 480,
            bytes,
            position: Position::new(7),
            records,
            synced: false,
            kept: None,
            reason: "the record is not whole".to_owned(),
        };
        let message = "the log ends at byte 480 of 1.log; 12 later bytes were discarded, from record 7 on: the record is not whole";
        assert_eq!(cut(12, None).to_string(), message);
        let message = "no bytes follow byte 480 of 1.log, from record 7 on (2 records were appended and are lost): the record is not whole";
        assert_eq!(cut(0, Some(2)).to_string(), message);
    }
}
