//! `embedded-load STORE CASE DURABILITY FOLDER OPS`: runs a case of `quire-bench log` or `graph` on
//! an embedded store.
//!
//! Prints one line of JSON, with the names of `quire-bench --json`. With `os`, the death of a
//! process loses nothing; with `sync`, neither does a power loss. Each store has the setting that
//! its documentation gives for it.

mod fjall_log;
mod graph;
mod log;
mod measured;
mod redb_log;
mod sqlite;
mod sqlite_log;

use std::path::Path;
use std::process::ExitCode;

use crate::measured::Measured;

/// An error, in words.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// When an operation counts as done.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    /// The system has it.
    Os,
    /// The disk has it.
    Sync,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("embedded-load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<String> {
    let [store, case, kept, folder, ops] = arguments else {
        return Err("embedded-load STORE CASE DURABILITY FOLDER OPS".into());
    };
    let kept = match *kept {
        "os" => Kept::Os,
        "sync" => Kept::Sync,
        other => return Err(format!("{other} is neither os nor sync").into()),
    };
    let (folder, ops) = (Path::new(folder), ops.parse()?);
    std::fs::create_dir_all(folder)?;
    let measured: Measured = match *store {
        "fjall" => log::run(case, ops, &mut fjall_log::FjallLog::create(folder, kept)?)?,
        "redb" => log::run(case, ops, &mut redb_log::RedbLog::create(folder, kept)?)?,
        "sqlite" if graph::has(case) => graph::run(case, ops, sqlite::open(folder, kept)?)?,
        "sqlite" => log::run(case, ops, &mut sqlite_log::SqliteLog::create(sqlite::open(folder, kept)?)?)?,
        other => return Err(format!("there is no store {other}").into()),
    };
    Ok(measured.json(case))
}
