//! Serves the database in a directory to Kafka clients, and compacts it all the time:
//! `cargo run --example compacting -- DIR [ADDRESS]`.
//!
//! Segments, checkpoints and intervals are as small as possible, and few keys are known at a time.
//! So compacted topics lose records while clients read them. The compaction of an interval samples
//! keys; twice a second a whole compaction follows. `tests/kafka/compacted.py` runs its clients on
//! it. Do not keep data in it.

use std::error::Error;
use std::time::Duration;

use quire::{Database, Durability};
use quire_kafka::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: compacting DIR [ADDRESS]")?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());

    let database = Database::builder(directory)
        .durability(Durability::Os)
        .segment_bytes(64 << 10)
        .checkpoint_bytes(16 << 10)
        .compact_interval(Duration::from_millis(50))
        .compact_percent_min(1)
        .compact_keys_max(50)
        .open()?;

    let server = Server::bind(database.clone(), address.parse()?).await?;
    println!("Kafka clients connect to {}", server.address());
    tokio::select! {
        ended = server.run(async { tokio::signal::ctrl_c().await.expect("a signal handler") }) => Ok(ended?),
        failed = compact_whole(database) => Err(failed),
    }
}

/// Compacts in a loop, and prints each error.
async fn compact_whole(database: Database) -> Box<dyn Error> {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let database = database.clone();
        match tokio::task::spawn_blocking(move || database.compact()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return error.into(),
            Err(error) => return error.into(),
        }
    }
}
