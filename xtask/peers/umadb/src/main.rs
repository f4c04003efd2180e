//! `umadb-load CASE FOLDER OPS`: runs a case of `quire-bench events` on UmaDB.
//!
//! Prints one line of JSON, with the names of `quire-bench --json`. Events have 100 bytes of data.
//! UmaDB has default settings: it always syncs before it answers.

mod embedded;
mod latencies;
mod served;

use std::path::Path;
use std::process::ExitCode;

use umadb_dcb::DcbEvent;

use crate::latencies::Measured;

/// The bytes of an event's data.
const PAYLOAD_BYTES: usize = 100;

/// How many events precede a condition on a type that no event has. It is a tenth of the number in
/// Quire's case, which would take minutes to append here. UmaDB scans all of them each time.
const FILLED: u64 = 500_000;

/// An error, in words.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

fn event(event_type: &str, tags: &[String]) -> DcbEvent {
    DcbEvent {
        event_type: event_type.to_owned(),
        tags: tags.to_vec(),
        data: vec![b'q'; PAYLOAD_BYTES],
        ..DcbEvent::default()
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [case, folder, ops] => match ops.parse() {
            Ok(ops) => run(case, Path::new(folder), ops),
            Err(_) => Err(format!("{ops} is no number of operations").into()),
        },
        _ => Err("umadb-load CASE FOLDER OPS".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("umadb-load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(case: &str, folder: &Path, ops: u64) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join("uma.db");
    let measured: Measured = match case {
        "append-single" => embedded::append(&path, ops)?,
        "append-if-type-absent" => embedded::append_if_type_absent(&path, ops, FILLED)?,
        "disk" => embedded::disk(&path, ops)?,
        "grpc-append-clients-1" => served::append(&path, 1, ops, 1, false)?,
        "grpc-append-clients-16" => served::append(&path, 16, ops, 1, false)?,
        "grpc-append-clients-64" => served::append(&path, 64, ops, 1, false)?,
        "grpc-append-100-clients-16" => served::append(&path, 16, ops, 100, false)?,
        "grpc-append-if-clients-1" => served::append(&path, 1, ops, 1, true)?,
        "grpc-append-if-clients-16" => served::append(&path, 16, ops, 1, true)?,
        "grpc-append-if-clients-64" => served::append(&path, 64, ops, 1, true)?,
        "grpc-read-tag-10-clients-1" => served::read_tag(&path, 1, ops, 10)?,
        "grpc-read-tag-10-clients-16" => served::read_tag(&path, 16, ops, 10)?,
        "grpc-read-all" => served::read_all(&path, ops, 100_000)?,
        other => return Err(format!("there is no case {other}").into()),
    };
    println!("{}", measured.json(case));
    Ok(())
}
