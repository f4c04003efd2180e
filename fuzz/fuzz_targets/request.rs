//! The bytes that a client sends on its own connection to a running server. A task that panics ends
//! the run.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use quire::{Database, Durability};
use quire_kafka::{Server, Settings};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The server, its runtime, and its database's directory, for the life of this process.
static SERVER: LazyLock<(SocketAddr, Runtime, TempDir)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Database::builder(folder.path().join("data")).durability(Durability::Os).segment_bytes(4 << 20);
    let database = builder.open().expect("a database");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let any = "127.0.0.1:0".parse().expect("an address");
    let settings = Settings { auto_create_partitions: 1, ..Settings::default() };
    let server = runtime.block_on(Server::bind_with(database, any, settings)).expect("a port");
    let address = server.address();
    runtime.spawn(server.run(std::future::pending()));
    (address, runtime, folder)
});

fuzz_target!(|bytes: &[u8]| {
    let mut stream = TcpStream::connect(SERVER.0).expect("the server accepts");
    // The server may have closed already.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers);
});
