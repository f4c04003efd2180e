//! Queues as topics: what happens to their jobs.

use std::sync::Arc;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, FetchResponse, GroupId, OffsetCommitRequest, TopicName,
};
use quire::jobs::{Command, JobSpec};
use quire::{Database, Durability, ManualClock, Source, Timestamp};
use quire_kafka::Settings;

use crate::offsets::list;
use crate::support::{World, batch, batches, fetching, text, values};

/// Enqueues `count` jobs, fetches them and acks them, all of them together.
fn live(world: &World, jobs: usize) {
    let queue = world.database.queue("air/delays");
    let new = JobSpec { kind: "notify", ..JobSpec::new(b"{}") };
    queue.each(&vec![Command::Enqueue { queue: "air/delays", job: new }; jobs]).expect("enqueued");
    let leased = queue.fetch("w1", u32::try_from(jobs).expect("few")).expect("fetched");
    let ack = |job: &quire::jobs::FetchedJob| Command::Ack { job: job.job, token: job.token, result: b"sent" };
    queue.each(&leased.iter().map(ack).collect::<Vec<_>>()).expect("acked");
}

#[tokio::test]
async fn each_life_cycle_event_of_a_job_is_a_record_with_its_id_as_the_key() {
    let world = World::new().await;
    live(&world, 1);
    let mut client = world.client().await;
    let fetched = client.fetch("jobs.air.delays", 0).await;
    assert_eq!((fetched.error_code, fetched.high_watermark, fetched.log_start_offset), (0, 4, 0));
    let [(0, batch)] = &batches(fetched.records.as_deref().expect("records"))[..] else { panic!("one batch from 0") };
    let records: Vec<_> = batch.records().expect("not compressed").map(|record| record.expect("a record")).collect();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let headers = |at: usize| -> Vec<String> {
        records[at].headers.iter().map(|it| text(it.key) + "=" + &text(it.value.expect("a value"))).collect()
    };
    assert_eq!((records[0].key, headers(0)), (None, vec!["event=queue_created".to_owned()]));
    assert_eq!((records[1].key, records[1].value), (Some(&b"1-1"[..]), Some(&b"{}"[..])));
    assert_eq!(headers(1), ["event=enqueued", "kind=notify", "state=pending"]);
    assert_eq!(headers(2)[..4], ["event=leased", "kind=notify", "state=active", "attempt=1"]);
    assert_eq!(headers(2)[5], "worker=w1");
    assert_eq!((records[3].value, &headers(3)[0]), (Some(&b"sent"[..]), &"event=completed".to_owned()));
}

#[tokio::test]
async fn a_consumer_gets_every_event_once_whatever_it_takes_at_a_time_and_wherever_an_entry_ends() {
    let world = World::new().await;
    live(&world, 7);
    let mut client = world.client().await;
    assert_eq!(list(&mut client, "jobs.air.delays", -2).await, (0, 0, -1));
    assert_eq!(list(&mut client, "jobs.air.delays", -1).await, (0, 22, -1));
    let all: Vec<_> = values(&client.fetch("jobs.air.delays", 0).await);
    assert_eq!(all.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), (0..22).collect::<Vec<_>>());
    for from in 0..22 {
        let mut next = from;
        let mut found = Vec::new();
        while next < 22 {
            let response = client.call(12, &fetching("jobs.air.delays", next).with_max_bytes(700)).await;
            let some = values(&response.responses[0].partitions[0]);
            next = some.last().expect("one at least").0 + 1;
            found.extend(some);
        }
        assert_eq!(found, all[usize::try_from(from).expect("small")..], "from {from}");
    }
    let code = client.fetch("jobs.air.delays", 23).await.error_code;
    assert_eq!(code, ResponseError::OffsetOutOfRange.code());
}

#[tokio::test]
async fn events_are_found_by_their_time_and_a_fetch_that_waits_is_answered_by_the_next_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let builder = Database::builder(directory.path()).durability(Durability::Os).clock(clock.clone());
    let world = World::over(directory, builder.open().expect("a database"), Settings::default()).await;
    let queue = world.database.queue("q");
    for millis in [1_000, 2_000, 3_000] {
        clock.set(Timestamp::from_millis(millis));
        queue.enqueue(JobSpec::new(b"old")).expect("enqueued");
    }
    let mut client = world.client().await;
    for (time, found) in [(0, (0, 0, 1_000)), (1_001, (0, 2, 2_000)), (3_000, (0, 3, 3_000)), (3_001, (0, -1, -1))] {
        assert_eq!(list(&mut client, "jobs.q", time).await, found, "from {time} ms on");
    }
    assert_eq!(list(&mut client, "jobs.q", -3).await, (0, 3, 3_000));
    client.send(3, &ApiVersionsRequest::default()).await;
    client.send(12, &fetching("jobs.q", 4).with_max_wait_ms(600_000).with_min_bytes(1)).await;
    client.receive::<ApiVersionsResponse>(3).await;
    queue.enqueue(JobSpec::new(b"new")).expect("enqueued");
    let (_, response) = client.receive::<FetchResponse>(12).await;
    assert_eq!(values(&response.responses[0].partitions[0]), [(4, "new".to_owned())]);
}

#[tokio::test]
async fn it_can_not_be_produced_to() {
    let world = World::new().await;
    live(&world, 1);
    let mut client = world.client().await;
    let code = client.produce("jobs.air.delays", &batch(&["x"])).await.error_code;
    assert_eq!(code, ResponseError::PolicyViolation.code());
}

#[tokio::test]
async fn the_offset_of_a_group_in_a_queue_is_returned_with_its_name() {
    let world = World::new().await;
    live(&world, 1);
    let mut client = world.client().await;
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(3);
    let name = TopicName(text("jobs.air.delays"));
    let topic = OffsetCommitRequestTopic::default().with_name(name).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    assert_eq!(client.call(8, &request).await.topics[0].partitions[0].error_code, 0);
    drop(client);
    let world = world.restart().await;
    let group = world.database.group("g").describe().expect("readable").expect("it committed");
    let at = &group.offsets[0];
    assert_eq!((&at.source, at.offset.get(), at.lag()), (&Source::Queue("air/delays".into()), 3, 1));
}
