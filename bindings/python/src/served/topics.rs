//! Topics of a server.

use quire::{Record, Records, Sequence};
use quire_api::ListPage;
use quire_client::Client;
use quire_client::reply::{PartitionReply, RecordReply, RecordsPosition, TopicGroupReply, TopicWithPartitions};

use crate::errors::CallError;

/// The most bytes and records of an answer.
const BYTES_MAX: usize = 16 << 20;
const RECORDS_MAX: usize = 10_000;

/// Reads records of a partition.
pub(crate) fn read(
    client: &Client,
    topic: &str,
    partition: u32,
    offset: u64,
    bytes_max: usize,
) -> Result<Records, CallError> {
    read_up_to(client, topic, partition, offset, (bytes_max, RECORDS_MAX))
}

/// The same, with a limit of records. A record that is too long for an answer ends the records, and
/// is an error as the first one.
pub(super) fn read_up_to(
    client: &Client,
    topic: &str,
    partition: u32,
    offset: u64,
    (bytes_max, records_max): (usize, usize),
) -> Result<Records, CallError> {
    let bytes_max = bytes_max.clamp(1, BYTES_MAX).to_string();
    let (limit, offset) = (records_max.clamp(1, RECORDS_MAX).to_string(), offset.to_string());
    let query = [("offset", &*offset), ("limit", &*limit), ("bytes_max", &*bytes_max)];
    let path = ["topics", topic, "partitions", &partition.to_string(), "records"];
    let ListPage { mut data, facts, .. }: ListPage<RecordReply, RecordsPosition> = client.get(&path, &query)?;
    let Some(long) = facts.skipped.iter().min_by_key(|skipped| skipped.offset) else {
        let records = data.into_iter().map(record).collect();
        return Ok(Records { records, next_offset: Sequence::new(facts.next_offset) });
    };
    data.retain(|record| record.offset < long.offset);
    if data.is_empty() {
        return Err(CallError::Invalid(format!(
            "the record at offset {} of partition {partition} of {topic:?} has {} bytes, more than the {BYTES_MAX} of an \
             answer: read it over gRPC or the Kafka protocol, and read on from offset {}",
            long.offset,
            long.bytes,
            long.offset + 1
        )));
    }
    let records = data.into_iter().map(record).collect();
    Ok(Records { records, next_offset: Sequence::new(long.offset) })
}

fn record(reply: RecordReply) -> Record {
    let present = |bytes: &[u8], is_null: bool| (!is_null).then(|| bytes.to_vec());
    let headers = reply.headers.iter().map(|header| {
        let value = present(header.value.bytes(), header.value.is_null());
        (header.key.bytes().to_vec(), value)
    });
    Record {
        offset: Sequence::new(reply.offset),
        timestamp_ms: reply.timestamp_ms,
        key: present(reply.key.bytes(), reply.key.is_null()),
        value: present(reply.value.bytes(), reply.value.is_null()),
        headers: headers.collect(),
    }
}

/// The first offset of a partition, and the offset after its last record.
pub(crate) fn offsets(client: &Client, topic: &str, partition: u32) -> Result<(u64, u64), CallError> {
    let described: TopicWithPartitions = client.get(&["topics", topic], &[])?;
    match described.partitions.iter().find(|found| found.partition == partition) {
        Some(PartitionReply { start, next, .. }) => Ok((*start, *next)),
        None => {
            let count = described.partitions.len();
            Err(CallError::NotFound(format!("unknown partition {partition}: topic {topic:?} has {count} partitions")))
        }
    }
}

/// The committed offset of a group in a partition.
pub(crate) fn committed_offset(
    client: &Client,
    topic: &str,
    group: &str,
    partition: u32,
) -> Result<Option<u64>, CallError> {
    let reply: TopicGroupReply = client.get(&["topics", topic, "groups", group], &[])?;
    Ok(reply.offsets.iter().find(|found| found.partition == partition).map(|found| found.offset))
}
