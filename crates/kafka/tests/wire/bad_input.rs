//! Invalid input ends its own connection at worst.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, FetchRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest};
use kafka_protocol::protocol::Request;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::io::AsyncWriteExt;

use crate::offsets::listing;
use crate::support::{World, about, batch, fetching, frame, producing};

#[tokio::test]
async fn garbage_closes_its_connection_and_no_other() {
    let world = World::new().await;
    let mut other = world.client().await;
    other.topic("t").await;
    let garbage: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        b"\0\0\0\x03abc",
        b"\x7f\xff\xff\xff\0\x12\0\x03",
    ];
    for bytes in garbage {
        let mut client = world.client().await;
        client.stream.write_all(bytes).await.expect("taken");
        assert!(client.is_closed().await);
        assert_eq!(other.produce("t", &batch(&["a"])).await.error_code, 0);
    }
    world.counted(|counts| counts.closed_malformed == 5 && counts.connections_open == 1).await;
}

#[tokio::test]
async fn an_api_or_a_version_that_is_not_offered_closes_the_connection() {
    let world = World::new().await;
    for (key, version) in [(24, 0), (-1, 0), (999, 0), (0, 2), (0, 14), (1, 3), (1, 19), (2, 11), (3, 14), (3, -1)] {
        let mut client = world.client().await;
        let mut request = BytesMut::new();
        request.put_i32(10);
        request.put_i16(key);
        request.put_i16(version);
        request.put_i32(1);
        request.put_i16(-1);
        client.stream.write_all(&request).await.expect("taken");
        assert!(client.is_closed().await, "API {key}, version {version}");
    }
    world.counted(|counts| counts.closed_unsupported == 10).await;
}

/// A frame of an API whose body claims more than two billion elements in its first array.
fn claiming<R: Request>(version: i16, before: &[u8]) -> BytesMut {
    let is_flexible = R::header_version(version) >= 2;
    let mut out = BytesMut::new();
    out.put_i32(0);
    out.put_i16(R::KEY);
    out.put_i16(version);
    out.put_i32(1);
    out.put_i16(-1);
    if is_flexible {
        out.put_u8(0);
    }
    out.put_slice(before);
    if is_flexible {
        out.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
    } else {
        out.put_i32(i32::MAX);
    }
    out.put_slice(&[1; 30]);
    let length = u32::try_from(out.len() - 4).expect("a length");
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

#[tokio::test]
async fn an_array_that_claims_more_items_than_it_has_allocates_no_memory() {
    let world = World::new().await;
    let frames = [
        claiming::<MetadataRequest>(1, b""),
        claiming::<MetadataRequest>(12, b""),
        claiming::<ProduceRequest>(3, b"\xff\xff\xff\xff\0\0\0\0"),
        claiming::<ProduceRequest>(9, b"\0\xff\xff\0\0\0\0"),
        claiming::<FetchRequest>(4, &[0; 17]),
        claiming::<FetchRequest>(12, &[0; 25]),
        claiming::<FetchRequest>(17, &[0; 21]),
        claiming::<ListOffsetsRequest>(1, &[0; 4]),
        claiming::<ListOffsetsRequest>(6, &[0; 5]),
    ];
    for (number, frame) in frames.iter().enumerate() {
        let mut client = world.client().await;
        client.stream.write_all(frame).await.expect("taken");
        assert!(client.is_closed().await, "frame {number}");
    }
    world.counted(|counts| counts.closed_malformed == frames.len() as u64).await;
}

/// Well-formed requests, to be damaged.
fn requests() -> Vec<BytesMut> {
    let mut requests = vec![frame(1, 0, &ApiVersionsRequest::default()), frame(1, 4, &ApiVersionsRequest::default())];
    requests.extend([0, 4, 9, 13].map(|version| frame(1, version, &about("t"))));
    requests.extend([3, 9].map(|version| frame(1, version, &producing("t", 0, &batch(&["a", "b"])))));
    requests.extend([4, 7, 12].map(|version| frame(1, version, &fetching("t", 0))));
    requests.extend([1, 6].map(|version| frame(1, version, &listing("t", 0, -1))));
    let mut by_id = fetching("t", 0);
    by_id.topics[0].topic = Default::default();
    by_id.topics[0].topic_id = uuid::Uuid::from_u128(1);
    requests.extend([15, 18].map(|version| frame(1, version, &by_id)));
    requests
}

fn damaged() -> impl Strategy<Value = Bytes> {
    let request = proptest::sample::select(requests());
    let changes = proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4);
    let cut = proptest::option::of(any::<proptest::sample::Index>());
    let tail = proptest::collection::vec(any::<u8>(), 0..40);
    let mutated = (request, changes, cut, tail).prop_map(|(mut frame, changes, cut, tail)| {
        // The API key and the version stay, because most mutations of them end before the decoders
        // under test.
        for (at, byte) in changes {
            let at = 8 + at.index(frame.len() - 8);
            frame[at] = byte;
        }
        if let Some(cut) = cut {
            frame.truncate(8 + cut.index(frame.len() - 8));
            frame.put_slice(&tail);
        }
        let length = u32::try_from(frame.len() - 4).expect("a length");
        frame[..4].copy_from_slice(&length.to_be_bytes());
        frame.freeze()
    });
    let random = proptest::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
    prop_oneof![9 => mutated, 1 => random]
}

#[test]
fn damaged_requests_never_bring_the_server_down() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let world = runtime.block_on(World::new());
    let config = Config { cases: 512, max_shrink_iters: 64, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let frames = proptest::collection::vec(damaged(), 1..6);
    let outcome = runner.run(&frames, |frames| {
        runtime.block_on(async {
            let mut client = world.client().await;
            for frame in &frames {
                // The server may have closed already.
                let _ = client.stream.write_all(frame).await;
            }
            let _ = client.stream.shutdown().await;
            while client.receive_frame().await.is_some() {}
            // Another connection still gets responses.
            world.client().await.call(3, &ApiVersionsRequest::default()).await;
        });
        Ok(())
    });
    outcome.expect("the server lives");
    let counts = world.counters.statistics();
    assert!(counts.closed_malformed > 50 && counts.requests > 600, "both are met: {counts:?}");
}
