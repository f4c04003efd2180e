//! The directory of an ordered export: its newest file says where to continue.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::cells::{ExportCell, ExportColumn};
use super::disk::ExportDisk;
use super::parquet_file::{self, ExportNotes};
use crate::failure::{CommandError, Result};

/// The end of the name of a file.
const END: &str = ".parquet";

/// The end of the name of a file that is not complete.
const TEMPORARY_END: &str = ".parquet.tmp";

/// The files of an ordered export.
pub(super) struct ExportDirectory<'d> {
    disk: &'d dyn ExportDisk,
    root: PathBuf,
    statement: String,
    /// The columns of the files, once there is one.
    columns: Option<Vec<ExportColumn>>,
    position: Option<i64>,
}

/// A file of an export: its directory and the positions in its name.
#[derive(Debug, PartialEq, Eq)]
struct ExportFileName {
    directory: PathBuf,
    path: PathBuf,
    last: i64,
}

impl<'d> ExportDirectory<'d> {
    /// Opens a directory, or creates it. Removes incomplete files.
    ///
    /// # Errors
    /// When it can't be used, its newest file is damaged, or it has the files of another export.
    pub(super) fn open(disk: &'d dyn ExportDisk, root: PathBuf, statement: String) -> Result<Self> {
        let failed = |error| CommandError::at(format_args!("use {}", root.display()), error);
        disk.create_directory(&root).map_err(failed)?;
        disk.sync_directory(parent(&root)).map_err(failed)?;
        let mut directory = ExportDirectory { disk, root, statement, columns: None, position: None };
        if let Some(newest) = directory.newest()? {
            directory.continue_after(&newest)?;
        }
        Ok(directory)
    }

    /// The position of the last row; `None` before the first one.
    pub(super) fn position(&self) -> Option<i64> {
        self.position
    }

    /// The columns of the files; `None` before the first one.
    pub(super) fn columns(&self) -> Option<&[ExportColumn]> {
        self.columns.as_deref()
    }

    /// Publishes rows as the next file, and returns its path below the directory. After a crash the
    /// file exists whole or not at all, and no later file exists without it.
    ///
    /// # Errors
    /// When a step fails, or a value does not fit its column.
    pub(super) fn publish(
        &mut self,
        day: Option<&str>,
        columns: &[ExportColumn],
        rows: &[Vec<ExportCell>],
        (first, last): (i64, i64),
    ) -> Result<PathBuf> {
        let below = day.map_or_else(PathBuf::new, PathBuf::from);
        let folder = self.root.join(&below);
        let name = format!("{first:020}-{last:020}{END}");
        let notes = ExportNotes { statement: self.statement.clone(), position: last };
        let published = || {
            if day.is_some() {
                self.disk.create_directory(&folder)?;
            }
            let temporary = folder.join(format!("{first:020}-{last:020}{TEMPORARY_END}"));
            self.disk.write(&temporary, &mut |file| parquet_file::write(file, columns, rows, &notes))?;
            self.disk.rename(&temporary, &folder.join(&name))?;
            self.disk.sync_directory(&folder)?;
            self.disk.sync_directory(&self.root)
        };
        published().map_err(|error: io::Error| {
            CommandError::at(format_args!("write {}", folder.join(&name).display()), error)
        })?;
        self.position = Some(last);
        self.columns.get_or_insert_with(|| columns.to_vec());
        Ok(below.join(name))
    }

    /// Takes position and columns from the newest file.
    fn continue_after(&mut self, newest: &ExportFileName) -> Result {
        let path = newest.path.display();
        // A crash may have come before these steps.
        let synced = self.disk.sync_directory(&newest.directory).and_then(|()| self.disk.sync_directory(&self.root));
        synced.map_err(|error| CommandError::at(format_args!("sync the directory of {path}"), error))?;
        let (columns, notes) = parquet_file::read(&newest.path).map_err(|error| {
            let attempt = format_args!("continue after {path}, the newest file");
            CommandError::at(attempt, format_args!("{error}; without it, its rows are exported again"))
        })?;
        if notes.statement != self.statement {
            return Err(CommandError::new(format!(
                "{} has an export of another statement: {}; use another directory",
                self.root.display(),
                notes.statement
            )));
        }
        if notes.position != newest.last {
            return Err(CommandError::new(format!("{path} was renamed: its last position is {}", notes.position)));
        }
        (self.columns, self.position) = (Some(columns), Some(notes.position));
        Ok(())
    }

    /// Finds the newest file, and removes incomplete ones.
    fn newest(&self) -> Result<Option<ExportFileName>> {
        let failed = |error: io::Error| CommandError::at(format_args!("read {}", self.root.display()), error);
        let mut newest: Option<ExportFileName> = None;
        let mut folders = vec![self.root.clone()];
        for entry in fs::read_dir(&self.root).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_day = entry.file_name().to_str().is_some_and(|name| name.starts_with("day="));
            if is_day {
                folders.push(entry.path());
            }
        }
        for folder in folders {
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if name.ends_with(TEMPORARY_END) {
                    fs::remove_file(&path).map_err(failed)?;
                } else if let Some(stem) = name.strip_suffix(END) {
                    let last = stem.split_once('-').and_then(|(_, last)| last.parse().ok()).ok_or_else(|| {
                        let message = "is no file of an ordered export: use another directory";
                        CommandError::new(format!("{} {message}", path.display()))
                    })?;
                    if newest.as_ref().is_none_or(|newest| newest.last < last) {
                        newest = Some(ExportFileName { directory: folder.clone(), path, last });
                    }
                }
            }
        }
        Ok(newest)
    }
}

/// The directory above a path.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
