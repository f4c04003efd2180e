//! OffsetCommit in the versions that no decoder of ours knows, as librdkafka 1.0 writes it.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::ResponseError::{self, *};
use tokio::io::AsyncWriteExt;

use crate::groups::{joining, quick, syncing};
use crate::support::{Client, World};

fn put(frame: &mut BytesMut, text: &str) {
    frame.put_u16(text.len() as u16);
    frame.put_slice(text.as_bytes());
}

/// Commits an offset of a partition of the topic `t` for the group `g`, from version 1 on as this
/// member of this generation. The metadata is the version's number.
async fn commit(
    client: &mut Client,
    version: i16,
    (member, generation): (&str, i32),
    (partition, offset): (i32, i64),
) -> Option<ResponseError> {
    let mut frame = BytesMut::new();
    frame.put_slice(&[0, 8]);
    frame.put_i16(version);
    frame.put_slice(&[0, 0, 0, 9, 0, 2, b'm', b'e']);
    put(&mut frame, "g");
    if version >= 1 {
        frame.put_i32(generation);
        put(&mut frame, member);
    }
    frame.put_u32(1);
    put(&mut frame, "t");
    frame.put_u32(1);
    frame.put_i32(partition);
    frame.put_i64(offset);
    if version >= 1 {
        frame.put_i64(-1);
    }
    put(&mut frame, &version.to_string());
    client.stream.write_u32(frame.len() as u32).await.expect("sent");
    client.stream.write_all(&frame).await.expect("sent");
    let mut answer: Bytes = client.receive_frame().await.expect("an answer");
    assert_eq!(answer.split_to(15)[..], [0, 0, 0, 9, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1]);
    assert_eq!(answer.get_i32(), partition);
    let code = answer.get_i16();
    assert!(answer.is_empty(), "{} bytes behind the answer", answer.len());
    ResponseError::try_from_code(code)
}

#[tokio::test]
async fn offsets_are_committed_in_versions_0_and_1_as_in_every_other() {
    let world = World::with(quick()).await;
    let mut client = world.client().await;
    client.topic("t").await;
    let nobody = ("", -1);
    assert_eq!(commit(&mut client, 0, nobody, (0, 3)).await, None);
    assert_eq!(client.committed("t").await, (3, String::from("0")));
    assert_eq!(commit(&mut client, 1, nobody, (0, 4)).await, None);
    assert_eq!(commit(&mut client, 1, nobody, (1, 4)).await, Some(UnknownTopicOrPartition));

    let joined = client.call(3, &joining("")).await;
    let member = joined.member_id.to_string();
    assert_eq!(client.call(3, &syncing(&joined, &[(&member, "all")])).await.error_code, 0);
    let generation = joined.generation_id;
    assert_eq!(commit(&mut client, 1, (&member, generation), (0, 5)).await, None);
    assert_eq!(commit(&mut client, 1, (&member, generation - 1), (0, 6)).await, Some(IllegalGeneration));
    for version in 0..=1 {
        assert_eq!(commit(&mut client, version, nobody, (0, 7)).await, Some(UnknownMemberId), "{version}");
    }
    assert_eq!(client.committed("t").await, (5, String::from("1")));
}
