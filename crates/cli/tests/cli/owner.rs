//! Commands on the directory of a database with access control: they serve it to their user alone.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use quire::{Database, Durability, Message, NewJob};

use crate::support::{quire, ran, run_on};

/// Creates a database with a topic and a queue, and enables access control.
fn create(data: &Path) {
    let database = Database::builder(data).durability(Durability::Os).open().expect("a new database");
    database.topic("t").produce(Message::new("first")).expect("produced");
    database.queue("mails").enqueue(NewJob::new("hello")).expect("enqueued");
    database.access().init("root").expect("enabled");
}

fn command(data: &Path, arguments: &[&str]) -> Command {
    let mut command = quire();
    command.args(arguments).arg("--data").arg(data);
    command
}

#[test]
fn the_owner_of_a_directory_needs_no_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, temporary) = (folder.path().join("data"), folder.path().join("temporary"));
    fs::create_dir(&temporary).expect("a directory");
    create(&data);
    run_on(&data, &["topics", "create", "new", "--partitions", "1"]).succeeded();
    for key in ["", "qk_wrong"] {
        for (arguments, expected) in [(&["topics", "list"][..], "new"), (&["jobs", "list", "mails"], "hello")] {
            let mut command = command(&data, arguments);
            let output = command.env("QUIRE_KEY", key).env("TMPDIR", &temporary).output().expect("it runs");
            let listed = ran(output).succeeded();
            assert!(listed.contains(expected), "{arguments:?}: {listed}");
            assert_eq!(fs::read_dir(&temporary).expect("a directory").count(), 0, "nothing stays behind");
        }
    }
}

/// The inodes of the sockets that listen on TCP on this machine.
fn listening() -> BTreeSet<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1)).map(|row| row.split_whitespace());
    let inode = |mut row: std::str::SplitWhitespace<'_>| {
        // The state LISTEN.
        (row.nth(3)? == "0A").then(|| row.nth(5).map(str::to_owned))?
    };
    rows.filter_map(inode).collect()
}

/// The inodes of the sockets of a process.
fn sockets(process: u32) -> BTreeSet<String> {
    let handles = fs::read_dir(format!("/proc/{process}/fd")).expect("the process runs");
    let targets = handles.filter_map(|handle| fs::read_link(handle.ok()?.path()).ok());
    let inode =
        |target: std::path::PathBuf| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    targets.filter_map(inode).collect()
}

#[test]
fn a_command_on_a_directory_listens_for_its_user_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, temporary) = (folder.path().join("data"), folder.path().join("temporary"));
    fs::create_dir(&temporary).expect("a directory");
    create(&data);
    let mut command = command(&data, &["consume", "t", "--values", "--follow"]);
    let mut running = command.env("TMPDIR", &temporary).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut line = String::new();
    BufReader::new(running.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    assert_eq!(line, "first\n");
    let sockets = sockets(running.id());
    assert!(!sockets.is_empty() && sockets.is_disjoint(&listening()), "{sockets:?}");
    let entry = fs::read_dir(&temporary).expect("a directory").next().expect("a directory for the socket");
    let directory = entry.expect("an entry").path();
    let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&directory.join("http.sock"))), (0o700, 0o600));
    running.kill().expect("it runs");
    running.wait().expect("it ended");
}
