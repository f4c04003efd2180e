//! Peers from Debian's packages: PostgreSQL and Redis as child processes, with their own
//! directories, and a compiler.
//!
//! A missing package is installed if this runs as root on a system with `apt-get`, and reported
//! otherwise.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::{Durability, output};
use crate::test::{now, succeed};

/// How long a server may take to start listening.
const START_MAX: Duration = Duration::from_secs(20);

/// A running server; dropping it ends it.
#[derive(Debug)]
pub(super) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it has already ended. Its data is deleted, so it need not shut down
        // cleanly.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The directory of PostgreSQL's programs.
///
/// # Errors
/// When they are missing, and can't be installed.
pub(super) fn postgres_programs() -> Result<PathBuf, String> {
    let find = || {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
        let mut programs: Vec<_> = versions.flatten().map(|version| version.path().join("bin")).collect();
        programs.retain(|programs| programs.join("initdb").exists() && programs.join("postgres").exists());
        programs.sort();
        programs.pop()
    };
    installed("postgresql", find)
}

/// The path of Redis.
///
/// # Errors
/// When it is missing, and can't be installed.
pub(super) fn redis_program() -> Result<(), String> {
    installed("redis-server", || output(Command::new("redis-server").arg("--version")).ok()).map(drop)
}

/// The compiler of UmaDB's messages.
///
/// # Errors
/// When it is missing, and can't be installed.
pub(super) fn protoc_program() -> Result<(), String> {
    installed("protobuf-compiler", || output(Command::new("protoc").arg("--version")).ok()).map(drop)
}

fn installed<T>(package: &str, find: impl Fn() -> Option<T>) -> Result<T, String> {
    if let Some(found) = find() {
        return Ok(found);
    }
    if !is_root() {
        return Err(format!("it needs Debian's package {package}, and the rights to install it"));
    }
    let mut install = Command::new("apt-get");
    // The system does not start any service of the package.
    install.env("RUNLEVEL", "1").env("DEBIAN_FRONTEND", "noninteractive");
    succeed(install.args(["install", "-y", "-q", "--no-install-recommends", package]))
        .map_err(|why| format!("Debian's package {package} can't be installed: {why}"))?;
    find().ok_or_else(|| format!("it is not in Debian's package {package}"))
}

/// Starts PostgreSQL on an empty directory, and returns its address for River.
///
/// # Errors
/// When it can't be started.
pub(super) fn postgres(programs: &Path, folder: &Path, durability: Durability) -> Result<(Server, String), String> {
    let data = folder.join("postgres");
    fs::create_dir_all(&data).map_err(|error| format!("could not make {}: {error}", data.display()))?;
    // It does not run as root, so it runs as the package's user.
    let user = if is_root() { Some(numbers_of("postgres")?) } else { None };
    let as_user = |program: &str| {
        let mut command = Command::new(programs.join(program));
        if let Some((user, group)) = user {
            command.uid(user).gid(group);
        }
        command.current_dir("/");
        command
    };
    if let Some((user, group)) = user {
        chown(&data, Some(user), Some(group)).map_err(|error| format!("could not give {}: {error}", data.display()))?;
    }
    let mut make = as_user("initdb");
    make.args(["-U", "quire", "--auth=trust", "--encoding=UTF8", "--no-locale", "-D"]).arg(&data);
    output(&mut make)?;
    let port = free_port()?;
    let commit = if durability == Durability::Sync { "on" } else { "off" };
    let settings = [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        "unix_socket_directories=".to_owned(),
        "shared_buffers=256MB".to_owned(),
        format!("synchronous_commit={commit}"),
    ];
    let mut command = as_user("postgres");
    command.arg("-D").arg(&data);
    settings.iter().for_each(|setting| {
        command.args(["-c", setting]);
    });
    let server = start(&mut command, &folder.join("postgres.log"))?;
    // It listens before it accepts connections.
    let url = format!("postgres://quire@127.0.0.1:{port}/postgres?sslmode=disable");
    let ready = || output(Command::new(programs.join("pg_isready")).args(["-q", "-d", &url])).is_ok();
    wait_until("PostgreSQL", ready)?;
    Ok((server, url))
}

/// Starts Redis on an empty directory, and returns its address.
///
/// # Errors
/// When it can't be started.
pub(super) fn redis(folder: &Path, durability: Durability) -> Result<(Server, String), String> {
    let port = free_port()?;
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(folder);
    let syncs = if durability == Durability::Sync { "always" } else { "everysec" };
    command.args(["--save", "", "--appendonly", "yes", "--appendfsync", syncs]);
    let server = start(&mut command, &folder.join("redis.log"))?;
    let address = format!("127.0.0.1:{port}");
    wait_until("Redis", || TcpStream::connect(&address).is_ok())?;
    Ok((server, address))
}

fn start(command: &mut Command, log: &Path) -> Result<Server, String> {
    let failed =
        |error: std::io::Error| format!("could not start {}: {error}", command.get_program().to_string_lossy());
    let log = File::create(log).map_err(failed)?;
    let also = log.try_clone().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(log).stderr(also);
    let failed = |error: std::io::Error| format!("could not start it: {error}");
    Ok(Server(command.spawn().map_err(failed)?))
}

#[expect(clippy::disallowed_methods, reason = "another process says that it is ready only to who asks again")]
fn wait_until(name: &str, is_ready: impl Fn() -> bool) -> Result<(), String> {
    let begun = now();
    while !is_ready() {
        if begun.elapsed() > START_MAX {
            return Err(format!("{name} does not listen"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Finds a free port. Another process may take it before the server does; the server then reports
/// it.
fn free_port() -> Result<u16, String> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(|error| format!("could not find a free port: {error}"))
}

fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

fn numbers_of(user: &str) -> Result<(u32, u32), String> {
    let number = |which: &str| {
        let said = output(Command::new("id").args([which, user]))?;
        said.trim().parse().map_err(|error| format!("id {which} {user} said {said}: {error}"))
    };
    Ok((number("-u")?, number("-g")?))
}
