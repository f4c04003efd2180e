//! Consumers of a topic, also over restarts of the server and lost answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quire_client::reply::{EventReply, TopicGroupReply};
use quire_client::request::{AppendPart, CommitOffset, CommitRequest, CreateTopic, NewEventRequest, Produce};
use quire_client::{Call, Client, ConsumerCommit, FailureKind, RemoteConsumer, RemoteDelivery};
use serde_json::{Value, json};

use crate::support::{FakeRequest, TestServer, answer, faked, served};

/// A wait for records that exist.
const WAIT: Duration = Duration::from_secs(20);

fn create(client: &Client, topic: &str, partitions: u32) {
    client.commit(&CommitRequest::of(CreateTopic::new(topic.to_owned(), partitions))).expect("created");
}

fn produce(client: &Client, topic: &str, partition: u32, values: &[&str]) {
    let messages = values.iter().map(|value| Produce::new(topic.to_owned(), value).partition(partition).into());
    client.commit(&CommitRequest { parts: messages.collect() }).expect("produced");
}

fn values(delivery: &RemoteDelivery) -> Vec<&str> {
    delivery.records.iter().map(|record| record.value.text().expect("text")).collect()
}

fn wait(consumer: &mut RemoteConsumer) -> RemoteDelivery {
    consumer.wait(WAIT).expect("an answer").expect("records")
}

fn offsets(client: &Client, topic: &str, group: &str) -> Vec<(u32, u64)> {
    let group: TopicGroupReply = client.get(&["topics", topic, "groups", group], &[]).expect("a group");
    group.offsets.iter().map(|found| (found.partition, found.offset)).collect()
}

fn handled(delivery: &RemoteDelivery) -> CommitRequest<'static> {
    let events = values(delivery).into_iter().map(|value| NewEventRequest::new("Handled", value));
    CommitRequest::of(events.fold(AppendPart::new("handled"), AppendPart::event))
}

#[test]
fn partitions_take_turns_and_a_group_continues_after_its_offsets() {
    served(|client| {
        create(client, "orders", 2);
        produce(client, "orders", 0, &["a", "b", "c"]);
        produce(client, "orders", 1, &["x"]);
        let mut consumer = client.consumer("orders", "billing").records_max(2);
        let first = wait(&mut consumer);
        assert_eq!((first.partition, values(&first)), (0, vec!["a", "b"]));
        consumer.ack(&first).expect("acknowledged");
        let second = wait(&mut consumer);
        assert_eq!((second.partition, values(&second)), (1, vec!["x"]));
        let done = consumer.ack_in(handled(&second), &second).expect("acknowledged");
        assert_eq!(done.replies.len(), 2);
        let third = wait(&mut consumer);
        assert_eq!((third.partition, values(&third)), (0, vec!["c"]));
        assert!(consumer.poll().expect("an answer").is_none());
        assert_eq!(offsets(client, "orders", "billing"), [(0, 2), (1, 1)]);
        // The third delivery was not acknowledged.
        let mut consumer = client.consumer("orders", "billing");
        assert_eq!(values(&wait(&mut consumer)), ["c"]);
        let mut consumer = client.consumer("orders", "mailer").from_end();
        consumer.start().expect("an answer");
        produce(client, "orders", 1, &["y"]);
        assert_eq!(values(&wait(&mut consumer)), ["y"]);
        let error = client.consumer("absent", "billing").poll().expect_err("no topic");
        assert_eq!(error.status(), 404, "{error}");
    });
}

#[test]
fn a_waiting_consumer_gets_new_records_also_of_new_partitions() {
    served(|client| {
        create(client, "orders", 1);
        let mut consumer = client.consumer("orders", "billing");
        assert!(consumer.poll().expect("an answer").is_none());
        let watch = consumer.watch().expect("started");
        let (consumer, delivery) = std::thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                let delivery = wait(&mut consumer);
                (consumer, delivery)
            });
            produce(client, "orders", 0, &["a"]);
            waiting.join().expect("no panic")
        });
        assert_eq!(values(&delivery), ["a"]);
        let add = json!({"parts": [{"alter_topic": {"topic": "orders", "partitions": 2}}]});
        client.send(&Call::post(&["commit"]).json(&add).expect("JSON")).expect("added");
        produce(client, "orders", 1, &["b"]);
        let (mut consumer, described) = (consumer, watch.wait(WAIT).expect("described"));
        assert_eq!(described.partitions.len(), 2);
        consumer.see(described);
        let delivery = consumer.next_seen().expect("an answer").expect("a record");
        assert_eq!((delivery.partition, values(&delivery)), (1, vec!["b"]));
    });
}

#[test]
fn deleted_records_are_counted_and_the_rest_is_delivered() {
    served(|client| {
        create(client, "orders", 1);
        produce(client, "orders", 0, &["a", "b", "c", "d"]);
        let mut consumer = client.consumer("orders", "billing").records_max(1);
        let first = wait(&mut consumer);
        consumer.ack(&first).expect("acknowledged");
        let delete = json!({"parts": [{"delete_records": {"topic": "orders", "partition": 0, "before": 3}}]});
        client.send(&Call::post(&["commit"]).json(&delete).expect("JSON")).expect("deleted");
        // The consumer learns of the new start from the refusal of its read.
        let second = wait(&mut consumer);
        assert_eq!((values(&second), second.lost), (vec!["d"], 2));
        let mut consumer = client.consumer("orders", "billing");
        let again = wait(&mut consumer);
        assert_eq!((values(&again), again.lost), (vec!["d"], 2));
    });
}

#[test]
fn a_topic_that_is_created_again_is_read_from_its_start() {
    served(|client| {
        create(client, "orders", 1);
        produce(client, "orders", 0, &["a", "b", "c"]);
        let mut consumer = client.consumer("orders", "billing");
        let first = wait(&mut consumer);
        consumer.ack(&first).expect("acknowledged");
        let delete = json!({"parts": [{"delete_topic": {"topic": "orders"}}]});
        client.send(&Call::post(&["commit"]).json(&delete).expect("JSON")).expect("deleted");
        create(client, "orders", 1);
        produce(client, "orders", 0, &["d"]);
        // The wait for a fourth record ends without one.
        let again = consumer.poll().expect("an answer").expect("the record of the new topic");
        assert_eq!((values(&again), again.lost), (vec!["d"], 0));
    });
}

#[test]
fn a_failing_handler_is_tried_again_and_its_records_become_dead_letters() {
    served(|client| {
        create(client, "orders", 1);
        create(client, "orders-failed", 1);
        let message = Produce::new("orders", [0xff, 0]).key("k").header("trace", "7").header_without_value("empty");
        client.commit(&CommitRequest::of(message)).expect("produced");
        produce(client, "orders", 0, &["good"]);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let errors = Arc::clone(&seen);
        let mut consumer = client.consumer("orders", "billing").records_max(1).retries(1).dead_letter("orders-failed");
        consumer = consumer.on_error(move |delivery, error| {
            let offset = delivery.map(|delivery| delivery.records[0].offset);
            errors.lock().expect("no panic").push((offset, error.kind(), error.to_string()));
        });
        let stop = consumer.stopper();
        let done = consumer.run(|delivery| {
            let text = delivery.records[0].value.text()?;
            stop.stop();
            Ok(CommitRequest::of(AppendPart::new("handled").event(NewEventRequest::new("Handled", text))))
        });
        done.expect("it ran");
        assert_eq!(offsets(client, "orders", "billing"), [(0, 2)]);
        let failures = seen.lock().expect("no panic");
        assert_eq!(failures.len(), 2, "a try and a retry: {failures:?}");
        assert!(failures.iter().all(|(offset, kind, _)| (*offset, *kind) == (Some(0), FailureKind::Handler)));
        let letter = wait(&mut client.consumer("orders-failed", "g"));
        let letter = &letter.records[0];
        assert_eq!((letter.value.bytes(), letter.key.bytes()), (&[0xff, 0][..], &b"k"[..]));
        let headers: Vec<(&str, Option<&str>)> = letter
            .headers
            .iter()
            .map(|header| {
                let value = (!header.value.is_null()).then(|| header.value.text().expect("text"));
                (header.key.text().expect("text"), value)
            })
            .collect();
        let error = failures[0].2.as_str();
        let (topic, partition, offset) = (("topic", Some("orders")), ("partition", Some("0")), ("offset", Some("0")));
        let own = [("trace", Some("7")), ("empty", None), ("error", Some(error)), topic, partition, offset];
        assert_eq!(headers, own);
    });
}

#[test]
fn a_refused_commit_is_decided_again_and_without_dead_letters_the_consumer_ends() {
    served(|client| {
        create(client, "orders", 1);
        produce(client, "orders", 0, &["a"]);
        let mut consumer = client.consumer("orders", "billing").retries(1);
        let (stop, mut tries) = (consumer.stopper(), 0);
        let done = consumer.run(|delivery| {
            tries += 1;
            if tries == 1 {
                // No such topic: the commit is refused for its first part.
                return Ok(CommitRequest::of(CommitOffset::new("g", "absent", 0, 1)));
            }
            stop.stop();
            Ok(handled(delivery))
        });
        done.expect("it ran");
        assert_eq!((tries, offsets(client, "orders", "billing")), (2, vec![(0, 1)]));
        produce(client, "orders", 0, &["b"]);
        let mut consumer = client.consumer("orders", "billing").retries(0);
        let error = consumer.run(|_| Err::<(), _>("no stamp".into())).expect_err("the handler failed");
        assert_eq!(error.kind(), FailureKind::Handler);
        let message = "the handler failed with offsets 1 to 1 of partition 0 of \"orders\": no stamp";
        assert_eq!(error.to_string(), message);
        // The delivery was given back.
        assert_eq!(values(&wait(&mut consumer)), ["b"]);
    });
}

#[test]
fn a_consumer_handles_each_record_once_while_the_server_restarts() {
    const ROUNDS: u32 = 6;
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = TestServer::at_any_port(directory.path());
    let client = server.client();
    create(&client, "orders", 2);
    let mut consumer = client.consumer("orders", "billing").records_max(3);
    let (stop, mut left) = (consumer.stopper(), ROUNDS * 10);
    let (handling, server) = std::thread::scope(|scope| {
        let handling = scope.spawn(move || {
            consumer.run(|delivery| {
                left -= u32::try_from(delivery.records.len()).expect("few");
                if left == 0 {
                    stop.stop();
                }
                Ok(handled(delivery))
            })
        });
        for round in 0..ROUNDS {
            let numbers: Vec<String> = (round * 10..(round + 1) * 10).map(|number| number.to_string()).collect();
            produce(&client, "orders", round % 2, &numbers.iter().map(String::as_str).collect::<Vec<_>>());
            server = server.restart(directory.path());
        }
        (handling.join().expect("no panic"), server)
    });
    handling.expect("it ran");
    let events = client.list::<EventReply<'static>>(&["events", "handled"], &[]);
    let mut numbers: Vec<u32> =
        events.map(|event| event.expect("an event").data.text().expect("text").parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..ROUNDS * 10).collect::<Vec<_>>());
    assert_eq!(offsets(&client, "orders", "billing"), [(0, 30), (1, 30)]);
    server.stop();
}

/// A server with a topic of one partition and one record, whose commits get these answers.
fn server_of_one_record(
    records: Value,
    mut commit: impl FnMut(&FakeRequest) -> Option<String> + Send + 'static,
) -> Client {
    let settings = json!({
        "retention_ms": null, "retention_bytes": null, "batch_bytes_max": 1, "compression": "none",
        "cleanup": "delete", "delete_retention_ms": 0, "timestamp_after_max_ms": 0, "timestamp_before_max_ms": 0,
    });
    let address = faked(move |request| {
        if request.target.starts_with("POST /v1/commit") {
            return commit(request);
        }
        Some(answer(&match request.target.split('?').next().expect("a path") {
            "GET /v1/topics/orders" => json!({
                "topic": "orders", "settings": settings, "protected_for": [], "written": 1,
                "partitions": [{"partition": 0, "start": 0, "next": 1, "bytes": 1}],
            }),
            "GET /v1/topics/orders/groups/billing" => json!({"topic": "orders", "group": "billing", "offsets": []}),
            "GET /v1/topics/orders/partitions/0/records" => records.clone(),
            other => panic!("{other}"),
        }))
    });
    Client::builder(address).without_retries().build().expect("a client")
}

fn one_record() -> Value {
    let record = json!({"offset": 0, "timestamp_ms": 1, "key": null, "value": "YQ==", "headers": []});
    json!({"data": [record], "next_cursor": null, "has_more": false, "next_offset": 1})
}

#[test]
fn a_commit_without_an_answer_is_repeated_with_its_key_and_the_handler_is_not() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&keys);
    let client = server_of_one_record(one_record(), move |request| {
        let mut seen = seen.lock().expect("no panic");
        seen.push((request.headers["idempotency-key"].clone(), request.body.clone()));
        // The first two answers are lost.
        let done = json!({"position": 1, "time_ms": 1, "replies": []});
        Some(if seen.len() < 3 { String::new() } else { answer(&done) })
    });
    for key in [None, Some("order-0")] {
        keys.lock().expect("no panic").clear();
        let mut consumer = client.consumer("orders", "billing");
        let mut handled = 0;
        let done = consumer.process(
            Duration::from_millis(10),
            || keys.lock().expect("no panic").len() == 3,
            |_| {
                handled += 1;
                let commit = CommitRequest::of(AppendPart::new("s").event(NewEventRequest::new("E", "")));
                Ok(ConsumerCommit { commit, key: key.map(str::to_owned) })
            },
        );
        done.expect("it ran");
        let keys = keys.lock().expect("no panic");
        assert_eq!((handled, keys.len()), (1, 3));
        assert!(keys.iter().all(|sent| *sent == keys[0]), "{keys:?}");
        assert!(key.is_none_or(|key| keys[0].0 == key));
    }
}

#[test]
fn a_missing_permission_for_the_offset_ends_the_consumer() {
    let client = server_of_one_record(one_record(), |_| {
        let problem = json!({
            "type": "about:blank", "title": "t", "status": 403, "code": "not_permitted", "detail": "no", "part": 0,
        });
        let body = problem.to_string();
        Some(format!("HTTP/1.1 403 No\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
    });
    let mut consumer = client.consumer("orders", "billing").dead_letter("orders-failed");
    let mut handled = 0;
    let error = consumer.run(|_| {
        handled += 1;
        Ok(())
    });
    assert_eq!((error.expect_err("no permission").status(), handled), (403, 1));
}

#[test]
fn a_record_that_is_too_long_for_an_answer_is_an_error_after_those_before_it() {
    let long = json!([{"offset": 1, "reason": "too_large", "bytes": 17_000_000}]);
    let mut page = one_record();
    (page["skipped"], page["next_offset"]) = (long, json!(2));
    let mut consumer = server_of_one_record(page, |_| None).consumer("orders", "billing");
    let delivery = wait(&mut consumer);
    let offset = serde_json::to_value(delivery.offset_part()).expect("JSON");
    assert_eq!((values(&delivery), &offset["offset"]), (vec!["a"], &json!(1)));
    let mut page = one_record();
    (page["data"], page["next_offset"]) = (json!([]), json!(1));
    page["skipped"] = json!([{"offset": 0, "reason": "too_large", "bytes": 17_000_000}]);
    let error = server_of_one_record(page, |_| None).consumer("orders", "billing").poll().expect_err("too long");
    assert_eq!(error.kind(), FailureKind::TooLong);
    assert!(error.to_string().contains("offset 0 of partition 0 of \"orders\" has 17000000 bytes"), "{error}");
}
