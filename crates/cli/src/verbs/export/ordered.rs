//! An ordered export: rows whose position grows, file after file, and new rows as they come.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::ExportType;
use super::cells::{ExportCell, ExportColumn, inferred};
use super::directory::{ExportDirectory, parent};
use super::disk::{ExportDisk, SystemDisk};
use super::plans::{ExportPlan, OrderedSource};
use super::reading::{self, ResultEnd, ResultPart};
use crate::calendar::date_of;
use crate::failure::{CommandError, Result};
use crate::stop::StopSignal;
use crate::text::counted;
use crate::threads;
use crate::verbs::client::HttpClient;

/// The rows and the bytes of rows that end a file.
const FILE_ROWS_MAX: usize = 1_000_000;
const FILE_BYTES_MAX: usize = 64 << 20;

/// The columns that name the day of a row, the first one that a result has.
const DAY_COLUMNS: [&str; 2] = ["time_ms", "enqueued_at_ms"];

/// The name of the directories of days, which engines show as a column.
const DAY: &str = "day";

/// The name of the day of rows without one, by the convention of Hive.
const NO_DAY: &str = "day=__HIVE_DEFAULT_PARTITION__";

/// The arguments about columns.
#[derive(Debug, Default)]
pub(super) struct ExportOptions {
    pub(super) day_of: Option<String>,
    pub(super) types: Vec<(String, ExportType)>,
}

/// The columns of a result that an export uses.
#[derive(Debug)]
pub(super) struct ResultColumns {
    pub(super) names: Vec<String>,
    day: Option<usize>,
}

impl ResultColumns {
    /// Checks the columns of a result.
    ///
    /// # Errors
    /// When two have one name, or an option names no column.
    pub(super) fn check(names: Vec<String>, options: &ExportOptions) -> Result<Self> {
        for (number, name) in names.iter().enumerate() {
            if names[..number].contains(name) {
                return Err(CommandError::new(format!("two columns are named {name}: give one another name with AS")));
            }
        }
        let place = |name: &str| names.iter().position(|other| other == name);
        if let Some((missing, _)) = options.types.iter().find(|(name, _)| place(name).is_none()) {
            return Err(CommandError::new(format!("--type names column {missing}, which the result does not have")));
        }
        let day = match &options.day_of {
            Some(name) => Some(place(name).ok_or_else(|| {
                CommandError::new(format!("--day-of names column {name}, which the result does not have"))
            })?),
            None => DAY_COLUMNS.iter().find_map(|name| place(name)),
        };
        if day.is_some() && place(DAY).is_some() {
            return Err(CommandError::new("a column is named day, as the directories are: rename it with AS"));
        }
        Ok(ResultColumns { names, day })
    }

    /// The directory of a row; `None` when rows have no day.
    pub(super) fn day_of(&self, row: &[ExportCell]) -> Option<String> {
        let time_ms = row[self.day?].integer();
        Some(time_ms.map_or_else(
            || NO_DAY.to_owned(),
            |time_ms| {
                let (year, month, day) = date_of(time_ms.div_euclid(86_400_000));
                format!("{DAY}={year:04}-{month:02}-{day:02}")
            },
        ))
    }

    /// The types of the columns: those of the options, of the table, or of the rows.
    pub(super) fn types(
        &self,
        options: &ExportOptions,
        of_table: &[ExportColumn],
        rows: &[&[ExportCell]],
    ) -> Vec<ExportColumn> {
        let kind = |(number, name): (usize, &String)| {
            let given = options.types.iter().find(|(column, _)| column == name).map(|(_, kind)| *kind);
            let of_table = || of_table.iter().find(|column| column.name == *name).map(|column| column.kind);
            let kind = given.or_else(of_table).unwrap_or_else(|| inferred(rows.iter().map(|row| &row[number])));
            ExportColumn { name: name.clone(), kind }
        };
        self.names.iter().enumerate().map(kind).collect()
    }
}

/// Exports what is there, and with an interval what comes, until a signal.
///
/// # Errors
/// When the server or the directory fails, or another export has the directory. The files until
/// then stay.
pub(super) fn run(
    client: &HttpClient,
    source: &OrderedSource,
    root: &Path,
    options: &ExportOptions,
    interval: Option<Duration>,
    out: &mut dyn Write,
) -> Result {
    let runtime = threads::start(1)?;
    let stop = StopSignal::on_signals(&runtime)?;
    // An unknown name leaves no directory.
    let mut plans = source.plans(client)?;
    let _lock = lock(root)?;
    let mut exports: Vec<OrderedExport<'_>> = Vec::new();
    loop {
        for plan in plans {
            if exports.iter().all(|export| export.plan.directory != plan.directory) {
                exports.push(OrderedExport::open(client, plan, root, options)?);
            }
        }
        for export in &mut exports {
            while !stop.is_asked() && export.round(client, &stop, out)? > 0 {}
        }
        let Some(interval) = interval else {
            return if stop.is_asked() { Err(CommandError::Interrupted) } else { Ok(()) };
        };
        // An elapsed interval is no error.
        let _ = runtime.block_on(async { tokio::time::timeout(interval, stop.asked()).await });
        if stop.is_asked() {
            return Ok(());
        }
        plans = source.plans(client)?;
    }
}

/// Locks a directory against other exports, and creates it.
fn lock(root: &Path) -> Result<File> {
    let failed = |error| CommandError::at(format_args!("use {}", root.display()), error);
    SystemDisk.create_directory(root).map_err(failed)?;
    SystemDisk.sync_directory(parent(root)).map_err(failed)?;
    let file = File::create(root.join(".quire-export.lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(CommandError::new(format!("another export writes to {}", root.display())))
        }
        Err(std::fs::TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// An export of one plan.
struct OrderedExport<'e> {
    plan: ExportPlan,
    of_table: Vec<ExportColumn>,
    options: &'e ExportOptions,
    directory: ExportDirectory<'e>,
}

impl<'e> OrderedExport<'e> {
    fn open(client: &HttpClient, plan: ExportPlan, root: &Path, options: &'e ExportOptions) -> Result<Self> {
        let directory = ExportDirectory::open(&SystemDisk, root.join(&plan.directory), plan.identity())?;
        Ok(OrderedExport { of_table: plan.columns(client)?, plan, options, directory })
    }

    /// Runs the statement once, and exports its rows. Returns how many.
    fn round(&mut self, client: &HttpClient, stop: &StopSignal, out: &mut dyn Write) -> Result<u64> {
        let OrderedExport { plan, of_table, options, directory } = self;
        let mut names = plan.names.clone();
        names.insert("after".to_owned(), json!(directory.position().unwrap_or(-1)));
        let position = plan.position.as_deref().unwrap_or_default();
        let mut rows = OrderedRows::new(directory, options, of_table, position);
        let end = reading::read(client, &reading::request(&plan.sql, &names, None), |part| {
            match part {
                ResultPart::Columns(names) => rows.begin(names)?,
                ResultPart::Row(row, bytes) => {
                    if let Some(file) = rows.add(row, bytes)? {
                        file.print(&plan.directory, out)?;
                    }
                }
            }
            Ok(!stop.is_asked())
        })?;
        match end {
            // What was not published is read again.
            ResultEnd::Stopped => return Ok(rows.published),
            // The next round continues.
            ResultEnd::TooCostly(message) if rows.is_empty() && rows.published == 0 => {
                return Err(CommandError::new(message));
            }
            ResultEnd::TooCostly(_) | ResultEnd::Whole => {}
        }
        if let Some(file) = rows.publish()? {
            file.print(&plan.directory, out)?;
        }
        Ok(rows.published)
    }
}

/// A file that was published.
#[derive(Debug)]
struct PublishedFile {
    path: std::path::PathBuf,
    rows: usize,
}

impl PublishedFile {
    fn print(&self, below: &str, out: &mut dyn Write) -> Result {
        let path = Path::new(below).join(&self.path);
        writeln!(out, "{}  {}", path.display(), counted(self.rows as u64, "row"))?;
        Ok(out.flush()?)
    }
}

/// Collects the rows of a file. A file ends before the next day, and when it is long enough.
struct OrderedRows<'r, 'd> {
    directory: &'r mut ExportDirectory<'d>,
    options: &'r ExportOptions,
    of_table: &'r [ExportColumn],
    position_name: &'r str,
    columns: Option<(ResultColumns, usize)>,
    rows: Vec<Vec<ExportCell>>,
    bytes: usize,
    day: Option<String>,
    first: i64,
    last: Option<i64>,
    published: u64,
}

impl<'r, 'd> OrderedRows<'r, 'd> {
    fn new(
        directory: &'r mut ExportDirectory<'d>,
        options: &'r ExportOptions,
        of_table: &'r [ExportColumn],
        position_name: &'r str,
    ) -> Self {
        let last = directory.position();
        OrderedRows {
            directory,
            options,
            of_table,
            position_name,
            columns: None,
            rows: Vec::new(),
            bytes: 0,
            day: None,
            first: 0,
            last,
            published: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes the names of the columns.
    fn begin(&mut self, names: Vec<String>) -> Result {
        let columns = ResultColumns::check(names, self.options)?;
        let position = columns.names.iter().position(|name| name == self.position_name).ok_or_else(|| {
            let name = self.position_name;
            CommandError::new(format!("the result has no column {name}: select it, or name another one by --position"))
        })?;
        if let Some(known) = self.directory.columns() {
            let known: Vec<&String> = known.iter().map(|column| &column.name).collect();
            if known != columns.names.iter().collect::<Vec<_>>() {
                let message = "the earlier files have other columns: use another directory. They have";
                return Err(CommandError::new(format!("{message} {known:?}")));
            }
        }
        self.columns = Some((columns, position));
        Ok(())
    }

    /// Adds a row. Publishes the rows before it when their file ends.
    fn add(&mut self, row: Vec<ExportCell>, bytes: usize) -> Result<Option<PublishedFile>> {
        let (columns, place) =
            self.columns.as_ref().ok_or_else(|| CommandError::new("a row came before the columns"))?;
        let name = self.position_name;
        let position = row[*place].integer().filter(|position| *position >= 0).ok_or_else(|| {
            let found = row[*place].kind_name();
            CommandError::new(format!("column {name} must have integers from 0 on, and a row has {found}"))
        })?;
        if let Some(last) = self.last.filter(|last| *last >= position) {
            return Err(CommandError::new(format!(
                "the rows are not ordered: {name} {position} follows {last}; add ORDER BY {name}, with one row for each {name}"
            )));
        }
        let day = columns.day_of(&row);
        let ends = self.rows.len() >= FILE_ROWS_MAX || self.bytes >= FILE_BYTES_MAX || self.day != day;
        let file = if ends { self.publish()? } else { None };
        if self.rows.is_empty() {
            (self.first, self.day) = (position, day);
        }
        self.last = Some(position);
        self.bytes += bytes;
        self.rows.push(row);
        Ok(file)
    }

    /// Publishes the rows, if there are any.
    fn publish(&mut self) -> Result<Option<PublishedFile>> {
        let (Some((columns, _)), Some(last), false) = (&self.columns, self.last, self.rows.is_empty()) else {
            return Ok(None);
        };
        let types = match self.directory.columns() {
            Some(known) => known.to_vec(),
            None => {
                let rows: Vec<&[ExportCell]> = self.rows.iter().map(Vec::as_slice).collect();
                columns.types(self.options, self.of_table, &rows)
            }
        };
        let path = self.directory.publish(self.day.as_deref(), &types, &self.rows, (self.first, last))?;
        let rows = self.rows.len();
        self.published += rows as u64;
        self.bytes = 0;
        self.rows.clear();
        Ok(Some(PublishedFile { path, rows }))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::fs;
    use std::io;
    use std::path::PathBuf;

    use parquet::file::reader::FileReader;
    use parquet::file::serialized_reader::SerializedFileReader;
    use parquet::record::RowAccessor;

    use super::*;

    /// The steps of a process that dies before one of them, in it, or after it.
    #[derive(Debug)]
    struct DyingDisk {
        left: Cell<u32>,
        death: Death,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Death {
        Before,
        Within,
        After,
    }

    impl DyingDisk {
        fn step(&self, step: impl FnOnce() -> io::Result<()>, half: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
            let dead = || Err(io::Error::other("the process died"));
            match self.left.get() {
                0 => return dead(),
                1 => self.left.set(0),
                left => {
                    self.left.set(left - 1);
                    return step();
                }
            }
            match self.death {
                Death::Before => {}
                Death::Within => half()?,
                Death::After => step()?,
            }
            dead()
        }
    }

    impl ExportDisk for DyingDisk {
        fn create_directory(&self, path: &Path) -> io::Result<()> {
            self.step(|| SystemDisk.create_directory(path), || Ok(()))
        }

        fn write(&self, path: &Path, write: &mut dyn FnMut(&File) -> io::Result<()>) -> io::Result<()> {
            let write = std::cell::RefCell::new(write);
            let whole = || SystemDisk.write(path, &mut |file| (write.borrow_mut())(file));
            let half = || {
                whole()?;
                let bytes = fs::read(path)?;
                fs::write(path, &bytes[..bytes.len() / 2])
            };
            self.step(whole, half)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.step(|| SystemDisk.rename(from, to), || Ok(()))
        }

        fn sync_directory(&self, path: &Path) -> io::Result<()> {
            self.step(|| SystemDisk.sync_directory(path), || Ok(()))
        }
    }

    /// The rows of a log: three a day.
    fn log() -> Vec<Vec<ExportCell>> {
        let row = |position: i64| {
            let text = ExportCell::Text(format!("row {position}"));
            vec![ExportCell::Integer(position), ExportCell::Integer(position / 3 * 86_400_000), text]
        };
        (1..=10).map(row).collect()
    }

    /// Runs an export of the log up to its end, or until the process dies.
    fn export(disk: &dyn ExportDisk, root: &Path) -> Result {
        let options = ExportOptions::default();
        let mut directory = ExportDirectory::open(disk, root.to_owned(), "the log".to_owned())?;
        let after = directory.position().unwrap_or(-1);
        let mut rows = OrderedRows::new(&mut directory, &options, &[], "position");
        rows.begin(["position", "time_ms", "text"].map(str::to_owned).to_vec())?;
        for row in log().into_iter().filter(|row| row[0].integer() > Some(after)) {
            rows.add(row, 10)?;
        }
        rows.publish().map(drop)
    }

    /// The positions in the files, by their directories.
    fn exported(root: &Path) -> BTreeMap<String, Vec<i64>> {
        let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for folder in fs::read_dir(root).into_iter().flatten().map(|entry| entry.expect("an entry").path()) {
            let name = folder.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
            let mut files: Vec<PathBuf> =
                fs::read_dir(&folder).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
            files.retain(|file| file.extension().is_some_and(|extension| extension == "parquet"));
            files.sort();
            for file in files {
                let reader = SerializedFileReader::new(File::open(&file).expect("a file")).expect("a whole file");
                let rows = reader.get_row_iter(None).expect("rows");
                let positions = rows.map(|row| row.expect("a row").get_long(0).expect("a position"));
                found.entry(name.clone()).or_default().extend(positions);
            }
        }
        found
    }

    #[test]
    fn a_death_at_any_step_leaves_whole_files_and_the_next_export_continues_exactly_once() {
        let whole: BTreeMap<String, Vec<i64>> = [(1, 1..=2), (2, 3..=5), (3, 6..=8), (4, 9..=10)]
            .map(|(day, positions)| (format!("day=1970-01-{day:02}"), positions.collect()))
            .into();
        for death in [Death::Before, Death::Within, Death::After] {
            for step in 1.. {
                let folder = tempfile::tempdir().expect("a directory");
                let root = folder.path().join("export");
                let disk = DyingDisk { left: Cell::new(step), death };
                let done = export(&disk, &root);
                let found: Vec<i64> = exported(&root).into_values().flatten().collect();
                assert_eq!(found, (1..=found.len() as i64).collect::<Vec<_>>(), "{disk:?}");
                // A second process dies too.
                let _ = export(&DyingDisk { left: Cell::new(5), death }, &root);
                export(&SystemDisk, &root).expect("exported");
                assert_eq!(exported(&root), whole, "{disk:?}");
                if done.is_ok() {
                    assert!(step > 20, "{step} steps");
                    break;
                }
            }
        }
    }

    #[test]
    fn rows_that_do_not_grow_are_refused() {
        let folder = tempfile::tempdir().expect("a directory");
        let options = ExportOptions::default();
        let mut directory =
            ExportDirectory::open(&SystemDisk, folder.path().to_owned(), String::new()).expect("opened");
        let mut rows = OrderedRows::new(&mut directory, &options, &[], "position");
        rows.begin(vec!["position".to_owned()]).expect("begun");
        rows.add(vec![ExportCell::Integer(7)], 1).expect("added");
        for (cell, message) in [
            (ExportCell::Integer(7), "the rows are not ordered: position 7 follows 7"),
            (ExportCell::Integer(-1), "must have integers from 0 on"),
            (ExportCell::Null, "a row has NULL"),
        ] {
            match rows.add(vec![cell], 1) {
                Err(CommandError::Message(found)) => assert!(found.contains(message), "{found}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
