//! The events of a run, one line each, and the hash of everything: two runs of one seed have the
//! same. The hash also covers data without a line. That is the bytes of each write and, after each
//! step, the content of every file, including stores through mappings.

use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::Xxh3;

/// The trace of a run. Cheap to clone; all clones write the same trace.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    inner: Arc<Mutex<TraceState>>,
}

struct TraceState {
    hash: Xxh3,
    /// `None` when only the hash is wanted.
    lines: Option<Vec<String>>,
}

impl std::fmt::Debug for TraceState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "trace {:016x}", self.hash.digest())
    }
}

impl Trace {
    pub(crate) fn new(lines: bool) -> Self {
        Trace { inner: Arc::new(Mutex::new(TraceState { hash: Xxh3::new(), lines: lines.then(Vec::new) })) }
    }

    /// A trace without lines.
    pub(crate) fn silent() -> Self {
        Trace::new(false)
    }

    /// Adds a line.
    pub(crate) fn line(&self, line: &str) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.hash.update(line.as_bytes());
        inner.hash.update(b"\n");
        if let Some(lines) = &mut inner.lines {
            lines.push(line.to_owned());
        }
    }

    /// Adds stored bytes, which have no line.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.hash.update(&(bytes.len() as u64).to_le_bytes());
        inner.hash.update(bytes);
    }

    /// Adds the line of an operation on the disk.
    pub(crate) fn operation(&self, operation: &str, path: &Path, detail: u64, result: &str) {
        let mut line = format!("       | {operation:8} {}", path.display());
        if detail > 0 {
            let _ = write!(line, " {detail}");
        }
        let _ = write!(line, " {result}");
        self.line(&line);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).hash.digest()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).lines.clone().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quire::{Access, ManualClock, Storage, Timestamp};

    use super::*;
    use crate::disk::{Pace, SimDisk};

    /// The hash and the number of lines of a run with these writes and stores.
    fn hash_of(written: &[u8], stored: u64) -> (u64, Vec<String>) {
        let (trace, path) = (Trace::new(true), Path::new("/file"));
        let pace = Pace { quick_micros_max: 1, slow_micros: 1, operations_per_slow: 1 };
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(7)));
        let disk = SimDisk::new(7, pace, clock, trace.clone());
        let file = disk.process().open(path, Access::CreateNew).unwrap();
        file.write_at(written, 0).unwrap();
        file.set_bytes(4096).unwrap();
        file.words(8).unwrap().word(3).store(stored, std::sync::atomic::Ordering::Relaxed);
        disk.trace_contents(false).unwrap();
        (trace.hash(), trace.lines())
    }

    #[test]
    fn the_hash_covers_what_was_written_and_what_was_stored_through_a_mapping() {
        let (hash, lines) = hash_of(b"abc", 5);
        assert_eq!(hash_of(b"abc", 5), (hash, lines.clone()));
        for (other, same_lines) in [hash_of(b"abd", 5), hash_of(b"abc", 6)] {
            assert_ne!(other, hash);
            assert_eq!(same_lines, lines);
        }
    }
}
