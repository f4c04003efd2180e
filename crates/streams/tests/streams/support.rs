//! Runs scenarios and compares their output. Each line is a commit (parts joined by ` + `) or a
//! read. After every line, the state is restarted from a checkpoint at each position and compared
//! with the live state.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use quire_model::memory::World;
use quire_model::{DecideError, Position, Sequence, Timestamp};
use quire_streams::wire::{Batch, BatchBuilder, Codec};
use quire_streams::{
    Cleanup, Command, Committer, Despite, Generation, MemberId, OwnerEpoch, Reply, StaticMember, Streams, TopicChanges,
    TopicId, TopicRef, TopicSettings,
};

/// Runs a scenario and compares its output, line by line.
///
/// ```text
/// create T N [SETTING=VALUE ...]   produce T/P [or N new] v v@ms ...      commit GROUP T/P OFFSET [note]
/// delete T   partitions T N        keyed T KEY [or N new] v v@ms ...      member GROUP GENERATION T/P OFFSET
/// alter T SETTING=VALUE ...        init   sent ID EPOCH SEQUENCE T/P v v  generation GROUP N [INSTANCE=MEMBER ...]
/// trim T/P OFFSET|all   retain                                            forget GROUP T/P   disband GROUP
/// replace GROUP GENERATION INSTANCE=MEMBER
/// join GROUP T LEASE_MS [NAME]   renew GROUP T MEMBER   leave GROUP T MEMBER   owner GROUP MEMBER EPOCH T/P OFFSET
/// protect GROUP T   unprotect GROUP T   keep T/P OFFSET|all   disband GROUP [leases|all]
/// later MS
/// topics   groups   committed G    offsets T/P   fetch T/P FROM BYTES_MAX   at T/P MS   latest T/P
/// shares GROUP T
/// settings T   bytes T/P           senders T/P                              statics GROUP
/// ```
/// `#N` instead of a topic's name is its id, and `%N` is event store N. Records without a time have
/// the time of their commit: 1000 ms for the first. Settings are `ms`, `bytes` and `batch`; 0 means
/// no limit.
#[track_caller]
pub(crate) fn check(scenario: &str, expect: &str) {
    let mut world = World::<Streams>::new();
    let mut said = String::new();
    let mut later_ms = 0;
    for (number, line) in scenario.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        if let Some(ms) = line.strip_prefix("later ") {
            later_ms += ms.parse::<u64>().unwrap();
            continue;
        }
        let time_ms = 1000 * (number as u64 + 1) + later_ms;
        said += &read(&world, line).unwrap_or_else(|| commit(&mut world, time_ms, line));
        said.push('\n');
        for position in 0..=world.log.tail().get() {
            let restarted = world.restarted(Position::new(position));
            assert_eq!(World::saved(&restarted), World::saved(&world.model), "restart from a checkpoint at {position}");
        }
    }
    let expect: String =
        expect.lines().map(str::trim).filter(|line| !line.is_empty()).fold(String::new(), |mut all, line| {
            writeln!(all, "{line}").unwrap();
            all
        });
    assert_eq!(said, expect);
}

fn commit(world: &mut World<Streams>, time_ms: u64, line: &str) -> String {
    if line == "retain" {
        return retain(world, time_ms);
    }
    let parts: Vec<Vec<&str>> = line.split(" + ").map(|part| part.split(' ').collect()).collect();
    let batches: Vec<Vec<u8>> = parts.iter().map(|part| batch(part, time_ms)).collect();
    let members: Vec<Vec<StaticMember<'_>>> = parts.iter().map(|part| static_members(part)).collect();
    let commands: Vec<Command<'_>> = parts
        .iter()
        .zip(&batches)
        .zip(&members)
        .map(|((part, batch), members)| match part[..] {
            ["create", name, partitions, ref chosen @ ..] => {
                let settings = TopicSettings::default().changed(changes(chosen));
                Command::CreateTopic { name, partitions: partitions.parse().unwrap(), settings }
            }
            ["delete", topic] => Command::DeleteTopic { topic: topic_of(topic) },
            ["alter", topic, ref chosen @ ..] => {
                Command::AlterTopic { topic: topic_of(topic), changes: changes(chosen) }
            }
            ["partitions", topic, partitions] => {
                Command::AddPartitions { topic: topic_of(topic), partitions: partitions.parse().unwrap() }
            }
            ["trim", at, before] => {
                let (topic, partition) = partition_of(at);
                let before = (before != "all").then(|| Sequence::new(before.parse().unwrap()));
                Command::DeleteRecords { topic, partition, before, keep_unread: false }
            }
            ["init"] => Command::InitProducer,
            ["sent", _, _, _, at, ..] => {
                let (topic, partition) = partition_of(at);
                Command::Produce { topic, partition, batch: Batch::stored(batch), create_partitions: None }
            }
            ["generation", group, number, ..] => Command::BeginGeneration {
                group,
                generation: Generation::new(number.parse().unwrap()),
                protocol_type: "consumer",
                protocol: "range",
                members,
            },
            ["member", group, generation, at, offset] => {
                let (topic, partition) = partition_of(at);
                let (offset, metadata, leader_epoch) = (Sequence::new(offset.parse().unwrap()), "", None);
                let by = Committer::Of(Generation::new(generation.parse().unwrap()));
                Command::CommitOffset { group, topic, partition, offset, leader_epoch, metadata, by }
            }
            ["owner", group, member, epoch, at, offset] => {
                let (topic, partition) = partition_of(at);
                let (offset, metadata, leader_epoch) = (Sequence::new(offset.parse().unwrap()), "", None);
                let epoch = OwnerEpoch::new(epoch.parse().unwrap());
                let by = Committer::Member { member: MemberId::new(member.parse().unwrap()), epoch };
                Command::CommitOffset { group, topic, partition, offset, leader_epoch, metadata, by }
            }
            ["join", group, topic, lease_ms, ref name @ ..] => Command::JoinGroup {
                group,
                topic: topic_of(topic),
                name: name.first().copied().unwrap_or(""),
                lease_ms: lease_ms.parse().unwrap(),
            },
            ["renew", group, topic, member] => {
                let member = MemberId::new(member.parse().unwrap());
                Command::RenewMember { group, topic: topic_of(topic), member }
            }
            ["leave", group, topic, member] => {
                let member = MemberId::new(member.parse().unwrap());
                Command::LeaveGroup { group, topic: topic_of(topic), member }
            }
            ["protect", group, topic] => Command::ProtectUnread { group, topic: topic_of(topic), protects: true },
            ["unprotect", group, topic] => Command::ProtectUnread { group, topic: topic_of(topic), protects: false },
            ["keep", at, before] => {
                let (topic, partition) = partition_of(at);
                let before = (before != "all").then(|| Sequence::new(before.parse().unwrap()));
                Command::DeleteRecords { topic, partition, before, keep_unread: true }
            }
            ["forget", group, at] => {
                let (topic, partition) = partition_of(at);
                Command::DeleteOffset { group, topic, partition }
            }
            ["replace", group, generation, member] => {
                let (instance, member) = member.split_once('=').unwrap();
                let generation = Generation::new(generation.parse().unwrap());
                Command::ReplaceMember { group, generation, member: StaticMember { instance, member } }
            }
            ["disband", group] => Command::DeleteGroup { group, despite: Despite::Nobody },
            ["disband", group, "leases"] => Command::DeleteGroup { group, despite: Despite::Generation },
            ["disband", group, "all"] => Command::DeleteGroup { group, despite: Despite::Everyone },
            ["produce", at, ref rest @ ..] => {
                let (topic, partition) = partition_of(at);
                let create_partitions = (rest[0] == "or").then(|| rest[1].parse().unwrap());
                Command::Produce { topic, partition, batch: Batch::stored(batch), create_partitions }
            }
            ["keyed", topic, key, ref rest @ ..] => {
                let create_partitions = (rest[0] == "or").then(|| rest[1].parse().unwrap());
                let (topic, batch) = (TopicRef::Name(topic), Batch::stored(batch));
                Command::ProduceByKey { topic, key: key.as_bytes(), batch, create_partitions }
            }
            ["commit", group, at, offset, ref note @ ..] => {
                let (topic, partition) = partition_of(at);
                let metadata = note.first().copied().unwrap_or("");
                let offset = Sequence::new(offset.parse().unwrap());
                let leader_epoch = (metadata == "epoch").then_some(5);
                let by = Committer::Anyone;
                Command::CommitOffset { group, topic, partition, offset, leader_epoch, metadata, by }
            }
            _ => panic!("a part of a commit, not {part:?}"),
        })
        .collect();
    match world.commit(Timestamp::from_millis(time_ms), &commands) {
        Ok(replies) => replies.iter().map(reply).collect::<Vec<_>>().join(" + "),
        Err(DecideError::Refused { command, refusal }) => format!("refused {command}: {refusal}"),
        Err(DecideError::Unreadable(error)) => panic!("memory is readable: {error}"),
    }
}

fn reply(reply: &Reply) -> String {
    match reply {
        Reply::TopicCreated(created) => format!("topic {} has {}", created.topic, created.partitions),
        Reply::Produced(p) => {
            let again = if p.is_duplicate { " again" } else { "" };
            format!("#{}/{} {}..={}{again}", p.topic, p.partition, p.base_offset, p.last_offset)
        }
        Reply::TopicDeleted(topic) => format!("topic {topic} is gone"),
        Reply::TopicAltered(altered) => format!("topic {} has {}", altered.topic, altered.partitions),
        Reply::RecordsDeleted(deleted) => format!("#{}/{} from {}", deleted.topic, deleted.partition, deleted.start),
        Reply::ProducerInitialized(producer) => format!("producer {producer}"),
        Reply::OffsetDeleted(c) => format!("group {} knows nothing of #{}/{}", c.group.get(), c.topic, c.partition),
        Reply::GenerationBegun(group) => format!("group {} goes on", group.get()),
        Reply::MemberReplaced(group) => format!("group {} has another member", group.get()),
        Reply::GroupDeleted(group) => format!("group {} is gone", group.get()),
        Reply::UnreadProtected(group) => format!("group {} is cared for", group.get()),
        Reply::MemberJoined(joined) => format!("group {} has member {}", joined.group.get(), joined.member),
        Reply::MemberRenewed(group) => format!("group {} goes on with the member", group.get()),
        Reply::MemberLeft(group) => format!("group {} goes on without the member", group.get()),
        Reply::OffsetCommitted(c) => format!("group {} at #{}/{}", c.group.get(), c.topic, c.partition),
    }
}

/// Does the work of the topics' retention settings.
fn retain(world: &mut World<Streams>, time_ms: u64) -> String {
    let now = Timestamp::from_millis(time_ms);
    let plans = world.model.retained(now, None).into_iter().map(|retained| retained.plan(&world.log).unwrap());
    let commands: Vec<_> = plans.flatten().collect();
    if commands.is_empty() {
        return String::from("all stays");
    }
    world.commit(now, &commands).unwrap().iter().map(reply).collect::<Vec<_>>().join(" + ")
}

fn changes(chosen: &[&str]) -> TopicChanges {
    let mut changes = TopicChanges::default();
    for (name, value) in chosen.iter().map(|chosen| chosen.split_once('=').unwrap()) {
        let limit = (value != "none").then(|| value.parse().unwrap());
        let value: u64 = limit.unwrap_or_default();
        match name {
            "ms" => changes.retention_ms = Some(limit),
            "bytes" => changes.retention_bytes = Some(limit),
            "batch" => changes.batch_bytes_max = Some(value as u32),
            "cleanup" => changes.cleanup = Some(Cleanup::ALL[value as usize]),
            "tombstones" => changes.delete_retention_ms = Some(value),
            "codec" => changes.compression = Codec::of_number(value as u8),
            _ => panic!("a setting, not {name}"),
        }
    }
    changes
}

fn static_members<'l>(part: &[&'l str]) -> Vec<StaticMember<'l>> {
    let ["generation", _, _, members @ ..] = part else { return Vec::new() };
    let members = members.iter().map(|member| member.split_once('=').unwrap());
    members.map(|(instance, member)| StaticMember { instance, member }).collect()
}

/// The batch of a part, as its producer would send it.
fn batch(part: &[&str], time_ms: u64) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    let values = match part {
        ["produce", _, "or", _, "new", values @ ..] | ["produce", _, values @ ..] => values,
        ["keyed", _, _, "or", _, "new", values @ ..] | ["keyed", _, _, values @ ..] => values,
        ["sent", _, _, _, _, values @ ..] => values,
        _ => return Vec::new(),
    };
    for value in values {
        let (value, time) = value.split_once('@').unwrap_or((value, ""));
        let time = time.parse().unwrap_or(time_ms as i64);
        builder.add(None, Some(value.as_bytes()), &[], time).unwrap();
    }
    let mut bytes = builder.finish().unwrap().bytes().to_vec();
    if let ["sent", id, epoch, sequence, ..] = part {
        bytes[43..51].copy_from_slice(&id.parse::<i64>().unwrap().to_be_bytes());
        bytes[51..53].copy_from_slice(&epoch.parse::<i16>().unwrap().to_be_bytes());
        bytes[53..57].copy_from_slice(&sequence.parse::<i32>().unwrap().to_be_bytes());
    }
    bytes
}

fn topic_of(topic: &str) -> TopicRef<'_> {
    let id = topic.strip_prefix('#').map(|id| TopicRef::Id(TopicId::new(id.parse().unwrap())));
    let outside = topic.strip_prefix('%').map(|number| TopicRef::Outside(number.parse().unwrap()));
    id.or(outside).unwrap_or(TopicRef::Name(topic))
}

fn partition_of(at: &str) -> (TopicRef<'_>, u32) {
    let (topic, partition) = at.rsplit_once('/').unwrap();
    (topic_of(topic), partition.parse().unwrap())
}

fn read(world: &World<Streams>, line: &str) -> Option<String> {
    let World { log, model } = world;
    let find = |at| match partition_of(at) {
        (TopicRef::Name(name), partition) => (model.topic_named(name).unwrap().id, partition),
        (TopicRef::Id(id), partition) => (id, partition),
        (TopicRef::Outside(number), partition) => (TopicId::outside(number), partition),
    };
    let list = |items: Vec<String>| if items.is_empty() { String::from("none") } else { items.join(", ") };
    Some(match line.split(' ').collect::<Vec<_>>()[..] {
        ["topics"] => list(model.topics().map(|t| format!("{}#{} of {}", t.name, t.id, t.partitions)).collect()),
        ["groups"] => list(model.groups().map(|g| format!("{}: {}", g.name, g.partitions)).collect()),
        ["settings", topic] => {
            let settings = model.topic_named(topic).unwrap().settings;
            let TopicSettings { retention_ms, retention_bytes, batch_bytes_max, compression, .. } = settings;
            let TopicSettings { cleanup, delete_retention_ms, .. } = settings;
            format!(
                "{retention_ms:?} {retention_bytes:?} {batch_bytes_max} {compression} {cleanup} {delete_retention_ms}"
            )
        }
        ["bytes", at] => {
            let (topic, partition) = find(at);
            model.partition_bytes(topic, partition).unwrap().to_string()
        }
        ["senders", at] => {
            let (topic, partition) = find(at);
            let senders = model.producers_of(topic, partition);
            list(senders.map(|s| format!("{} epoch {} up to {}", s.producer, s.epoch, s.last_sequence)).collect())
        }
        ["statics", group] => {
            list(model.static_members(group).map(|s| format!("{}={}", s.instance, s.member)).collect())
        }
        ["shares", group, topic] => {
            let topic = find(&format!("{topic}/0")).0;
            let shares = model.members(group, topic).map(|member| {
                let owned = model.share(group, topic, member.id).unwrap();
                let share: Vec<u32> = owned.map(|owned| owned.partition).collect();
                assert_eq!(share.len(), member.partitions);
                format!("{}: {share:?} to {}", member.id, member.until.as_millis())
            });
            list(shares.collect())
        }
        ["latest", at] => {
            let (topic, partition) = find(at);
            let hint = model.latest_batch(topic, partition);
            let found = model.partition(topic, partition).unwrap().latest_record(log, hint, &mut |_, _| None).unwrap();
            found.map_or(String::from("none"), |found| format!("{} of {}", found.offset, found.timestamp_ms))
        }
        ["committed", group] => {
            let committed = model.committed_by(group).map(|(topic, partition, committed)| {
                assert_eq!(model.committed(group, topic, partition), Some(committed));
                let (note, at) = (committed.metadata, committed.time.as_millis());
                format!("#{topic}/{partition} {} {note:?} {:?} at {at}", committed.number, committed.leader_epoch)
            });
            list(committed.collect())
        }
        ["offsets", at] => {
            let (topic, partition) = find(at);
            match model.offsets(log, topic, partition) {
                Ok(offsets) => format!("{}..{}", offsets.start, offsets.next),
                Err(error) => error.to_string(),
            }
        }
        ["fetch", at, from, bytes_max] => {
            let (topic, partition) = find(at);
            let from = Sequence::new(from.parse().unwrap());
            let mut seen = String::new();
            let fetched = model.fetch(log, topic, partition, from, bytes_max.parse().unwrap(), &mut |stored| {
                write!(seen, "{}:", stored.base_offset).unwrap();
                for record in stored.batch.records().unwrap().map(Result::unwrap) {
                    write!(seen, " {}", record.value.unwrap().escape_ascii()).unwrap();
                }
                seen += ", ";
                ControlFlow::Continue(())
            });
            match fetched {
                Ok(fetched) => format!("{seen}then {}", fetched.next_offset),
                Err(error) => error.to_string(),
            }
        }
        ["at", at, time] => {
            let (topic, partition) = find(at);
            let found = model.offset_at_time(log, topic, partition, time.parse().unwrap()).unwrap();
            found.map_or(String::from("none"), |found| format!("{} of {}", found.offset, found.timestamp_ms))
        }
        _ => return None,
    })
}
