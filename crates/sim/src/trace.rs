//! What happened in a run, one line an event, and the hash of it all: two runs of one seed have the same.

use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::Xxh3;

/// The trace of a run. Cheap to clone; all clones write the same trace.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    hash: Xxh3,
    /// `None` when only the hash is wanted.
    lines: Option<Vec<String>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "trace {:016x}", self.hash.digest())
    }
}

impl Trace {
    pub(crate) fn new(lines: bool) -> Self {
        Trace { inner: Arc::new(Mutex::new(Inner { hash: Xxh3::new(), lines: lines.then(Vec::new) })) }
    }

    /// One that nobody reads.
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
