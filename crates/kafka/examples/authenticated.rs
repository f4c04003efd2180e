//! Serves a new database with access control to Kafka clients:
//! `cargo run --example authenticated -- DIR [ADDRESS]`.
//!
//! The user `ann` has a password and an API key, which are printed. `tests/kafka/sasl.py` runs its
//! clients on it. Do not keep data in it.

use std::error::Error;

use quire::{Database, Durability, NewApiKey, NewPassword};
use quire_kafka::Server;

const PASSWORD: &str = "correct horse";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: authenticated DIR [ADDRESS]")?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());

    let database = Database::builder(directory).durability(Durability::Os).open()?;
    let access = database.access();
    access.init("root")?;
    access.create_user("ann", &["admin"])?;
    access.set_password("ann", PASSWORD, NewPassword::default())?;
    let key = access.create_key("ann", NewApiKey::default())?;

    let server = Server::bind(database.clone(), address.parse()?).await?;
    println!("password {PASSWORD}");
    println!("key {} {}", key.id(), key.reveal());
    println!("Kafka clients connect to {}", server.address());
    server.run(async { tokio::signal::ctrl_c().await.expect("a signal handler") }).await?;
    Ok(())
}
