//! Random commits against a naive broker: a vector of values a partition, a map of offsets a group.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;
use quire_model::memory::World;
use quire_model::{Position, Sequence, Timestamp};
use quire_streams::wire::BatchBuilder;
use quire_streams::{Command, Committer, Reply, Streams, TopicRef, TopicSettings};

const TOPICS: [&str; 3] = ["a", "b", "c"];
const GROUPS: [&str; 2] = ["g", "h"];
/// Partitions that a topic is created with.
const PARTITIONS: u32 = 2;

/// A part of a commit; `partition` may be one too high.
#[derive(Debug, Clone)]
enum Part {
    Create { topic: usize },
    Produce { topic: usize, partition: u32, values: Vec<u8>, create: bool },
    Commit { group: usize, topic: usize, partition: u32, offset: u64 },
}

fn part() -> impl Strategy<Value = Part> {
    let (topic, partition) = (0..TOPICS.len(), 0..=PARTITIONS);
    let values = prop::collection::vec(any::<u8>(), 1..5);
    prop_oneof![
        1 => topic.clone().prop_map(|topic| Part::Create { topic }),
        6 => (topic.clone(), 0..PARTITIONS, values, prop::bool::weighted(0.8))
            .prop_map(|(topic, partition, values, create)| Part::Produce { topic, partition, values, create }),
        3 => (0..GROUPS.len(), topic, partition, 0..20u64)
            .prop_map(|(group, topic, partition, offset)| Part::Commit { group, topic, partition, offset }),
    ]
}

/// The state of a broker.
#[derive(Debug, Clone, Default, PartialEq)]
struct Naive {
    topics: BTreeMap<usize, Vec<Vec<u8>>>,
    offsets: BTreeMap<(usize, usize, u32), u64>,
}

impl Naive {
    /// Applies a part; `None` when the part must be refused.
    fn take(&mut self, part: &Part) -> Option<()> {
        let empty = || vec![Vec::new(); PARTITIONS as usize];
        match part {
            Part::Create { topic } => self.topics.insert(*topic, empty()).is_none().then_some(()),
            Part::Produce { topic, partition, values, create } => {
                if *create {
                    self.topics.entry(*topic).or_insert_with(empty);
                }
                self.topics.get_mut(topic)?.get_mut(*partition as usize)?.extend(values);
                Some(())
            }
            Part::Commit { group, topic, partition, offset } => {
                self.topics.get(topic)?.get(*partition as usize)?;
                self.offsets.insert((*group, *topic, *partition), *offset);
                Some(())
            }
        }
    }
}

fn commit(world: &mut World<Streams>, parts: &[Part]) -> Option<Vec<Reply>> {
    let mut builders = vec![BatchBuilder::new(); parts.len()];
    let commands: Vec<_> = parts
        .iter()
        .zip(&mut builders)
        .map(|(part, builder)| match part {
            Part::Create { topic } => Command::CreateTopic {
                name: TOPICS[*topic],
                partitions: PARTITIONS,
                settings: TopicSettings::default(),
            },
            Part::Produce { topic, partition, values, create } => {
                for value in values {
                    builder.add(None, Some(&[*value]), &[], 0).unwrap();
                }
                Command::Produce {
                    topic: TopicRef::Name(TOPICS[*topic]),
                    partition: *partition,
                    batch: builder.finish().unwrap(),
                    create_partitions: create.then_some(PARTITIONS),
                }
            }
            Part::Commit { group, topic, partition, offset } => Command::CommitOffset {
                group: GROUPS[*group],
                topic: TopicRef::Name(TOPICS[*topic]),
                partition: *partition,
                offset: Sequence::new(*offset),
                leader_epoch: None,
                metadata: "",
                by: Committer::Anyone,
            },
        })
        .collect();
    world.commit(Timestamp::ZERO, &commands).ok()
}

/// The values of a partition from an offset on, read in small pieces.
fn values(world: &World<Streams>, topic: &str, partition: u32, from: u64) -> Vec<u8> {
    let topic = world.model.topic_named(topic).unwrap().id;
    let (mut values, mut next) = (Vec::new(), Sequence::new(from));
    loop {
        let mut visit = |stored: quire_streams::StoredBatch<'_>| {
            for record in stored.batch.records().unwrap().map(Result::unwrap) {
                if stored.base_offset.get() + u64::from(record.offset_delta) >= from {
                    values.extend(record.value.unwrap());
                }
            }
            ControlFlow::Continue(())
        };
        let fetched = world.model.fetch(&world.log, topic, partition, next, 200, &mut visit).unwrap();
        if fetched.bytes == 0 {
            return values;
        }
        next = fetched.next_offset;
    }
}

proptest! {
    #[test]
    fn streams_do_what_a_naive_broker_does(
        commits in prop::collection::vec(prop::collection::vec(part(), 1..4), 1..25),
        from in 0usize..30,
    ) {
        let mut world = World::<Streams>::new();
        let mut naive = Naive::default();
        for parts in &commits {
            let mut after = naive.clone();
            let accepted = parts.iter().try_for_each(|part| after.take(part)).is_some();
            let replies = commit(&mut world, parts);
            prop_assert_eq!(replies.is_some(), accepted, "{:?}", parts);
            if accepted {
                naive = after;
            }
        }
        prop_assert_eq!(world.model.topics().count(), naive.topics.len());
        for (topic, partitions) in &naive.topics {
            for (partition, expected) in partitions.iter().enumerate() {
                let from = from.min(expected.len());
                let found = values(&world, TOPICS[*topic], partition as u32, from as u64);
                prop_assert_eq!(&found, &expected[from..]);
            }
        }
        let committed = GROUPS.iter().map(|group| world.model.committed_by(group).count()).sum::<usize>();
        prop_assert_eq!(committed, naive.offsets.len());
        for ((group, topic, partition), offset) in &naive.offsets {
            let topic = world.model.topic_named(TOPICS[*topic]).unwrap().id;
            let committed = world.model.committed(GROUPS[*group], topic, *partition).unwrap();
            prop_assert_eq!(committed.offset, Some(Sequence::new(*offset)));
        }
        for position in 0..=world.log.tail().get() {
            let restarted = world.restarted(Position::new(position));
            prop_assert_eq!(World::saved(&restarted), World::saved(&world.model));
        }
    }

    #[test]
    fn a_damaged_checkpoint_is_refused_or_read_but_never_a_panic(
        commits in prop::collection::vec(prop::collection::vec(part(), 1..4), 1..10),
        at: prop::sample::Index,
        byte: u8,
        cut: prop::sample::Index,
    ) {
        use quire_model::{Model as _, codec::Decoder};
        let mut world = World::<Streams>::new();
        for parts in &commits {
            commit(&mut world, parts);
        }
        let mut bytes = World::saved(&world.model);
        let whole = bytes.len();
        prop_assert!(Streams::load(&mut Decoder::new(&bytes[..cut.index(whole)])).is_err());
        bytes[at.index(whole)] = byte;
        let _ = Streams::load(&mut Decoder::new(&bytes));
    }
}
