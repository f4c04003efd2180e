//! The memory budget of large responses: a slow reader holds some of it, and a request without
//! memory is told when to retry.

use std::io::{Read, Write};
use std::net::TcpStream;

use quire_http::Settings;
use serde_json::json;

use crate::records::{BLOCK_BYTES, batch};
use crate::served::Served;

/// A record of zeros, which JSON writes in six bytes each: more than the system buffers of an
/// unread response.
const BLOCKS: usize = 64;
const PATH: &str = "/v1/topics/t/partitions/0/records";

fn with_room(bytes: u64) -> Served {
    let served = Served::with_settings(Settings { memory_bytes_max: bytes, ..Settings::default() }, |builder| builder);
    served.produce("t", &batch(&[BLOCKS]));
    served
}

/// Requests the record, and reads only the status.
fn ask_and_stall(served: &Served) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    stream.write_all(served.head("GET", PATH, 0, "").as_bytes()).expect("taken");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("an answer");
    (String::from_utf8_lossy(&status[9..]).into_owned(), stream)
}

#[test]
fn a_response_of_many_pieces_is_whole_and_states_its_length() {
    let served = with_room(Settings::default().memory_bytes_max);
    let answer = served.get(PATH);
    assert!(answer.head.contains(&format!("content-length: {}", answer.text.len())), "{}", answer.head);
    let json = answer.json();
    let value = json["data"][0]["value_text"].as_str().expect("text");
    assert!(value == "\0".repeat(BLOCKS * BLOCK_BYTES), "as it was produced");
}

#[test]
fn responses_to_many_slow_readers_stay_within_their_memory_and_others_learn_when_to_retry() {
    let served = with_room(160 << 20);
    // Each answer takes 56 MiB while it is put together, and 48 until it is read.
    let mut slow = Vec::new();
    let refused = loop {
        let (status, stream) = ask_and_stall(&served);
        if status != "200" {
            break status;
        }
        slow.push(stream);
        assert!(slow.len() < 10, "more than there is room for");
    };
    assert_eq!((refused.as_str(), slow.len() >= 2), ("503", true));
    let problem = served.fails("GET", PATH, "", 503, "overloaded");
    assert_eq!(problem["retry_after_ms"], json!(1_000));
    assert!(served.get(PATH).head.contains("retry-after: 1"), "in seconds");
    // Small responses still succeed.
    assert_eq!(served.read("/v1/topics")["data"].as_array().map(Vec::len), Some(1));
    drop(slow);
    // The server notices by and by that they have gone.
    let is_read = (0..10_000).any(|_| served.get(PATH).status == 200);
    assert!(is_read, "what they held is there again");
}

#[test]
fn an_answer_that_alone_takes_more_than_all_may_is_refused_for_good() {
    let served = with_room(4 << 20);
    let problem = served.fails("GET", PATH, "", 413, "too_large");
    let message = problem["detail"].as_str().expect("a message");
    assert!(message.contains("exceeds the 4194304 bytes") && message.contains("--memory"), "{message}");
    served.write("/v1/commit", json!({"parts": [{"produce": {"topic": "t", "value": "x".repeat(100 << 10)}}]}));
    assert_eq!(served.read(&format!("{PATH}?offset=1"))["next_offset"], 2);
    // Three bytes that JSON writes in six each.
    let content = "AQEB".repeat(240 << 10);
    let block = json!({"put_block": {"graph": "g", "block": "b", "kind": "k", "content_base64": content}});
    served.write("/v1/commit", json!({ "parts": [block] }));
    served.fails("GET", "/v1/graphs/g/blocks/b", "", 413, "too_large");
}

#[test]
fn room_that_can_not_be_is_refused() {
    for bytes in [0, (1 << 20) - 1, Settings::MEMORY_BYTES_MOST + 1] {
        let problems = Settings { memory_bytes_max: bytes, ..Settings::default() }.problems();
        assert_eq!(problems.len(), 1, "{bytes}");
    }
    assert_eq!(Settings::default().problems(), Vec::<String>::new());
}

/// A server with these bytes of memory, over a database of the default segments.
fn with_segments(bytes: u64) -> Served {
    let settings = Settings { memory_bytes_max: bytes, ..Settings::default() };
    Served::with_settings(settings, |builder| builder.segment_bytes(16 << 20))
}

#[test]
fn jobs_are_read_within_the_memory_of_their_payloads() {
    let served = with_segments(4 << 20);
    let payload = "x".repeat(500 << 10);
    for _ in 0..6 {
        served.write("/v1/commit", json!({"parts": [{"enqueue": {"queue": "q", "payload": payload}}]}));
    }
    // The copies of the jobs, and the response.
    served.fails("GET", "/v1/queues/q/jobs?limit=6", "", 413, "too_large");
    assert_eq!(served.read("/v1/queues/q/jobs?limit=3")["data"].as_array().map(Vec::len), Some(3));
}

#[test]
fn the_last_events_of_projections_are_claimed() {
    let served = with_segments(4 << 20);
    let data = "x".repeat(500 << 10);
    for number in 0..6 {
        let event = json!({"type": format!("T{number}"), "data_text": data});
        served.write("/v1/events/s/append", json!({"events": [event]}));
    }
    let projections = |count: usize| {
        let last = |number: usize| {
            let query = json!({"items": [{"types": [format!("T{number}")]}]});
            (number.to_string(), json!({"query": query, "fold": "last"}))
        };
        json!({"projections": (0..count).map(last).collect::<serde_json::Map<_, _>>()}).to_string()
    };
    served.fails("POST", "/v1/events/s/project", &projections(6), 413, "too_large");
    let states = served.write("/v1/events/s/project", projections(3));
    assert_eq!(states["states"].as_object().map(serde_json::Map::len), Some(3));
}

#[test]
fn walks_and_analyses_are_claimed_as_they_grow() {
    const BLOCKS: usize = 40_000;
    let served = with_segments(1 << 20);
    for first in (0..BLOCKS).step_by(2_000) {
        let edge = |number: usize| {
            let target = format!("b{number}");
            json!({"put_edge": {"graph": "g", "source": "a", "type": "to", "target": target, "allow_missing": true}})
        };
        let parts: Vec<_> = (first..first + 2_000).map(edge).collect();
        served.write("/v1/commit", json!({ "parts": parts }));
    }
    let block = |name: &str| json!({"put_block": {"graph": "g", "block": name, "kind": "k"}});
    served.write("/v1/commit", json!({"parts": [block("a"), block("alone")]}));
    for walk in ["order?start=", "components?start=", "paths?to=alone&from=", "paths?to=alone&all=true&from="] {
        served.fails("GET", &format!("/v1/graphs/g/{walk}a"), "", 413, "too_large");
        served.read(&format!("/v1/graphs/g/{walk}alone"));
    }
}

#[test]
fn an_export_is_claimed_as_it_grows() {
    let served = with_segments(4 << 20);
    let put = |name: &str| {
        let block = json!({"graph": "g", "block": name, "kind": "k", "content_text": "x".repeat(800_000)});
        served.write("/v1/commit", json!({"parts": [{"put_block": block}]}));
    };
    ["a", "b"].into_iter().for_each(put);
    for format in ["jsonl", "csv-blocks", "graphml"] {
        assert_eq!(served.get(&format!("/v1/graphs/g/export?format={format}")).status, 200, "{format}");
    }
    ["c", "d", "e"].into_iter().for_each(put);
    for format in ["jsonl", "csv-blocks", "graphml"] {
        served.fails("GET", &format!("/v1/graphs/g/export?format={format}"), "", 413, "too_large");
    }
}
