//! What opening a log found, to be told to whoever runs it.

use std::fmt;
use std::path::PathBuf;

use quire_model::Position;

use crate::error::Damage;

/// What opening a log found.
#[derive(Debug, Clone, Default)]
pub struct Recovery {
    /// How many records the log holds.
    pub records: u64,
    /// How many segments.
    pub segments: usize,
    /// What was cut off its tail, if anything.
    pub cut: Option<Cut>,
    /// What of its sealed segments can't be read, as far as that is seen without reading records: everything else is.
    pub damage: Vec<Damage>,
}

/// A torn tail that was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The segment it was cut from.
    pub path: PathBuf,
    /// The byte at which the log now ends; 0 when the whole segment went.
    pub offset: u64,
    /// How many bytes, from there on, were cleared: from the first to the last that was not zero.
    pub bytes: u64,
    /// The first position that is not there any more, and is given again.
    pub position: Position,
    /// How many records the last run had appended from there on, when that is known.
    pub records: Option<u64>,
    /// Whether some of it had been synced: then it was damaged after it was written.
    pub synced: bool,
    /// Where the bytes were kept, when some of them had been synced. Of a log that is only read nothing is cut, and so nothing is kept elsewhere.
    pub kept: Option<PathBuf>,
    /// What was met there.
    pub reason: String,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            // The file ends with a whole record, or the kernel has lost all that was behind it.
            0 => write!(f, "nothing is left behind byte {} of {}", self.offset, self.path.display())?,
            bytes => {
                let (end, path) = (self.offset, self.path.display());
                write!(f, "the log ends at byte {end} of {path}, and {bytes} bytes behind it do not count")?;
            }
        }
        write!(f, ", from record {} on", self.position)?;
        if let Some(records) = self.records {
            write!(f, " ({records} had been appended)")?;
        }
        write!(f, ": {}", self.reason)?;
        if self.synced {
            f.write_str("; some of it had been synced, so it was damaged since")?;
        }
        if let Some(kept) = &self.kept {
            write!(f, "; its bytes are kept in {}", kept.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_is_told_and_so_is_what_went_without_a_trace() {
        let cut = |bytes, records| Cut {
            path: "1.log".into(),
            offset: 480,
            bytes,
            position: Position::new(7),
            records,
            synced: false,
            kept: None,
            reason: "the record is not whole".to_owned(),
        };
        let told = "the log ends at byte 480 of 1.log, and 12 bytes behind it do not count, from record 7 on: the record is not whole";
        assert_eq!(cut(12, None).to_string(), told);
        let told =
            "nothing is left behind byte 480 of 1.log, from record 7 on (2 had been appended): the record is not whole";
        assert_eq!(cut(0, Some(2)).to_string(), told);
    }
}
