//! The model, told in small scenarios. Each line is a commit (parts joined by ` + `) or a read; after every line the
//! state that a restart finds, wherever its checkpoint was taken, is held against the live one.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use quire_model::memory::World;
use quire_model::{Denied, Position, Sequence, Timestamp};
use quire_streams::wire::BatchBuilder;
use quire_streams::{Command, Reply, Streams, TopicId, TopicRef};

/// Runs a scenario and compares what it says, line by line.
///
/// ```text
/// create T N                     produce T/P [or N new] v v@ms ...      commit GROUP T/P OFFSET [note]
///                                keyed T KEY [or N new] v v@ms ...
/// topics   groups   committed G  offsets T/P   fetch T/P FROM BYTES_MAX   at T/P MS
/// ```
/// `#N` instead of a topic's name is its id. Records without a time have that of their commit: 1000 ms for the first.
#[track_caller]
fn check(scenario: &str, expect: &str) {
    let mut world = World::<Streams>::new();
    let mut said = String::new();
    for (number, line) in scenario.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        let time_ms = 1000 * (number as u64 + 1);
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
    let parts: Vec<Vec<&str>> = line.split(" + ").map(|part| part.split(' ').collect()).collect();
    let mut builders: Vec<BatchBuilder> = parts.iter().map(|part| batch(part, time_ms)).collect();
    let commands: Vec<Command<'_>> = parts
        .iter()
        .zip(&mut builders)
        .map(|(part, builder)| match part[..] {
            ["create", name, partitions] => Command::CreateTopic { name, partitions: partitions.parse().unwrap() },
            ["produce", at, ref rest @ ..] => {
                let (topic, partition) = partition_of(at);
                let create_partitions = (rest[0] == "or").then(|| rest[1].parse().unwrap());
                Command::Produce { topic, partition, batch: builder.finish().unwrap(), create_partitions }
            }
            ["keyed", topic, key, ref rest @ ..] => {
                let create_partitions = (rest[0] == "or").then(|| rest[1].parse().unwrap());
                let (topic, batch) = (TopicRef::Name(topic), builder.finish().unwrap());
                Command::ProduceByKey { topic, key: key.as_bytes(), batch, create_partitions }
            }
            ["commit", group, at, offset, ref note @ ..] => {
                let (topic, partition) = partition_of(at);
                let metadata = note.first().copied().unwrap_or("");
                let offset = Sequence::new(offset.parse().unwrap());
                let leader_epoch = (metadata == "epoch").then_some(5);
                Command::CommitOffset { group, topic, partition, offset, leader_epoch, metadata }
            }
            _ => panic!("a part of a commit, not {part:?}"),
        })
        .collect();
    match world.commit(Timestamp::from_millis(time_ms), &commands) {
        Ok(replies) => replies.iter().map(reply).collect::<Vec<_>>().join(" + "),
        Err(Denied::Refused { command, refusal }) => format!("refused {command}: {refusal}"),
        Err(Denied::Unreadable(error)) => panic!("memory is readable: {error}"),
    }
}

fn reply(reply: &Reply) -> String {
    match reply {
        Reply::TopicCreated(created) => format!("topic {} has {}", created.topic, created.partitions),
        Reply::Produced(p) => format!("#{}/{} {}..={}", p.topic, p.partition, p.base_offset, p.last_offset),
        Reply::OffsetCommitted(c) => format!("group {} at #{}/{}", c.group.get(), c.topic, c.partition),
    }
}

fn batch(part: &[&str], time_ms: u64) -> BatchBuilder {
    let mut builder = BatchBuilder::new();
    let values = match part {
        ["produce", _, "or", _, "new", values @ ..] | ["produce", _, values @ ..] => values,
        ["keyed", _, _, "or", _, "new", values @ ..] | ["keyed", _, _, values @ ..] => values,
        _ => &[],
    };
    for value in values {
        let (value, time) = value.split_once('@').unwrap_or((value, ""));
        let time = time.parse().unwrap_or(time_ms as i64);
        builder.add(None, Some(value.as_bytes()), &[], time).unwrap();
    }
    builder
}

fn partition_of(at: &str) -> (TopicRef<'_>, u32) {
    let (topic, partition) = at.rsplit_once('/').unwrap();
    let id = topic.strip_prefix('#').map(|id| TopicRef::Id(TopicId::new(id.parse().unwrap())));
    (id.unwrap_or(TopicRef::Name(topic)), partition.parse().unwrap())
}

fn read(world: &World<Streams>, line: &str) -> Option<String> {
    let World { log, model } = world;
    let find = |at| match partition_of(at) {
        (TopicRef::Name(name), partition) => (model.topic_named(name).unwrap().id, partition),
        (TopicRef::Id(id), partition) => (id, partition),
    };
    let list = |items: Vec<String>| if items.is_empty() { String::from("none") } else { items.join(", ") };
    Some(match line.split(' ').collect::<Vec<_>>()[..] {
        ["topics"] => list(model.topics().map(|t| format!("{}#{} of {}", t.name, t.id, t.partitions)).collect()),
        ["groups"] => list(model.groups().map(|g| format!("{}: {}", g.name, g.partitions)).collect()),
        ["committed", group] => {
            let committed = model.committed_by(group).map(|(topic, partition, committed)| {
                assert_eq!(model.committed(group, topic, partition), Some(committed));
                let (note, at) = (committed.metadata, committed.time.as_millis());
                format!("#{topic}/{partition} {} {note:?} {:?} at {at}", committed.offset, committed.leader_epoch)
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

#[test]
fn offsets_of_a_partition_are_dense_and_every_partition_has_its_own() {
    check(
        "create orders 2
         produce orders/0 a b
         produce orders/1 x
         produce orders/0 c
         offsets orders/0
         offsets orders/1
         fetch orders/0 0 100000
         fetch orders/1 0 100000",
        "topic 0 has 2
         #0/0 0..=1
         #0/1 0..=0
         #0/0 2..=2
         0..3
         0..1
         0: a b, 2: c, then 3
         0: x, then 1",
    );
}

#[test]
fn a_later_part_of_a_commit_sees_what_an_earlier_one_does() {
    check(
        "create a 2 + produce a/1 x y + produce a/1 z + commit g a/1 3 + commit g a/0 0
         produce b/0 or 3 new x + produce b/2 y + produce #1/2 z + create c 1
         create d 1 + create d 2
         topics
         groups",
        "topic 0 has 2 + #0/1 0..=1 + #0/1 2..=2 + group 0 at #0/1 + group 0 at #0/0
         #1/0 0..=0 + #1/2 0..=0 + #1/2 1..=1 + topic 2 has 1
         refused 1: the topic exists already (id 3, partitions: 1)
         a#0 of 2, b#1 of 3, c#2 of 1
         g: 2",
    );
}

#[test]
fn a_key_belongs_to_one_of_the_partitions_that_the_topic_has_when_the_commit_is_decided() {
    check(
        "create a 5 + keyed a foobar x
         keyed a foobar y + keyed b foobar or 1 new z
         keyed c foobar z",
        "topic 0 has 5 + #0/1 0..=0
         #0/1 1..=1 + #1/0 0..=0
         refused 0: there is no topic \"c\"",
    );
}

#[test]
fn a_refused_commit_leaves_nothing() {
    check(
        "produce a/0 or 1 new x + commit g a/0 1 + produce nowhere/0 y
         topics
         groups
         produce b/0 or 1 new x",
        "refused 2: there is no topic \"nowhere\"
         none
         none
         #0/0 0..=0",
    );
}

#[test]
fn topics_are_created_on_first_use_only_when_asked_to() {
    check(
        "produce a/0 x
         produce a/0 or 1 new x
         produce a/0 or 7 new y
         produce a/1 or 7 new z
         produce #4/0 or 1 new z
         commit g b/0 1
         topics",
        "refused 0: there is no topic \"a\"
         #0/0 0..=0
         #0/0 1..=1
         refused 0: topic 0 has 1 partitions, and none with number 1
         refused 0: there is no topic with id 4
         refused 0: there is no topic \"b\"
         a#0 of 1",
    );
}

#[test]
fn a_fetch_starts_at_the_batch_that_holds_the_offset_and_keeps_to_its_bytes() {
    // Each of these batches has 61 bytes and 8 a record.
    check(
        "produce a/0 or 1 new 0 1 2
         produce a/0 3
         produce a/0 4 5
         fetch a/0 0 1
         fetch a/0 0 153
         fetch a/0 0 154
         fetch a/0 2 1000
         fetch a/0 4 0
         fetch a/0 6 1000
         fetch a/0 7 1000
         fetch a/1 0 1000",
        "#0/0 0..=2
         #0/0 3..=3
         #0/0 4..=5
         0: 0 1 2, then 3
         0: 0 1 2, then 3
         0: 0 1 2, 3: 3, then 4
         0: 0 1 2, 3: 3, 4: 4 5, then 6
         4: 4 5, then 6
         then 6
         offset 7 is out of range: the partition holds 0 to 6, which is excluded
         topic 0 has 1 partitions, and none with number 1",
    );
}

#[test]
fn a_new_partition_is_empty_and_not_missing() {
    check(
        "create a 1
         offsets a/0
         fetch a/0 0 1000
         fetch a/0 1 1000
         at a/0 0
         offsets #3/0",
        "topic 0 has 1
         0..0
         then 0
         offset 1 is out of range: the partition holds 0 to 0, which is excluded
         none
         there is no topic with id 3",
    );
}

#[test]
fn a_time_finds_the_first_record_that_is_not_earlier() {
    check(
        "produce a/0 or 1 new p@100 q@300 r@200
         produce a/0 s@250 t@400
         at a/0 0
         at a/0 200
         at a/0 300
         at a/0 301
         at a/0 401",
        "#0/0 0..=2
         #0/0 3..=4
         0 of 100
         1 of 300
         1 of 300
         4 of 400
         none",
    );
}

#[test]
fn the_newest_offset_of_a_group_counts_even_when_it_goes_back() {
    check(
        "create a 2
         commit g a/0 5 first
         commit g a/0 2 epoch + commit g a/1 9 + commit h a/0 1
         committed g
         committed h
         committed nobody
         groups",
        "topic 0 has 2
         group 0 at #0/0
         group 0 at #0/0 + group 0 at #0/1 + group 1 at #0/0
         #0/0 2 \"epoch\" Some(5) at 3000, #0/1 9 \"\" None at 3000
         #0/0 1 \"\" None at 3000
         none
         g: 2, h: 1",
    );
}

#[test]
fn names_follow_kafkas_rule_and_groups_may_be_any_text() {
    let (longest, longer) = ("n".repeat(249), "n".repeat(250));
    let (longest_group, longer_group) = ("g".repeat(255), "g".repeat(256));
    check(
        &format!(
            "create A.b_c-9 1
             create . 1
             create .. 1
             create ... 1
             create a/b 1
             produce a/b/0 x
             produce é/0 or 1 new x
             create {longest} 1
             create {longer} 1
             commit größe/☃ #0/0 1
             commit {longest_group} #0/0 1
             commit {longer_group} #0/0 1
             commit  #0/0 1"
        ),
        "topic 0 has 1
         refused 0: no topic can have this name: `.` and `..` are reserved
         refused 0: no topic can have this name: `.` and `..` are reserved
         topic 1 has 1
         refused 0: no topic can have this name: it contains '/'; allowed are A-Z a-z 0-9 . _ -
         refused 0: no topic can have this name: it contains '/'; allowed are A-Z a-z 0-9 . _ -
         refused 0: no topic can have this name: it contains 'é'; allowed are A-Z a-z 0-9 . _ -
         topic 2 has 1
         refused 0: no topic can have this name: it has 250 bytes of at most 249
         group 0 at #0/0
         group 1 at #0/0
         refused 0: no consumer group can have this name: it has 256 bytes of at most 255
         refused 0: no consumer group can have this name: it is empty",
    );
}

#[test]
fn limits_are_kept_and_named() {
    let (longest, longer) = ("m".repeat(4096), "m".repeat(4097));
    check(
        &format!(
            "create a 100000
             create b 100001
             create c 0
             commit g a/0 1 {longest}
             commit g a/0 1 {longer}"
        ),
        "topic 0 has 100000
         refused 0: a topic has 1 to 100000 partitions, not 100001
         refused 0: a topic has 1 to 100000 partitions, not 0
         group 0 at #0/0
         refused 0: the metadata of an offset has at most 4096 bytes, not 4097",
    );
}
