//! Random commits: each part in the form of HTTP, of gRPC and of Rust.
//!
//! Names come from small pools with invalid ones in them, so that parts meet each other and are
//! often refused. Jobs and leases are those of earlier replies, or unknown ones.

use quire::events::{self, Condition, EventPosition, NewEvent, Query, QueryItem};
use quire::graph::{self, Version};
use quire::jobs::{
    self, Change, JobId, JobSpec, LeaseToken, Order, QueueChange, Retry, Unique, UniqueHold, UniqueScope,
};
use quire::streams::{self, Committer, Despite, TopicRef};
use quire::{Message, Part, Position, Sequence, Timestamp};
use quire_grpc::proto::block_ref::Ref;
use quire_grpc::proto::commit_part::{
    AppendPart, DropProjectionPart, EachPart, FetchPart, GraphPart, Kind, ProducePart, SaveProjectionPart, TickPart,
    UpstreamPart,
};
use quire_grpc::proto::event_condition::{FailIfEventsMatch, Kind as ConditionKind, LastIs};
use quire_grpc::proto::job_report::{Ack, Fail, Heartbeat, Snooze, What, fail};
use quire_grpc::proto::*;
use serde_json::{Value, json};

const STORES: [&str; 3] = ["s", "t", "a\nb"];
const TAGS: [&str; 3] = ["a:1", "a:2", "b:1"];
const TYPES: [&str; 3] = ["Made", "Changed", ""];
const TOPICS: [&str; 4] = ["x", "y", "z", "no topic"];
const GROUPS: [&str; 2] = ["g", "h"];
const QUEUES: [&str; 3] = ["p", "q", "a\nb"];
const GRAPHS: [&str; 2] = ["m", "n"];
const BLOCKS: [&str; 3] = ["one", "two", "three"];
const METADATA: [&str; 3] = ["", r#"{"line":1}"#, "{"];

/// A part in each form. `part` is `None` for a part that is invalid in its form.
#[derive(Debug, Clone)]
pub(crate) struct PartForms {
    pub(crate) json: Value,
    pub(crate) message: Kind,
    pub(crate) part: Option<Part<'static>>,
}

/// Makes commits.
pub(crate) struct Generator {
    random: u64,
    jobs: Vec<String>,
    leases: Vec<(String, String)>,
}

/// A value that lives as long as the test.
fn leaked<T>(values: Vec<T>) -> &'static [T] {
    Vec::leak(values)
}

fn text(text: &str) -> String {
    text.to_owned()
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Generator { random: seed, jobs: vec![text("999-0")], leases: vec![(text("999-0"), text("999-1"))] }
    }

    /// A number below `bound` (SplitMix64, Steele et al. 2014).
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    /// One of these, more often the first ones.
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        let (one, other) = (self.below(of.len()), self.below(of.len()));
        of[one.min(other)]
    }

    fn rarely(&mut self) -> bool {
        self.below(12) == 0
    }

    /// Notes the jobs and the leases of a reply.
    pub(crate) fn learn(&mut self, reply: &Value) {
        let of = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
        for reply in reply["replies"].as_array().expect("replies") {
            self.jobs.extend(of(&reply["enqueued"], "job"));
            for job in reply.pointer("/fetched/jobs").and_then(Value::as_array).into_iter().flatten() {
                self.leases.extend(of(job, "job").zip(of(job, "token")));
            }
        }
    }

    /// A commit of one to four parts.
    pub(crate) fn commit(&mut self) -> Vec<PartForms> {
        (0..=self.below(4)).map(|_| self.part()).collect()
    }

    fn part(&mut self) -> PartForms {
        match self.below(12) {
            0 | 1 => self.append(),
            2 => self.of_store(),
            3 | 4 => self.of_topic(),
            5 => self.of_group(),
            6..=8 => self.of_queue(),
            9 => self.each(),
            _ => self.of_graph(),
        }
    }

    fn append(&mut self) -> PartForms {
        let store = self.one(&STORES);
        let given: Vec<(&str, &str)> = (0..self.below(3)).map(|_| (self.one(&TYPES), self.one(&TAGS))).collect();
        let after = self.below(4) as u64;
        let tag = self.one(&TAGS);
        let which = self.below(3);
        let json_events: Vec<_> =
            given.iter().map(|(kind, tag)| json!({"type": kind, "tags": [tag], "data_text": "d"})).collect();
        let proto_events = given.iter().map(|(kind, tag)| quire_grpc::proto::NewEvent {
            r#type: text(kind),
            tags: vec![tag.as_bytes().into()],
            data: "d".into(),
            ..Default::default()
        });
        let events = given.iter().map(|(kind, tag)| NewEvent::new(*kind).tag(*tag).data(&b"d"[..])).collect();
        let items = json!([{"tags": [tag]}]);
        let query = || {
            let item = EventQueryItem { tags: vec![tag.as_bytes().into()], ..EventQueryItem::default() };
            Some(EventQuery { items: vec![item] })
        };
        let of_rust = || Query::from(QueryItem::new().tag(tag));
        let (json_conditions, kinds, conditions) = match which {
            0 => (json!([]), Vec::new(), Vec::new()),
            1 => (
                json!([{"fail_if_events_match": {"items": items}, "after": after}]),
                vec![ConditionKind::FailIfEventsMatch(FailIfEventsMatch { query: query(), after })],
                vec![Condition::fail_if_matches_after(of_rust(), EventPosition::new(after))],
            ),
            _ => (
                json!([{"last_is": {"items": items, "position": after}}]),
                vec![ConditionKind::LastIs(LastIs { query: query(), position: after })],
                vec![Condition::last_is(of_rust(), EventPosition::new(after))],
            ),
        };
        let append = AppendPart {
            store: text(store),
            events: proto_events.collect(),
            conditions: kinds.into_iter().map(|kind| EventCondition { kind: Some(kind) }).collect(),
        };
        PartForms {
            json: json!({"append": {"store": store, "events": json_events, "conditions": json_conditions}}),
            message: Kind::Append(Box::new(append)),
            part: Some(Part::Events(events::Command::Append(events::Append { store, events, conditions }))),
        }
    }

    fn of_store(&mut self) -> PartForms {
        let store = self.one(&STORES);
        let position = self.below(6) as u64;
        let (json, message, command) = match self.below(6) {
            0 => (
                json!({"upstream": {"store": store, "source": "topic", "position": position}}),
                Kind::Upstream(Box::new(UpstreamPart { store: text(store), source: text("topic"), position })),
                events::Command::Upstream(events::Upstream { store, source: "topic", position }),
            ),
            1 => {
                let (name, base) = ("p", self.below(3) as u64);
                let save = SaveProjectionPart {
                    store: text(store),
                    name: text(name),
                    version: 1,
                    base,
                    position,
                    state: "x".into(),
                };
                let command = events::SaveProjection {
                    store,
                    name,
                    version: 1,
                    base: EventPosition::new(base),
                    position: EventPosition::new(position),
                    state: b"x",
                };
                let fields = json!({"store": store, "name": name, "version": 1, "base": base, "position": position,
                    "state_text": "x"});
                (
                    json!({"save_projection": fields}),
                    Kind::SaveProjection(Box::new(save)),
                    events::Command::SaveProjection(command),
                )
            }
            2 => (
                json!({"drop_projection": {"store": store, "name": "p"}}),
                Kind::DropProjection(Box::new(DropProjectionPart { store: text(store), name: text("p") })),
                events::Command::DropProjection { store, name: "p" },
            ),
            3 => {
                let which = Some(forget_events_request::Which::UpTo(position));
                (
                    json!({"trim_events": {"store": store, "up_to": position}}),
                    Kind::Forget(Box::new(ForgetEventsRequest { store: text(store), which })),
                    events::Command::Trim { store, up_to: EventPosition::new(position) },
                )
            }
            4 => {
                let tag = self.one(&TAGS);
                let which = Some(forget_events_request::Which::Tag(tag.as_bytes().into()));
                (
                    json!({"forget_tag": {"store": store, "tag": tag}}),
                    Kind::Forget(Box::new(ForgetEventsRequest { store: text(store), which })),
                    events::Command::Forget { store, tag: tag.as_bytes() },
                )
            }
            _ => {
                let attempts_max = self.one(&[3_u16, 0]);
                let subscription = NamedSubscription {
                    name: text("mailer"),
                    attempts_max: Some(attempts_max.into()),
                    ..NamedSubscription::default()
                };
                let put =
                    PutSubscriptionRequest { store: text(store), subscription: Some(subscription), after: Some(0) };
                let attempts = events::Attempts { attempts_max, ..events::Attempts::default() };
                let after = Some(EventPosition::new(0));
                let command = events::PutSubscription { store, name: "mailer", query: Query::all(), after, attempts };
                (
                    json!({"put_subscription": {"store": store, "name": "mailer", "attempts_max": attempts_max, "after": 0}}),
                    Kind::PutSubscription(Box::new(put)),
                    events::Command::PutSubscription(command),
                )
            }
        };
        PartForms { json, message, part: Some(Part::Events(command)) }
    }

    fn of_topic(&mut self) -> PartForms {
        let topic = self.one(&TOPICS);
        let partition = self.one(&[0_u32, 1, 7]);
        let named = TopicRef::Name(topic);
        let (json, message, part) = match self.below(8) {
            0..=2 => {
                let value = self.one(&[Some("v"), None]);
                let partition = Some(partition).filter(|_| self.below(2) == 0);
                let record = NewRecord {
                    key: Some("k".into()),
                    value: value.map(Into::into),
                    partition,
                    ..NewRecord::default()
                };
                let mut message = value.map_or_else(Message::tombstone, Message::new).key("k");
                if let Some(partition) = partition {
                    message = message.partition(partition);
                }
                let mut fields = json!({"topic": topic, "key": "k", "value_text": value, "partition": partition});
                if value.is_none() {
                    fields.as_object_mut().expect("an object").remove("value_text");
                }
                (
                    json!({"produce": fields}),
                    Kind::Produce(Box::new(ProducePart { topic: text(topic), record: Some(record) })),
                    Part::Produce { topic: topic.into(), message },
                )
            }
            3 => {
                let partitions = self.one(&[2_u32, 1, 0]);
                let compact = streams::Cleanup::Compact;
                let settings =
                    quire_grpc::proto::TopicSettings { cleanup: Some(text("compact")), ..Default::default() };
                let create = CreateTopicRequest { name: text(topic), partitions, settings: Some(settings) };
                let settings = streams::TopicSettings { cleanup: compact, ..streams::TopicSettings::default() };
                (
                    json!({"create_topic": {"name": topic, "partitions": partitions, "settings": {"cleanup": "compact"}}}),
                    Kind::CreateTopic(Box::new(create)),
                    Part::Streams(streams::Command::CreateTopic { name: topic, partitions, settings }),
                )
            }
            4 => (
                json!({"delete_topic": {"topic": topic}}),
                Kind::DeleteTopic(Box::new(DeleteTopicRequest { topic: text(topic) })),
                Part::Streams(streams::Command::DeleteTopic { topic: named }),
            ),
            5 => {
                let partitions = self.one(&[3_u32, 2, 1]);
                let alter =
                    AlterTopicRequest { topic: text(topic), partitions: Some(partitions), ..Default::default() };
                (
                    json!({"alter_topic": {"topic": topic, "partitions": partitions}}),
                    Kind::AlterTopic(Box::new(alter)),
                    Part::Streams(streams::Command::AddPartitions { topic: named, partitions }),
                )
            }
            6 => {
                let bytes = self.one(&[1_u32 << 20, 0]);
                let given = quire_grpc::proto::TopicSettings { batch_bytes_max: Some(bytes), ..Default::default() };
                let alter = AlterTopicRequest {
                    topic: text(topic),
                    settings: Some(given),
                    reset_settings: vec![text("retention_ms")],
                    ..Default::default()
                };
                let changes = streams::TopicChanges {
                    batch_bytes_max: Some(bytes),
                    reset: streams::SettingSet::NONE.with(streams::Setting::RetentionMs),
                    ..Default::default()
                };
                (
                    json!({"alter_topic": {"topic": topic, "settings": {"batch_bytes_max": bytes, "retention_ms": null}}}),
                    Kind::AlterTopic(Box::new(alter)),
                    Part::Streams(streams::Command::AlterTopic { topic: named, changes }),
                )
            }
            _ => {
                let before = self.one(&[Some(1_u64), None, Some(99)]);
                let delete = DeleteRecordsRequest { topic: text(topic), partition, before };
                let command = streams::Command::DeleteRecords {
                    topic: named,
                    partition,
                    before: before.map(Sequence::new),
                    keep_unread: false,
                };
                (
                    json!({"delete_records": {"topic": topic, "partition": partition, "before": before}}),
                    Kind::DeleteRecords(Box::new(delete)),
                    Part::Streams(command),
                )
            }
        };
        PartForms { json, message, part: Some(part) }
    }

    fn of_group(&mut self) -> PartForms {
        let (topic, group) = (self.one(&TOPICS), self.one(&GROUPS));
        let partition = self.one(&[0_u32, 1, 7]);
        let named = TopicRef::Name(topic);
        let (json, message, command) = match self.below(5) {
            0 | 1 => {
                let offset = self.below(4) as u64;
                let metadata = if self.rarely() { "m".repeat(5_000) } else { text("note") };
                let commit = CommitOffsetRequest {
                    group: text(group),
                    topic: text(topic),
                    partition,
                    offset,
                    metadata: metadata.clone(),
                    ..CommitOffsetRequest::default()
                };
                let fields = json!({"group": group, "topic": topic, "partition": partition, "offset": offset, "metadata": metadata});
                let command = streams::Command::CommitOffset {
                    group,
                    topic: named,
                    partition,
                    offset: Sequence::new(offset),
                    leader_epoch: None,
                    metadata: metadata.leak(),
                    by: Committer::Anyone,
                };
                (json!({"commit_offset": fields}), Kind::CommitOffset(Box::new(commit)), command)
            }
            2 => {
                let delete = DeleteOffsetRequest { group: text(group), topic: text(topic), partition };
                (
                    json!({"delete_offset": {"group": group, "topic": topic, "partition": partition}}),
                    Kind::DeleteOffset(Box::new(delete)),
                    streams::Command::DeleteOffset { group, topic: named, partition },
                )
            }
            3 => {
                let force = self.below(2) == 0;
                let despite = if force { Despite::Everyone } else { Despite::Nobody };
                (
                    json!({"delete_group": {"group": group, "force": force}}),
                    Kind::DeleteGroup(Box::new(DeleteGroupRequest { group: text(group), force })),
                    streams::Command::DeleteGroup { group, despite },
                )
            }
            _ => {
                let protects = self.below(2) == 0;
                let protect = ProtectUnreadRequest { group: text(group), topic: text(topic), protects };
                (
                    json!({"protect_unread": {"group": group, "topic": topic, "protects": protects}}),
                    Kind::ProtectUnread(Box::new(protect)),
                    streams::Command::ProtectUnread { group, topic: named, protects },
                )
            }
        };
        PartForms { json, message, part: Some(Part::Streams(command)) }
    }

    fn of_queue(&mut self) -> PartForms {
        match self.below(8) {
            0..=2 => self.enqueue(),
            3 => self.fetch(),
            4 | 5 => self.report(),
            6 => self.change(),
            _ => self.whole_queue(),
        }
    }

    fn enqueue(&mut self) -> PartForms {
        let queue = self.one(&QUEUES);
        let is_unique = self.below(2) == 0;
        let rejects = self.below(2) == 0;
        let attempts_max = self.one(&[5_u16, 1, 0]);
        let mut job = JobSpec { attempts_max, tags: &["x"], ..JobSpec::new(b"work") };
        let mut new = NewJob {
            queue: text(queue),
            payload: "work".into(),
            attempts_max: Some(attempts_max.into()),
            tags: vec![text("x")],
            ..NewJob::default()
        };
        let mut fields = json!({"queue": queue, "payload_text": "work", "attempts_max": attempts_max, "tags": ["x"]});
        if is_unique {
            let clash = if rejects { jobs::Clash::Reject } else { jobs::Clash::Keep };
            let scope = UniqueScope::Queue;
            job.unique = Some(Unique { key: b"u", scope, hold: UniqueHold::UntilFinished, clash });
            let clash = if rejects { unique_key::Clash::Reject } else { unique_key::Clash::Keep };
            new.unique = Some(UniqueKey { key: "u".into(), clash: clash.into(), ..UniqueKey::default() });
            fields["unique"] = json!({"key": "u", "clash": if rejects { "reject" } else { "keep" }});
        }
        PartForms {
            json: json!({"enqueue": fields}),
            message: Kind::Enqueue(Box::new(new)),
            part: Some(Part::Jobs(jobs::Command::Enqueue { queue, job })),
        }
    }

    fn fetch(&mut self) -> PartForms {
        let queue = self.one(&QUEUES[..2]);
        let count = self.one(&[2_u32, 1, 0]);
        let weights = self.one(&[&[][..], &[1_u32], &[1, 2]]);
        let fetch = FetchPart {
            queues: vec![text(queue)],
            weights: weights.to_vec(),
            count: Some(count),
            lease_us: Some(30_000_000),
            worker: text("w"),
        };
        let order = if weights.is_empty() { Order::Strict } else { Order::Weighted(weights) };
        let queues = leaked(vec![queue]);
        let command = jobs::Command::Fetch { queues, order, count, lease_micros: 30_000_000, worker: "w" };
        let fields = json!({"queues": [queue], "weights": weights, "count": count, "lease_ms": 30_000, "worker": "w"});
        PartForms {
            json: json!({"fetch": fields}),
            message: Kind::Fetch(Box::new(fetch)),
            part: Some(Part::Jobs(command)),
        }
    }

    fn report(&mut self) -> PartForms {
        let back = self.below(self.leases.len().min(4));
        let lease = self.leases[self.leases.len() - 1 - back].clone();
        let (job, token) = if self.rarely() { (text("no id"), lease.1) } else { lease };
        let ids: Option<(JobId, LeaseToken)> = job.parse().ok().zip(token.parse().ok());
        let report =
            |what| Kind::Report(Box::new(JobReport { job: job.clone(), token: token.clone(), what: Some(what) }));
        let until_ms = 1_800_000_000_000_u64;
        let (json, message, part) = match self.below(4) {
            0 => (
                json!({"ack": {"job": job, "token": token, "result_text": "done"}}),
                report(What::Ack(Ack { result: "done".into() })),
                ids.map(|(job, token)| jobs::Command::Ack { job, token, result: b"done" }),
            ),
            1 => {
                let never = self.below(2) == 0;
                let retry = if never { json!("never") } else { json!("backoff") };
                (
                    json!({"fail": {"job": job, "token": token, "error": "no", "retry": retry}}),
                    report(What::Fail(Fail { error: text("no"), retry: never.then_some(fail::Retry::Never(true)) })),
                    ids.map(|(job, token)| {
                        let retry = if never { Retry::Never } else { Retry::Backoff };
                        jobs::Command::Fail { job, token, error: "no", retry }
                    }),
                )
            }
            2 => (
                json!({"snooze": {"job": job, "token": token, "until_ms": until_ms}}),
                report(What::Snooze(Snooze { until_us: until_ms * 1_000 })),
                ids.map(|(job, token)| jobs::Command::Snooze { job, token, until: Timestamp::from_millis(until_ms) }),
            ),
            _ => {
                let heartbeat = Heartbeat { lease_us: Some(60_000_000), progress: Some("1".into()), checkpoint: None };
                (
                    json!({"heartbeat": {"job": job, "token": token, "lease_ms": 60_000, "progress_text": "1"}}),
                    report(What::Heartbeat(heartbeat)),
                    ids.map(|(job, token)| jobs::Command::Heartbeat {
                        job,
                        token,
                        lease_micros: Some(60_000_000),
                        progress: Some(b"1"),
                        checkpoint: None,
                    }),
                )
            }
        };
        PartForms { json, message, part: part.map(Part::Jobs) }
    }

    fn change(&mut self) -> PartForms {
        let back = self.below(self.jobs.len().min(6));
        let job = self.jobs[self.jobs.len() - 1 - back].clone();
        let (json, what, change) = match self.below(6) {
            0 => (
                json!({"cancel": {"reason": "why"}}),
                job_change::What::Cancel(job_change::Reason { reason: text("why") }),
                Change::Cancel { reason: "why" },
            ),
            1 => (
                json!({"hold": {"reason": "why"}}),
                job_change::What::Hold(job_change::Reason { reason: text("why") }),
                Change::Hold { reason: "why" },
            ),
            2 => (json!({"release": {}}), job_change::What::Release(true), Change::Release),
            3 => (
                json!({"retry": {}}),
                job_change::What::Retry(job_change::Retry { payload: None }),
                Change::Retry { payload: None },
            ),
            4 => (json!({"delete": {}}), job_change::What::Delete(true), Change::Delete),
            _ => {
                let queue = self.one(&QUEUES);
                (json!({"move": {"queue": queue}}), job_change::What::MoveTo(text(queue)), Change::Move { queue })
            }
        };
        let item = change_jobs_request::Item { job: job.clone(), change: Some(JobChange { what: Some(what) }) };
        PartForms {
            json: json!({"change": {"job": job, "change": json}}),
            message: Kind::Change(Box::new(item)),
            part: Some(Part::Jobs(jobs::Command::Change { job: job.parse().expect("an id"), change })),
        }
    }

    fn whole_queue(&mut self) -> PartForms {
        let queue = self.one(&QUEUES);
        let (json, message, command) = match self.below(5) {
            0 => (
                json!({"clear": {"queue": queue}}),
                Kind::Clear(Box::new(ClearQueueRequest { queue: text(queue) })),
                jobs::Command::Clear { queue },
            ),
            1 => (
                json!({"destroy": {"queue": queue}}),
                Kind::Destroy(Box::new(DestroyQueueRequest { queue: text(queue) })),
                jobs::Command::Destroy { queue },
            ),
            2 => {
                let filter =
                    Some(JobFilter { queue: Some(text(queue)), tags: vec![text("x")], ..JobFilter::default() });
                let change = Some(JobChange { what: Some(job_change::What::Priority(9)) });
                let (filtered, priority) = (
                    jobs::Filter { queue: Some(queue), tags: &["x"], ..jobs::Filter::default() },
                    jobs::Priority::new(9),
                );
                (
                    json!({"bulk": {"filter": {"queue": queue, "tags": ["x"]}, "change": {"priority": 9}}}),
                    Kind::Bulk(Box::new(BeginBulkRequest { filter, change })),
                    jobs::Command::Bulk { filter: filtered, change: Change::Priority(priority) },
                )
            }
            3 => (json!({"tick": {}}), Kind::Tick(Box::new(TickPart {})), jobs::Command::Tick),
            _ => {
                let most = self.one(&[Some(9_u32), None]);
                let settings = QueueSettings { active_max: Some(most.unwrap_or(0)), ..QueueSettings::default() };
                (
                    json!({"set_queue": {"queue": queue, "set": {"active_max": most}}}),
                    Kind::SetQueue(Box::new(SetQueueRequest { queue: text(queue), settings: Some(settings) })),
                    jobs::Command::SetQueue { queue, change: QueueChange::ActiveMax(most) },
                )
            }
        };
        PartForms { json, message, part: Some(Part::Jobs(command)) }
    }

    fn each(&mut self) -> PartForms {
        let mut inner: Vec<PartForms> = (0..self.below(4)).map(|_| self.of_queue()).collect();
        if self.rarely() {
            inner.push(self.each());
        }
        if self.rarely() {
            inner.push(self.of_topic());
        }
        let commands = inner.iter().map(|forms| match &forms.part {
            Some(Part::Jobs(command)) => Some(*command),
            _ => None,
        });
        let commands = commands.collect::<Option<Vec<_>>>();
        let json: Vec<_> = inner.iter().map(|forms| forms.json.clone()).collect();
        let parts = inner.into_iter().map(|forms| CommitPart { kind: Some(forms.message) }).collect();
        PartForms {
            json: json!({ "each": json }),
            message: Kind::Each(Box::new(EachPart { parts })),
            part: commands.map(|commands| Part::Jobs(jobs::Command::Each(leaked(commands)))),
        }
    }

    fn of_graph(&mut self) -> PartForms {
        let graph = self.one(&GRAPHS);
        let (one, other) = (self.one(&BLOCKS), self.one(&BLOCKS));
        let named = |name: &str| Some(BlockRef { r#ref: Some(Ref::Name(text(name))) });
        let block = |name: &'static str| graph::BlockRef::Name(name);
        let (json, kind, command) = match self.below(8) {
            0..=2 => {
                let expect = self.one(&[None, Some(0_u64), Some(1), Some(2)]);
                let (kind, metadata) = (self.one(&["function", ""]), self.one(&METADATA));
                let put = quire_grpc::proto::PutBlock {
                    block: named(one),
                    kind: text(kind),
                    tags: vec![text("hot")],
                    metadata: metadata.into(),
                    content: "c".into(),
                    expect_version: expect,
                    ..Default::default()
                };
                let command = graph::PutBlock {
                    graph,
                    block: block(one),
                    kind,
                    source: "",
                    tags: &["hot"],
                    metadata: metadata.as_bytes(),
                    content: b"c",
                    expect: expect.map(Version::new),
                };
                let fields = json!({"graph": graph, "block": one, "kind": kind, "tags": ["hot"],
                    "metadata_text": metadata, "content_text": "c", "expect_version": expect});
                (json!({"put_block": fields}), graph_command::Kind::PutBlock(put), graph::Command::PutBlock(command))
            }
            3 => (
                json!({"delete_block": {"graph": graph, "block": one}}),
                graph_command::Kind::DeleteBlock(DeleteBlock { block: named(one) }),
                graph::Command::DeleteBlock(graph::DeleteBlock { graph, block: block(one) }),
            ),
            4 | 5 => {
                let allow_missing = self.below(3) == 0;
                let put = quire_grpc::proto::PutEdge {
                    source: named(one),
                    r#type: text("calls"),
                    target: named(other),
                    allow_missing,
                    ..Default::default()
                };
                let command = graph::PutEdge {
                    graph,
                    source: block(one),
                    edge_type: "calls",
                    target: block(other),
                    properties: b"",
                    allow_missing,
                };
                let fields = json!({"graph": graph, "source": one, "type": "calls", "target": other,
                    "allow_missing": allow_missing});
                (json!({"put_edge": fields}), graph_command::Kind::PutEdge(put), graph::Command::PutEdge(command))
            }
            6 => {
                let delete =
                    quire_grpc::proto::DeleteEdge { source: named(one), r#type: text("calls"), target: named(other) };
                let command = graph::DeleteEdge { graph, source: block(one), edge_type: "calls", target: block(other) };
                (
                    json!({"delete_edge": {"graph": graph, "source": one, "type": "calls", "target": other}}),
                    graph_command::Kind::DeleteEdge(delete),
                    graph::Command::DeleteEdge(command),
                )
            }
            _ => {
                let from = self.one(&[0_u64, 1, 1 << 40]);
                (
                    json!({"trim_graph": {"graph": graph, "from": from}}),
                    graph_command::Kind::TrimHistory(TrimGraphHistory { from }),
                    graph::Command::TrimHistory(graph::TrimHistory { graph, from: Position::new(from) }),
                )
            }
        };
        let command_message = Some(GraphCommand { kind: Some(kind) });
        PartForms {
            json,
            message: Kind::Graph(Box::new(GraphPart { graph: text(graph), command: command_message })),
            part: Some(Part::Graph(command)),
        }
    }
}
