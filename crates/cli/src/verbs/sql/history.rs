//! The statements of earlier shells: a file that only its user can read, one JSON string per line.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::json;

/// How many statements a shell recalls. A file with twice as many is cut.
const STATEMENTS_MAX: usize = 1_000;

/// A longer statement is not kept in the file.
const STATEMENT_BYTES_MAX: usize = 64 << 10;

/// The permissions of the file and of its directory.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// The file of the history.
#[derive(Debug)]
pub(super) struct HistoryFile {
    path: PathBuf,
    file: File,
}

impl HistoryFile {
    /// Where the user's history is: `quire/sql_history` in `XDG_STATE_HOME`, or else in
    /// `~/.local/state`. Without a home there is none.
    pub(super) fn of_user() -> Option<PathBuf> {
        let directory = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = directory("XDG_STATE_HOME").or_else(|| Some(directory("HOME")?.join(".local/state")))?;
        Some(state.join("quire/sql_history"))
    }

    /// Opens a history, and returns its statements, the oldest first. Creates the file and its
    /// directory.
    ///
    /// # Errors
    /// When it can't be read and written.
    pub(super) fn open(path: PathBuf) -> io::Result<(Self, Vec<String>)> {
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)?;
        }
        let file = append_to(&path)?;
        file.set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
        let bytes = fs::read(&path)?;
        // A line of another program is skipped.
        let lines = bytes.split(|byte| *byte == b'\n');
        let mut statements: Vec<String> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let mut history = HistoryFile { path, file };
        if statements.len() > 2 * STATEMENTS_MAX {
            statements.drain(..statements.len() - STATEMENTS_MAX);
            history.replace(&statements)?;
        }
        Ok((history, statements))
    }

    /// Adds a statement.
    ///
    /// # Errors
    /// When the file can't be written.
    pub(super) fn add(&mut self, statement: &str) -> io::Result<()> {
        if statement.len() > STATEMENT_BYTES_MAX {
            return Ok(());
        }
        // One write: lines of two shells do not mix.
        self.file.write_all(line(statement).as_bytes())
    }

    /// Writes the file anew. A shell that has the old one open loses what it adds later.
    fn replace(&mut self, statements: &[String]) -> io::Result<()> {
        let new = self.path.with_extension(format!("{}", std::process::id()));
        let mut file = append_to(&new)?;
        let text: String = statements.iter().map(|statement| line(statement)).collect();
        file.write_all(text.as_bytes())?;
        fs::rename(&new, &self.path)?;
        self.file = file;
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)
}

fn line(statement: &str) -> String {
    json!(statement).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_found_again_and_only_the_user_can_read_them() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state/quire/sql_history");
        let (mut history, statements) = HistoryFile::open(path.clone()).expect("opened");
        assert!(statements.is_empty());
        for statement in ["SELECT 1\n\\ + 2;", ".tables", &"x".repeat(STATEMENT_BYTES_MAX + 1)] {
            history.add(statement).expect("added");
        }
        let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().expect("a directory"))), (FILE_MODE, DIRECTORY_MODE));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        let (_, statements) = HistoryFile::open(path.clone()).expect("opened");
        assert_eq!(statements, ["SELECT 1\n\\ + 2;", ".tables"]);
        assert_eq!(mode(&path), FILE_MODE);
    }

    #[test]
    fn a_long_history_is_cut_to_its_newest_statements() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("sql_history");
        let (mut history, _) = HistoryFile::open(path.clone()).expect("opened");
        for number in 0..=2 * STATEMENTS_MAX {
            history.add(&number.to_string()).expect("added");
        }
        let (mut history, statements) = HistoryFile::open(path.clone()).expect("opened");
        assert_eq!(statements.len(), STATEMENTS_MAX);
        assert_eq!(statements.last(), Some(&(2 * STATEMENTS_MAX).to_string()));
        history.add("new").expect("added");
        let (_, statements) = HistoryFile::open(path.clone()).expect("opened");
        assert_eq!((statements.len(), &*statements[STATEMENTS_MAX]), (STATEMENTS_MAX + 1, "new"));
        assert_eq!(fs::metadata(&path).expect("it exists").permissions().mode() & 0o777, FILE_MODE);
    }
}
