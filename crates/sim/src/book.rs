//! The client-side state of a run: the ids and tokens that the database returned, which the naive
//! models do not know. It also converts parts of the naive models into commands.

use std::collections::BTreeMap;

use fastrand::Rng;
use quire::events::{self, EventId, EventPosition, NewEvent, PutSubscription, Query, QueryItem};
use quire::graph::{self, PutBlock, SetRetention, TrimHistory, Version};
use quire::jobs::{self, JobId, JobSpec, LeaseToken, Priority};
use quire::streams::{self, Cleanup, Committer, MemberId, OwnerEpoch, TopicChanges, TopicRef};
use quire::{Commit, Message, NewEdge, Position, Sequence, Timestamp};

use crate::naive::{Condition, Naive, NaivePayload, Part, Phase, Retry, Rival};

/// Names of topics, queues, subscriptions and groups.
pub(crate) const NAMES: [&str; 2] = ["one", "two"];
/// Names of stores. Kafka clients see stores as topics, so no topic has such a name.
pub(crate) const STORES: [&str; 2] = ["events/one", "events/two"];
pub(crate) const TAGS: [&str; 3] = ["red", "green", "blue"];
pub(crate) const BLOCKS: [&str; 5] = ["a", "b", "c", "d", "e"];
pub(crate) const GRAPH: &str = "graph";
/// Event ids for appends.
const EVENT_IDS: u8 = 6;
/// The seed of the parts about names that another object may have.
const RIVALS: u64 = 0x6e61_6d65;
const LEASE_MICROS: std::ops::Range<u64> = 1_000..30_000_000;
/// Retention times of messages and events, in milliseconds.
const KEPT_MS: std::ops::Range<u64> = 1..40_000;
const KEPT_BYTES: std::ops::Range<u64> = 1..3_000;
/// A topic with few messages meets its retention in bytes exactly; with more messages it may keep
/// some more.
const FEW_MESSAGES: usize = 50;
/// Lease durations of members.
const MEMBER_MS: std::ops::Range<u32> = 1..20_000;
/// How long a compacted topic keeps the deletion marker of a key.
const TOLD_MS: u64 = 5_000;
const KEYS: [&str; 3] = ["k", "key", "another"];

/// The client-side state; see the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book {
    /// By the number of the job.
    pub(crate) jobs: BTreeMap<usize, JobId>,
    /// By the number of the lease: the job, and the token.
    pub(crate) leases: BTreeMap<u64, (usize, LeaseToken)>,
    /// The last value given to any part.
    value: u64,
}

impl Book {
    /// Forgets lost commits: the database reuses their numbers for other items.
    pub(crate) fn roll_back(&mut self, naive: &Naive) {
        self.jobs.retain(|job, _| *job < naive.jobs.len());
        self.leases.retain(|lease, _| *lease <= naive.leases);
    }

    /// Draws the parts of a commit, most of which are valid.
    pub(crate) fn parts(&mut self, naive: &Naive, random: &mut Rng) -> Vec<Part> {
        let count = if random.bool() { 1 } else { random.usize(2..6) };
        let mut parts: Vec<_> = (0..count).map(|_| self.part(naive, random)).collect();
        // A subscription that ends and begins again in one commit would deliver the same events
        // again. The model could not distinguish the two deliveries.
        let is_subscription = |part: &Part| matches!(part, Part::Subscribe { .. } | Part::Unsubscribe { .. });
        let first = parts.iter().position(is_subscription);
        let mut index = 0..;
        parts.retain(|part| index.next() == first || !is_subscription(part));
        // Drawn from a separate random sequence, so that the other parts of a seed's run stay the
        // same.
        let mut random = Rng::with_seed(self.value ^ RIVALS);
        if random.u8(0..16) == 0 {
            let at = random.usize(0..=parts.len());
            parts.insert(at, rival(naive, &mut random));
        }
        parts
    }

    fn part(&mut self, naive: &Naive, random: &mut Rng) -> Part {
        self.value += 1;
        let value = self.value;
        let (name, tag) = (random.usize(0..NAMES.len()), random.usize(0..TAGS.len()));
        let block = random.usize(0..BLOCKS.len());
        match random.u8(0..46) {
            0..5 => {
                let condition = condition(naive, name, random);
                // An append with a condition.
                let events = random.usize(0..3).max(usize::from(condition.is_none()));
                Part::Append { store: name, tag, events, condition, value }
            }
            5..7 => {
                // One id always has the same event: another event would not be a repetition.
                let id = random.u8(0..EVENT_IDS);
                Part::AppendOnce { store: name, tag: usize::from(id) % TAGS.len(), id, value: id.into() }
            }
            7..10 => produce(naive, name, value),
            10..11 => {
                let group = random.usize(0..NAMES.len());
                Part::Offset { group, topic: name, offset: random.u64(0..100), by: None }
            }
            11..16 => {
                let run_at = (random.u8(0..4) == 0).then(|| naive.time + random.u64(0..10_000_000));
                let (priority, attempts_max) = (random.u8(0..3), random.u16(1..4));
                Part::Enqueue { queue: name, priority, attempts_max, run_at, value }
            }
            16..19 => {
                let queues = if random.bool() { vec![name] } else { vec![name, 1 - name] };
                Part::Fetch { queues, count: random.u32(1..4), lease_micros: random.u64(LEASE_MICROS) }
            }
            19..24 => self.end_of_lease(naive, random).unwrap_or_else(|| produce(naive, name, value)),
            24..27 => Part::PutBlock { block, must_be_new: random.u8(0..5) == 0, value },
            27..28 => Part::DeleteBlock { block },
            28..31 => Part::PutEdge { source: block, target: random.usize(0..BLOCKS.len()) },
            31 => Part::DeleteEdge { source: block, target: random.usize(0..BLOCKS.len()) },
            32 => {
                let (store, head) = (name, naive.stores.get(&name).map_or(0, |store| store.events.len() as u64));
                Part::Trim { store, up_to: random.u64(0..=head).saturating_sub(random.u64(0..4)) }
            }
            33 => Part::Forget { store: name, tag },
            34 => {
                let next = naive.topics.get(&name).map_or(0, |topic| topic.messages.len() as u64);
                let before = (random.u8(0..4) > 0).then(|| random.u64(0..=next).saturating_sub(random.u64(0..3)));
                Part::DeleteRecords { topic: name, before, keep_unread: random.bool() }
            }
            35 => {
                let kept_ms = (random.u8(0..4) > 0).then(|| random.u64(KEPT_MS));
                let of_events = random.bool();
                if of_events {
                    Part::KeepEvents { store: name, kept_ms }
                } else {
                    Part::KeepMessages { topic: name, kept_ms }
                }
            }
            36 => Part::Protect { group: random.usize(0..NAMES.len()), topic: name, protects: random.u8(0..3) > 0 },
            37..40 => member(naive, random.usize(0..NAMES.len()), name, random),
            40..42 => subscription(naive, name, tag, random),
            42 if naive.topics.get(&name).is_some_and(|topic| topic.messages.len() < FEW_MESSAGES) => {
                // One topic has a retention in bytes, the other keeps the newest message of each
                // key.
                match name {
                    0 => Part::KeepBytes { topic: 0, kept_bytes: Some(random.u64(KEPT_BYTES)) },
                    _ => Part::CompactKeys { topic: name },
                }
            }
            42 => produce(naive, name, value),
            43 => {
                let kept_ms = (random.u8(0..4) > 0).then(|| random.u64(KEPT_MS));
                Part::KeepGraph { kept_ms, versions: random.u64(0..4) }
            }
            // Sometimes a future one.
            44 => Part::TrimGraph { from: (naive.records + 2).saturating_sub(random.u64(0..9)) },
            _ => {
                let job = random.choice(self.jobs.keys().copied().collect::<Vec<_>>());
                match job {
                    // Draws mostly valid parts.
                    Some(job) if naive.jobs[job].phase == Phase::Dead || random.u8(0..8) == 0 => Part::Revive { job },
                    Some(job) => Part::Cancel { job },
                    None => produce(naive, name, value),
                }
            }
        }
    }

    /// What a worker does with a job, with its current or an earlier lease.
    fn end_of_lease(&self, naive: &Naive, random: &mut Rng) -> Option<Part> {
        let holds = |lease: u64, job: usize| matches!(naive.jobs[job].phase, Phase::Active { lease: held, deadline } if held == lease && deadline > naive.time);
        let stale = random.u8(0..4) == 0;
        let known = self.leases.iter().filter(|(_, (job, _))| self.jobs.contains_key(job));
        let wanted: Vec<_> = known.filter(|(lease, (job, _))| stale || holds(**lease, *job)).collect();
        let (lease, (job, _)) = random.choice(wanted)?;
        let (lease, job) = (*lease, *job);
        Some(match random.u8(0..9) {
            8 => {
                let until = (naive.time + random.u64(0..5_000_000)).saturating_sub(1_000_000);
                Part::Snooze { job, lease, until }
            }
            0..5 => Part::Ack { job, lease },
            5 => Part::Fail { job, lease, retry: Retry::Never },
            6 => Part::Fail { job, lease, retry: Retry::At(naive.time + random.u64(0..5_000_000)) },
            _ => Part::Heartbeat { job, lease, lease_micros: random.u64(LEASE_MICROS) },
        })
    }

    /// Builds the commit of these parts with these texts.
    pub(crate) fn commit<'c>(&self, parts: &'c [Part], texts: &'c [String], queues: &'c [Vec<&'c str>]) -> Commit<'c> {
        let texts = texts.iter().zip(queues);
        parts.iter().zip(texts).fold(Commit::new(), |commit, (part, (text, queues))| match *part {
            Part::Append { store, tag, events, ref condition, .. } => {
                let events = (0..events).map(|_| NewEvent::new("Made").tag(TAGS[tag]).data(text));
                let query = |tag: usize| Query::from(QueryItem::new().tag(TAGS[tag]));
                let condition = condition.as_ref().map(|condition| match *condition {
                    Condition::NoneWith { tag, after } => {
                        events::Condition::fail_if_matches_after(query(tag), EventPosition::new(after))
                    }
                    Condition::LastIs { tag, position } => {
                        events::Condition::last_is(query(tag), EventPosition::new(position))
                    }
                });
                commit.append_if(STORES[store], events, condition)
            }
            Part::AppendOnce { store, tag, id, .. } => {
                let event = NewEvent::new("Made").tag(TAGS[tag]).data(text).id(event_id(id));
                commit.append(STORES[store], [event])
            }
            Part::Trim { store, up_to } => commit.part(quire::Part::Events(events::Command::Trim {
                store: STORES[store],
                up_to: EventPosition::new(up_to),
            })),
            Part::Forget { store, tag } => commit
                .part(quire::Part::Events(events::Command::Forget { store: STORES[store], tag: TAGS[tag].as_bytes() })),
            Part::KeepEvents { store, kept_ms } => commit.part(quire::Part::Events(events::Command::SetRetention {
                store: STORES[store],
                retention_ms: kept_ms,
            })),
            Part::Subscribe { name, store, tag, after } => {
                commit.part(quire::Part::Events(events::Command::PutSubscription(PutSubscription {
                    store: STORES[store],
                    name: NAMES[name],
                    query: Query::from(QueryItem::new().tag(TAGS[tag])),
                    after: after.map(EventPosition::new),
                    attempts: events::Attempts::default(),
                })))
            }
            Part::Unsubscribe { name } => {
                commit.part(quire::Part::Events(events::Command::DropSubscription { name: NAMES[name] }))
            }
            Part::Deliver { .. } => unreachable!("no client delivers"),
            Part::Produce { topic, value } => {
                let message = if is_tombstone(value) { Message::tombstone() } else { Message::new(text) };
                commit.produce(NAMES[topic], message.key(key(value)))
            }
            Part::CreateRival { rival } => commit.part(quire::Part::Streams(streams::Command::CreateTopic {
                name: rival_topic(rival),
                partitions: 1,
                settings: streams::TopicSettings::default(),
            })),
            Part::DeleteRival { rival } => {
                let topic = TopicRef::Name(rival_topic(rival));
                commit.part(quire::Part::Streams(streams::Command::DeleteTopic { topic }))
            }
            Part::KeepBytes { topic, kept_bytes } => {
                let changes = TopicChanges { retention_bytes: Some(kept_bytes), ..TopicChanges::default() };
                commit.part(alter(topic, changes))
            }
            Part::CompactKeys { topic } => {
                let cleanup = Some(Cleanup::Compact);
                let changes = TopicChanges { cleanup, delete_retention_ms: Some(TOLD_MS), ..TopicChanges::default() };
                commit.part(alter(topic, changes))
            }
            Part::Join { group, topic, name, lease_ms } => {
                commit.part(quire::Part::Streams(streams::Command::JoinGroup {
                    group: NAMES[group],
                    topic: TopicRef::Name(NAMES[topic]),
                    name: name.map_or("", |name| NAMES[name]),
                    lease_ms,
                }))
            }
            Part::Renew { group, topic, member } => commit.part(quire::Part::Streams(streams::Command::RenewMember {
                group: NAMES[group],
                topic: TopicRef::Name(NAMES[topic]),
                member: MemberId::new(member),
            })),
            Part::Leave { group, topic, member } => commit.part(quire::Part::Streams(streams::Command::LeaveGroup {
                group: NAMES[group],
                topic: TopicRef::Name(NAMES[topic]),
                member: MemberId::new(member),
            })),
            Part::DeleteRecords { topic, before, keep_unread } => {
                commit.part(quire::Part::Streams(streams::Command::DeleteRecords {
                    keep_unread,
                    topic: TopicRef::Name(NAMES[topic]),
                    partition: 0,
                    before: before.map(Sequence::new),
                }))
            }
            Part::KeepMessages { topic, kept_ms } => {
                commit.part(alter(topic, TopicChanges { retention_ms: Some(kept_ms), ..TopicChanges::default() }))
            }
            Part::Protect { group, topic, protects } => {
                commit.part(quire::Part::Streams(streams::Command::ProtectUnread {
                    group: NAMES[group],
                    topic: TopicRef::Name(NAMES[topic]),
                    protects,
                }))
            }
            Part::Offset { group, topic, offset, by: None } => {
                commit.commit_offset(NAMES[group], NAMES[topic], 0, Sequence::new(offset))
            }
            Part::Offset { group, topic, offset, by: Some((member, since)) } => {
                commit.part(quire::Part::Streams(streams::Command::CommitOffset {
                    group: NAMES[group],
                    topic: TopicRef::Name(NAMES[topic]),
                    partition: 0,
                    offset: Sequence::new(offset),
                    leader_epoch: None,
                    metadata: "",
                    by: Committer::Member { member: MemberId::new(member), epoch: OwnerEpoch::new(since) },
                }))
            }
            Part::Enqueue { queue, priority, attempts_max, run_at, .. } => {
                let (priority, run_at) = (Priority::new(priority), run_at.map(Timestamp::from_micros));
                commit
                    .enqueue(NAMES[queue], JobSpec { priority, attempts_max, run_at, ..JobSpec::new(text.as_bytes()) })
            }
            Part::Fetch { count, lease_micros, .. } => commit.part(quire::Part::Jobs(jobs::Command::Fetch {
                queues,
                order: jobs::Order::Strict,
                count,
                lease_micros,
                worker: "worker",
            })),
            Part::Ack { job, lease } => commit.ack(self.jobs[&job], self.leases[&lease].1, b""),
            Part::Fail { job, lease, retry } => {
                let retry = match retry {
                    Retry::At(time) => jobs::Retry::At(Timestamp::from_micros(time)),
                    Retry::Never => jobs::Retry::Never,
                };
                commit.fail(self.jobs[&job], self.leases[&lease].1, "as it was to be", retry)
            }
            Part::Snooze { job, lease, until } => {
                let (job, token) = (self.jobs[&job], self.leases[&lease].1);
                let until = Timestamp::from_micros(until);
                commit.part(quire::Part::Jobs(jobs::Command::Snooze { job, token, until }))
            }
            Part::Cancel { job } => {
                let (job, change) = (self.jobs[&job], jobs::Change::Cancel { reason: "not wanted" });
                commit.part(quire::Part::Jobs(jobs::Command::Change { job, change }))
            }
            Part::Revive { job } => {
                let (job, change) = (self.jobs[&job], jobs::Change::Retry { payload: None });
                commit.part(quire::Part::Jobs(jobs::Command::Change { job, change }))
            }
            Part::Heartbeat { job, lease, lease_micros } => {
                let (job, token) = (self.jobs[&job], self.leases[&lease].1);
                commit.part(quire::Part::Jobs(jobs::Command::Heartbeat {
                    job,
                    token,
                    lease_micros: Some(lease_micros),
                    progress: None,
                    checkpoint: None,
                }))
            }
            Part::PutBlock { block, must_be_new, .. } => commit.part(graph::Command::PutBlock(PutBlock {
                content: text.as_bytes(),
                expect: must_be_new.then_some(Version::ABSENT),
                ..PutBlock::new(GRAPH, BLOCKS[block], "thing")
            })),
            Part::DeleteBlock { block } => commit.delete_block(GRAPH, BLOCKS[block]),
            Part::PutEdge { source, target } => {
                commit.put_edge(GRAPH, NewEdge::new(BLOCKS[source], "knows", BLOCKS[target]))
            }
            Part::DeleteEdge { source, target } => commit.delete_edge(GRAPH, BLOCKS[source], "knows", BLOCKS[target]),
            Part::KeepGraph { kept_ms: history_ms, versions } => {
                let retention = graph::Retention { history_ms, versions };
                commit.part(quire::Part::Graph(graph::Command::SetRetention(SetRetention { graph: GRAPH, retention })))
            }
            Part::TrimGraph { from } => {
                let trim = TrimHistory { graph: GRAPH, from: Position::new(from) };
                commit.part(quire::Part::Graph(graph::Command::TrimHistory(trim)))
            }
        })
    }
}

fn alter<'c>(topic: usize, changes: TopicChanges) -> quire::Part<'c> {
    quire::Part::Streams(streams::Command::AlterTopic { topic: TopicRef::Name(NAMES[topic]), changes })
}

/// The topic name of an object.
pub(crate) fn rival_topic(of: Rival) -> &'static str {
    match of {
        Rival::Store(store) => ["events.one", "events.two"][store],
        Rival::Queue(queue) => ["jobs.one", "jobs.two"][queue],
    }
}

/// A topic that takes the name of another object, or ends.
fn rival(naive: &Naive, random: &mut Rng) -> Part {
    let of = random.usize(0..NAMES.len());
    let rival = if random.bool() { Rival::Store(of) } else { Rival::Queue(of) };
    let ends = naive.rivals.contains(&rival) && random.u8(0..4) > 0;
    if ends { Part::DeleteRival { rival } } else { Part::CreateRival { rival } }
}

/// A message, unless the topic would exceed its limit of messages.
fn produce(naive: &Naive, topic: usize, value: u64) -> Part {
    let full = |topic: &crate::naive::Topic| topic.kept_bytes.is_some() && topic.messages.len() >= FEW_MESSAGES;
    match naive.topics.get(&topic).is_some_and(full) {
        true => Part::KeepBytes { topic, kept_bytes: None },
        false => Part::Produce { topic, value },
    }
}

/// Commands of members of a group, and of former members.
fn member(naive: &Naive, group: usize, topic: usize, random: &mut Rng) -> Part {
    let member = random.u64(0..=naive.members);
    let reader = naive.rosters.get(&(group, topic)).and_then(|roster| roster.reader);
    match random.u8(0..9) {
        0..3 => {
            let name = random.bool().then(|| random.usize(0..NAMES.len()));
            Part::Join { group, topic, name, lease_ms: random.u32(MEMBER_MS) }
        }
        3 => Part::Leave { group, topic, member },
        4 => Part::Renew { group, topic, member },
        5 => Part::Renew { group, topic, member: reader.map_or(member, |(reader, _)| reader) },
        choice => {
            let (reader, since) = reader.unwrap_or((member, 1));
            // Sometimes another member, or an earlier membership.
            let by = match choice {
                6 if random.bool() => (member, since),
                6 => (reader, since.saturating_sub(1)),
                _ => (reader, since),
            };
            Part::Offset { group, topic, offset: random.u64(0..100), by: Some(by) }
        }
    }
}

/// A change of a named subscription: no subscription delivers an event twice.
fn subscription(naive: &Naive, name: usize, tag: usize, random: &mut Rng) -> Part {
    let there = naive.subscriptions.get(&name);
    let head = |store: usize| naive.stores.get(&store).map_or(0, |store| store.events.len() as u64);
    match there {
        Some(_) if random.u8(0..4) == 0 => Part::Unsubscribe { name },
        Some(there) => Part::Subscribe { name, store: there.store, tag, after: None },
        None => {
            let store = random.usize(0..NAMES.len());
            let after = naive.subscribed.contains(&name).then(|| head(store));
            Part::Subscribe { name, store, tag, after }
        }
    }
}

fn condition(naive: &Naive, store: usize, random: &mut Rng) -> Option<Condition> {
    let tag = random.usize(0..TAGS.len());
    let head = naive.stores.get(&store).map_or(0, |store| store.events.len()) as u64;
    match random.u8(0..6) {
        0..3 => None,
        3 => Some(Condition::NoneWith { tag, after: random.u64(0..=head) }),
        4 => Some(Condition::NoneWith { tag, after: head }),
        _ => Some(Condition::LastIs { tag, position: random.u64(0..=head) }),
    }
}

/// The bytes for a value: each value has its own length, so that records end at varying offsets.
pub(crate) fn text(value: u64) -> String {
    let length = usize::try_from(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).expect("a byte");
    // Few are long.
    let length = if value.is_multiple_of(7) { length * 3 } else { length / 4 };
    format!("{value}:{}", "x".repeat(length))
}

/// The key of the message with this value.
pub(crate) fn key(value: u64) -> &'static str {
    KEYS[usize::try_from(value % 3).expect("small")]
}

fn is_tombstone(value: u64) -> bool {
    value % 5 == 2
}

/// The value in a message; `None` for a deletion marker.
pub(crate) fn message(value: u64) -> Option<String> {
    (!is_tombstone(value)).then(|| text(value))
}

/// The payload of a job.
pub(crate) fn payload(carries: NaivePayload) -> String {
    match carries {
        NaivePayload::Value(value) => text(value),
        NaivePayload::Event { store, position } => {
            let position = EventPosition::new(position);
            quire::EventRef { store: STORES[store].to_owned(), position }.to_string()
        }
    }
}

/// The value of a part that has one.
pub(crate) fn value_of(part: &Part) -> u64 {
    match *part {
        Part::Append { value, .. }
        | Part::AppendOnce { value, .. }
        | Part::Produce { value, .. }
        | Part::Enqueue { value, .. }
        | Part::PutBlock { value, .. } => value,
        _ => 0,
    }
}

/// The text of an idempotency key.
pub(crate) fn key_text(key: u64) -> String {
    format!("key-{key}")
}

/// Whether a part changes a subscription. No event may be delivered twice, so it is not repeated.
pub(crate) fn is_of_subscription(part: &Part) -> bool {
    matches!(part, Part::Subscribe { .. } | Part::Unsubscribe { .. })
}

/// Whether a part of an earlier commit may be decided again: it names no job, whose number may
/// belong to another one after a crash; no condition is beyond the store, which a crash may have
/// shortened; no two jobs have one value, by which their ids are found after a crash; and no topic
/// gets too many messages.
pub(crate) fn may_be_repeated(part: &Part, naive: &Naive) -> bool {
    match part {
        Part::Ack { .. }
        | Part::Fail { .. }
        | Part::Heartbeat { .. }
        | Part::Snooze { .. }
        | Part::Cancel { .. }
        | Part::Revive { .. } => false,
        Part::Append { store, condition: Some(Condition::NoneWith { after, .. }), .. } => {
            *after <= naive.stores.get(store).map_or(0, |store| store.events.len() as u64)
        }
        Part::Enqueue { value, .. } => {
            !naive.jobs.iter().any(|job| matches!(job.carries, NaivePayload::Value(known) if known == *value))
        }
        Part::Produce { topic, .. } | Part::KeepBytes { topic, .. } => {
            naive.topics.get(topic).is_none_or(|topic| topic.messages.len() < FEW_MESSAGES)
        }
        part => !is_of_subscription(part),
    }
}

/// The names of the queues of a part.
pub(crate) fn queues_of(part: &Part) -> Vec<&'static str> {
    match part {
        Part::Fetch { queues, .. } => queues.iter().map(|queue| NAMES[*queue]).collect(),
        _ => Vec::new(),
    }
}

pub(crate) fn event_id(id: u8) -> EventId {
    EventId::from_bytes([id + 1; 16])
}
