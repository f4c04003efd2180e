//! A snapshot: the rows of statements as one directory, which appears whole.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::cells::{ExportCell, ExportColumn};
use super::directory::parent;
use super::disk::{ExportDisk, SystemDisk};
use super::ordered::{ExportOptions, ResultColumns};
use super::parquet_file::{self, ExportNotes};
use super::plans::{ExportPlan, SnapshotSource};
use super::reading::{self, ResultEnd, ResultPart};
use crate::failure::{CommandError, Result};
use crate::text::counted;
use crate::verbs::client::{HttpClient, Path as HttpPath};

/// The bytes of rows that are kept in memory. Then each day gets a file.
const BYTES_MAX: usize = 64 << 20;

/// Exports what is there.
///
/// # Errors
/// When the directory has files, and when the server or the disk fails. Then no directory appears.
pub(super) fn run(
    client: &HttpClient,
    source: &SnapshotSource,
    root: &Path,
    options: &ExportOptions,
    is_following: bool,
    out: &mut dyn Write,
) -> Result {
    if is_following {
        let message = "--follow needs an ordered export: --events, --records, or a statement with :after";
        return Err(CommandError::Usage(message.to_owned()));
    }
    let disk = &SystemDisk;
    let failed = |error: io::Error| CommandError::at(format_args!("write {}", root.display()), error);
    let is_used = fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_some());
    if is_used {
        return Err(CommandError::new(format!("{} is not empty: a snapshot needs a new directory", root.display())));
    }
    let (position, plans) = (position_of(client)?, source.plans(client)?);
    let partial = partial_of(root)?;
    match fs::remove_dir_all(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => disk.create_directory(&partial).map_err(failed)?,
    }
    let filled = plans.into_iter().try_fold(0, |rows, plan| -> Result<u64> {
        let notes = ExportNotes { statement: plan.identity(), position };
        let folder = partial.join(&plan.directory);
        disk.create_directory(&folder).map_err(failed)?;
        let (columns, of_table) = (None, plan.columns(client)?);
        let (by_day, bytes, files, written) = (BTreeMap::new(), 0, 0, 0);
        let mut writer = SnapshotRows {
            disk,
            folder,
            notes,
            options,
            of_table,
            columns,
            types: None,
            by_day,
            bytes,
            files,
            written,
        };
        writer.fill(client, &plan, source.has_past().then_some(position))?;
        Ok(rows + writer.written)
    });
    let rows = filled.inspect_err(|_: &CommandError| {
        // The next export to this directory removes what stays.
        let _ = fs::remove_dir_all(&partial);
    })?;
    disk.sync_directory(&partial).map_err(failed)?;
    disk.rename(&partial, root).map_err(failed)?;
    disk.sync_directory(parent(root)).map_err(failed)?;
    writeln!(out, "{}  {}", root.display(), counted(rows, "row"))?;
    Ok(())
}

/// The last position of the log.
fn position_of(client: &HttpClient) -> Result<i64> {
    let answer = client.post(&HttpPath::new(&["sql"]), &serde_json::json!({ "sql": "SELECT 1" }))?;
    answer["as_of"].as_i64().ok_or_else(|| CommandError::new("the answer to a statement has no position"))
}

/// The directory that is filled before it gets its name.
fn partial_of(root: &Path) -> Result<PathBuf> {
    let name = root.file_name().ok_or_else(|| CommandError::new(format!("{} has no name", root.display())))?;
    let mut partial = std::ffi::OsString::from(".");
    partial.push(name);
    partial.push(".partial");
    Ok(root.with_file_name(partial))
}

/// The rows of one statement.
struct SnapshotRows<'s> {
    disk: &'s dyn ExportDisk,
    folder: PathBuf,
    notes: ExportNotes,
    options: &'s ExportOptions,
    of_table: Vec<ExportColumn>,
    columns: Option<ResultColumns>,
    /// The types, from the first file on.
    types: Option<Vec<ExportColumn>>,
    by_day: BTreeMap<Option<String>, Vec<Vec<ExportCell>>>,
    bytes: usize,
    files: u32,
    written: u64,
}

impl SnapshotRows<'_> {
    fn fill(&mut self, client: &HttpClient, plan: &ExportPlan, as_of: Option<i64>) -> Result {
        let as_of = as_of.and_then(|position| u64::try_from(position).ok());
        let end = reading::read(client, &reading::request(&plan.sql, &plan.names, as_of), |part| {
            match part {
                ResultPart::Columns(names) => self.columns = Some(ResultColumns::check(names, self.options)?),
                ResultPart::Row(row, bytes) => {
                    let day = self.columns.as_ref().and_then(|columns| columns.day_of(&row));
                    self.by_day.entry(day).or_default().push(row);
                    self.bytes += bytes;
                    if self.bytes >= BYTES_MAX {
                        self.write()?;
                    }
                }
            }
            Ok(true)
        })?;
        if let ResultEnd::TooCostly(message) = end {
            return Err(CommandError::new(message));
        }
        if self.written == 0 && self.by_day.is_empty() {
            // Engines find the columns also without a row.
            self.by_day.insert(None, Vec::new());
        }
        self.write()?;
        let synced = self.disk.sync_directory(&self.folder);
        synced.map_err(|error| CommandError::at(format_args!("sync {}", self.folder.display()), error))
    }

    /// Writes a file for each day.
    fn write(&mut self) -> Result {
        let Some(columns) = &self.columns else { return Ok(()) };
        let by_day = std::mem::take(&mut self.by_day);
        if self.types.is_none() {
            let all: Vec<&[ExportCell]> = by_day.values().flatten().map(Vec::as_slice).collect();
            self.types = Some(columns.types(self.options, &self.of_table, &all));
        }
        for (day, rows) in by_day {
            let folder = day.map_or_else(|| self.folder.clone(), |day| self.folder.join(day));
            let path = folder.join(format!("part-{:06}.parquet", self.files));
            let types = self.types.as_deref().unwrap_or_default();
            let written = || {
                self.disk.create_directory(&folder)?;
                self.disk.write(&path, &mut |file| parquet_file::write(file, types, &rows, &self.notes))?;
                self.disk.sync_directory(&folder)
            };
            written().map_err(|error| CommandError::at(format_args!("write {}", path.display()), error))?;
            self.files += 1;
            self.written += rows.len() as u64;
        }
        self.bytes = 0;
        Ok(())
    }
}
