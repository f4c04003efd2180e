//! Fetches from packed segments return the same records as from others, even with the smallest
//! cache.

use bytes::Bytes;
use quire::events::NewEvent;
use quire::jobs::JobSpec;
use quire::{Background, Database, Durability, Duty, Message};
use quire_kafka::Settings;

use crate::support::World;

/// Messages, events and jobs in some packed segments.
fn fill(path: &std::path::Path) {
    let builder = Database::builder(path).durability(Durability::Os).segment_bytes(64 << 10).pack_segments(true);
    let database = builder.background(Background::Caller).open().expect("a database");
    for number in 0..1500 {
        let text = format!("{{\"number\":{number},\"from\":\"EWR\",\"to\":\"IAH\",\"carrier\":\"UA\",\"delay\":-3}}");
        database.events("flights").append([NewEvent::new("Departed").data(&text)]).expect("accepted");
        database.topic("flights-0").produce(Message::new(&text)).expect("accepted");
        database.queue("flights").enqueue(JobSpec::new(text.as_bytes())).expect("accepted");
    }
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
    for _ in 0..2 {
        database.topic("other").produce(Message::new("and one more")).expect("accepted");
        database.checkpoint().expect("saved");
    }
    let compacted = database.compact().expect("compacted");
    assert!(compacted.segments > 5, "{compacted:?}");
}

#[tokio::test]
async fn packed_batches_are_fetched_whole_however_little_may_stay_unpacked() {
    let mut seen = Vec::new();
    let mut directory = tempfile::tempdir().expect("a directory");
    fill(directory.path());
    for unpacked_bytes_max in [u64::MAX, 0] {
        let builder = Database::builder(directory.path()).unpacked_bytes_max(unpacked_bytes_max);
        let world = World::over(directory, builder.open().expect("a database"), Settings::default()).await;
        let mut client = world.client().await;
        let mut fetched: Vec<Bytes> = Vec::new();
        for topic in ["flights-0", "flights", "jobs.flights"] {
            for offset in [1, 2, 300, 599] {
                let partition = client.fetch(topic, offset).await;
                assert_eq!(partition.error_code, 0, "{topic} from {offset}");
                fetched.push(partition.records.expect("records"));
            }
        }
        seen.push(fetched);
        (directory, _) = world.stop().await;
    }
    assert!(seen[0].iter().step_by(4).all(|records| records.len() > 40_000), "all that there is is fetched at once");
    assert_eq!(seen[0], seen[1]);
}
