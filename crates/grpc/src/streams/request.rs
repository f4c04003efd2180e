//! Converts requests into commands to topics and groups. Payloads are borrowed.

use quire::streams::wire::Codec;
use quire::streams::{Cleanup, Command, Committer, Despite, MemberId, OwnerEpoch, Setting, TopicChanges, TopicRef};
use quire::{Message, Sequence};

use crate::error::ItemFault;
use crate::proto::{
    AlterTopicRequest, CommitOffsetRequest, CreateTopicRequest, DeleteGroupRequest, DeleteOffsetRequest,
    DeleteRecordsRequest, DeleteTopicRequest, NewRecord, OffsetOwner, ProtectUnreadRequest, TopicSettings,
};

/// The settings that a client can reset, by name.
const SETTINGS: [(&str, Setting); 8] = [
    ("retention_ms", Setting::RetentionMs),
    ("retention_bytes", Setting::RetentionBytes),
    ("batch_bytes_max", Setting::BatchBytesMax),
    ("compression", Setting::Compression),
    ("cleanup", Setting::Cleanup),
    ("delete_retention_ms", Setting::DeleteRetentionMs),
    ("timestamp_after_max_ms", Setting::TimestampAfterMaxMs),
    ("timestamp_before_max_ms", Setting::TimestampBeforeMaxMs),
];

/// A message for a topic.
pub(crate) fn message(record: &NewRecord) -> Result<Message<'_>, ItemFault> {
    let mut message = record.value.as_ref().map_or_else(Message::tombstone, |value| Message::new(&value[..]));
    if let Some(key) = &record.key {
        message = message.key(&key[..]);
    }
    for (index, header) in record.headers.iter().enumerate() {
        let invalid = |_| ItemFault::invalid(format!("header {index}: the key is not UTF-8"));
        let key = std::str::from_utf8(&header.key).map_err(invalid)?;
        message = match &header.value {
            Some(value) => message.header(key, &value[..]),
            None => message.header_without_value(key),
        };
    }
    if let Some(partition) = record.partition {
        message = message.partition(partition);
    }
    if let Some(timestamp_ms) = record.timestamp_ms {
        message = message.timestamp_ms(timestamp_ms);
    }
    Ok(message)
}

/// The command that creates a topic.
pub(crate) fn create(request: &CreateTopicRequest) -> Result<Command<'_>, ItemFault> {
    let settings = quire::streams::TopicSettings::default().changed(changes(request.settings.as_ref(), &[])?);
    Ok(Command::CreateTopic { name: &request.name, partitions: request.partitions, settings })
}

/// The command that deletes a topic.
pub(crate) fn delete(request: &DeleteTopicRequest) -> Command<'_> {
    Command::DeleteTopic { topic: TopicRef::Name(&request.topic) }
}

/// The command that changes a topic.
pub(crate) fn alter(request: &AlterTopicRequest) -> Result<Command<'_>, ItemFault> {
    let topic = TopicRef::Name(&request.topic);
    match (request.partitions, &request.settings, &request.reset_settings[..]) {
        (Some(partitions), None, []) => Ok(Command::AddPartitions { topic, partitions }),
        (None, None, []) | (Some(_), ..) => {
            Err(ItemFault::invalid("give either partitions or settings: use two commands for both"))
        }
        (None, settings, reset) => Ok(Command::AlterTopic { topic, changes: changes(settings.as_ref(), reset)? }),
    }
}

/// The changes of the given settings, and the settings to reset.
fn changes(settings: Option<&TopicSettings>, reset: &[String]) -> Result<TopicChanges, ItemFault> {
    let none = TopicSettings::default();
    let TopicSettings {
        retention_ms,
        retention_bytes,
        batch_bytes_max,
        compression,
        cleanup,
        delete_retention_ms,
        timestamp_after_max_ms,
        timestamp_before_max_ms,
    } = settings.unwrap_or(&none);
    let codec = |name: &String| {
        let unknown = || format!("unknown codec {name:?}: use none, gzip, snappy, lz4 or zstd");
        Codec::of_name(name).ok_or_else(|| ItemFault::invalid(unknown()))
    };
    let policy = |name: &String| {
        let unknown = || format!("unknown cleanup policy {name:?}: use delete, compact or compact,delete");
        Cleanup::of_name(name).ok_or_else(|| ItemFault::invalid(unknown()))
    };
    let mut changes = TopicChanges {
        retention_ms: retention_ms.map(Some),
        retention_bytes: retention_bytes.map(Some),
        batch_bytes_max: *batch_bytes_max,
        compression: compression.as_ref().map(codec).transpose()?,
        cleanup: cleanup.as_ref().map(policy).transpose()?,
        delete_retention_ms: *delete_retention_ms,
        timestamp_after_max_ms: *timestamp_after_max_ms,
        timestamp_before_max_ms: *timestamp_before_max_ms,
        ..TopicChanges::default()
    };
    let given = [
        retention_ms.is_some(),
        retention_bytes.is_some(),
        batch_bytes_max.is_some(),
        compression.is_some(),
        cleanup.is_some(),
        delete_retention_ms.is_some(),
        timestamp_after_max_ms.is_some(),
        timestamp_before_max_ms.is_some(),
    ];
    for name in reset {
        let known = SETTINGS.iter().zip(given).find(|((known, _), _)| known == name);
        let ((_, setting), is_given) = known.ok_or_else(|| ItemFault::invalid(format!("unknown setting {name:?}")))?;
        if is_given {
            return Err(ItemFault::invalid(format!("{name} is in settings and in reset_settings: give it once")));
        }
        changes.reset = changes.reset.with(*setting);
    }
    Ok(changes)
}

/// The command that deletes records of a partition.
pub(crate) fn delete_records(request: &DeleteRecordsRequest) -> Command<'_> {
    Command::DeleteRecords {
        topic: TopicRef::Name(&request.topic),
        partition: request.partition,
        before: request.before.map(Sequence::new),
        keep_unread: false,
    }
}

/// The command that commits an offset of a group.
pub(crate) fn commit_offset(request: &CommitOffsetRequest) -> Command<'_> {
    Command::CommitOffset {
        group: &request.group,
        topic: TopicRef::Name(&request.topic),
        partition: request.partition,
        offset: Sequence::new(request.offset),
        leader_epoch: request.leader_epoch,
        metadata: &request.metadata,
        by: request.owner.map_or(Committer::Anyone, committer),
    }
}

fn committer(owner: OffsetOwner) -> Committer {
    Committer::Member { member: MemberId::new(owner.member), epoch: OwnerEpoch::new(owner.epoch) }
}

/// The command that deletes an offset of a group.
pub(crate) fn delete_offset(request: &DeleteOffsetRequest) -> Command<'_> {
    let DeleteOffsetRequest { group, topic, partition } = request;
    Command::DeleteOffset { group, topic: TopicRef::Name(topic), partition: *partition }
}

/// The command that deletes a group.
pub(crate) fn delete_group(request: &DeleteGroupRequest) -> Command<'_> {
    let despite = if request.force { Despite::Everyone } else { Despite::Nobody };
    Command::DeleteGroup { group: &request.group, despite }
}

/// The command that protects unread records, or ends that.
pub(crate) fn protect_unread(request: &ProtectUnreadRequest) -> Command<'_> {
    let ProtectUnreadRequest { group, topic, protects } = request;
    Command::ProtectUnread { group, topic: TopicRef::Name(topic), protects: *protects }
}
