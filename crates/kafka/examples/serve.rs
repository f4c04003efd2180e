//! Serves the database in a directory to Kafka clients:
//! `cargo run --example serve -- DIR [ADDRESS]`.
//!
//! It appends a few events to an empty store `air/flights`, so that clients have a topic to read.

use std::error::Error;

use quire::Database;
use quire::events::{EventPosition, NewEvent};
use quire_kafka::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: serve DIR [ADDRESS]")?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());

    let database = Database::open(directory)?;
    let flights = database.events("air/flights");
    if flights.head()? == EventPosition::ZERO {
        let departed = NewEvent::new("Departed").tag("flight:UA1545").tag("plane:N14228").data(br#"{"dest":"IAH"}"#);
        flights.append([departed])?;
        flights.append([NewEvent::new("Arrived").tag("plane:N14228").data(b"{}").metadata(b"from the tower")])?;
    }

    let server = Server::bind(database, address.parse()?).await?;
    println!("Kafka clients connect to {}", server.address());
    server.run(async { tokio::signal::ctrl_c().await.expect("a signal handler") }).await?;
    Ok(())
}
