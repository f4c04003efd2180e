//! A client process that is killed at random moments. After each kill, the test sends the commit
//! that the client was sending again. The client does not know whether its last commit happened.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use quire::events::NewEvent;
use quire::{Commit, Database, Durability, Message, NewJob};

use crate::{accepted, builder};

/// The variable with the directory of the database and the durability. Its process is the client.
const CLIENT: &str = "QUIRE_IDEMPOTENCY_CLIENT";

const KILLS: u64 = 60;

/// The commit of a number. Its effects count.
fn commit(number: u64) -> Commit<'static> {
    Commit::new()
        .append("orders", [NewEvent::new("OrderPlaced").data(number.to_string())])
        .produce("placed", Message::new(number.to_string()))
        .enqueue("mails", NewJob::new(number.to_string()))
        .idempotency_key(format!("order-{number}"))
}

/// Commits number after number, and prints each before it is sent.
fn run_client(database: &Database, mut number: u64) {
    loop {
        println!("{number}");
        accepted(database, &commit(number));
        number += 1;
    }
}

/// Runs a client from `number` on, and kills it after a random time. Returns the last number that
/// it sent.
fn kill_client(path: &Path, durability: Durability, number: u64, random: &mut fastrand::Rng) -> u64 {
    let place = format!("{durability} {number} {}", path.display());
    let own = std::env::current_exe().expect("this test");
    let mut client = Command::new(own)
        .args(["--exact", "kills::each_effect_is_there_once_however_often_the_client_is_killed", "--nocapture"])
        .env(CLIENT, place)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let output = BufReader::new(client.stdout.take().expect("piped"));
    let mut numbers = output.lines().map_while(Result::ok).filter_map(|line| line.parse::<u64>().ok());
    let mut last = numbers.next().expect("the client has begun");
    for _ in 0..random.u64(0..40) {
        last = numbers.next().expect("the client continues");
    }
    (0..random.u32(0..1_000_000)).for_each(|_| std::hint::spin_loop());
    client.kill().expect("killed");
    last = numbers.last().unwrap_or(last);
    client.wait().expect("ended");
    last
}

#[test]
fn each_effect_is_there_once_however_often_the_client_is_killed() {
    if let Ok(place) = std::env::var(CLIENT) {
        let mut words = place.splitn(3, ' ');
        let durability = if words.next() == Some("sync") { Durability::Sync } else { Durability::Os };
        let number = words.next().and_then(|number| number.parse().ok()).expect("a number");
        let path = Path::new(words.next().expect("a directory"));
        run_client(&builder(path, durability).open().expect("opened"), number);
    }
    for durability in [Durability::Os, Durability::Sync] {
        let (directory, mut random) = (tempfile::tempdir().expect("a directory"), fastrand::Rng::with_seed(7));
        let (mut number, mut replays) = (0, 0);
        for kill in 0..KILLS {
            number = kill_client(directory.path(), durability, number, &mut random);
            // Every second client sends its predecessor's last commit again by itself.
            if kill % 2 == 0 {
                let database = builder(directory.path(), durability).open().expect("opened");
                replays += u64::from(accepted(&database, &commit(number)).is_replay);
                number += 1;
            }
        }
        assert!(replays > 0, "some commit had happened without an answer");
        let database = builder(directory.path(), durability).open().expect("opened");
        accepted(&database, &commit(number));
        let count = number + 1;
        assert_eq!(database.events("orders").head().expect("read").get(), count);
        assert_eq!(database.topic("placed").offsets(0).expect("read").next.get(), count);
        let stats = database.queue("mails").stats().expect("read").expect("a queue");
        assert_eq!(stats.pending, count);
        let values = database.topic("placed").fetch(0, quire::Sequence::new(0), usize::MAX).expect("read");
        let values = values.records.iter().map(|record| record.value.clone().expect("a value"));
        assert!(values.eq((0..count).map(|number| number.to_string().into_bytes())), "in order, each once");
    }
}
