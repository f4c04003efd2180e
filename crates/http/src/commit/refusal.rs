//! A refused commit as a problem: the part, and the facts.

use quire::{ClaimRefusal, CommitRefusal, Reason, events, graph, jobs, streams};
use serde_json::{Map, Value, json};

use crate::error::{Problem, of_refusal};

/// Converts a refused commit into a problem. `part` is the index of the part, from 0.
pub(crate) fn problem(refused: &CommitRefusal) -> Problem {
    of_reason(&refused.reason).fact("part", refused.part)
}

/// Converts a reason into a problem without a part: for a commit's part, or for one item of a part.
pub(crate) fn of_reason(reason: &Reason) -> Problem {
    let facts = match reason {
        Reason::Events(refusal) => events_facts(refusal),
        Reason::Streams(refusal) => streams_facts(refusal),
        Reason::Jobs(refusal) => jobs_facts(refusal),
        Reason::Graph(refusal) => graph_facts(refusal),
    };
    Problem::new(of_refusal(reason), message(reason)).facts(facts)
}

fn facts<const N: usize>(facts: [(&str, Value); N]) -> Map<String, Value> {
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The facts of a refused name or limit.
fn claim_facts(refusal: &ClaimRefusal) -> Map<String, Value> {
    match refusal {
        ClaimRefusal::NameTaken { topic, kind, name } => {
            facts([("topic", json!(topic)), ("kind", json!(kind.to_string())), ("name", json!(name))])
        }
        ClaimRefusal::OverLimit { limit, count, more, count_max } => facts([
            ("limit", json!(limit.setting())),
            ("count", json!(count)),
            ("more", json!(more)),
            ("most", json!(count_max)),
        ]),
    }
}

fn events_facts(refusal: &events::Refusal) -> Map<String, Value> {
    use events::Refusal;
    match refusal {
        Refusal::ConditionFailed { condition, position } => {
            facts([("condition", json!(condition)), ("position", json!(position.map(events::EventPosition::get)))])
        }
        Refusal::AfterAhead { condition, after, head } => {
            facts([("condition", json!(condition)), ("after", json!(after.get())), ("head", json!(head.get()))])
        }
        Refusal::TooCostly { condition, steps_max } => {
            facts([("condition", json!(condition)), ("most", json!(steps_max))])
        }
        Refusal::DuplicateEvent { event, id, position } => {
            facts([("event", json!(event)), ("id", json!(id.to_string())), ("position", json!(position.get()))])
        }
        Refusal::RepeatedId(id) => facts([("id", json!(id.to_string()))]),
        Refusal::InvalidEvent { event, .. } => facts([("event", json!(event))]),
        Refusal::InvalidQuery { condition, .. } => facts([("condition", json!(condition))]),
        Refusal::TooManyEvents { events } => facts([("given", json!(events)), ("most", json!(events::EVENTS_MAX))]),
        Refusal::TooManyConditions { conditions } => {
            facts([("given", json!(conditions)), ("most", json!(events::CONDITIONS_MAX))])
        }
        Refusal::UpstreamBehind { position, known } => facts([("position", json!(position)), ("known", json!(known))]),
        Refusal::TooManySources => facts([("most", json!(events::SOURCES_MAX))]),
        Refusal::TooManySubscriptions => facts([("most", json!(events::SUBSCRIPTIONS_MAX))]),
        Refusal::TooManyForgotten => facts([("most", json!(events::FORGOTTEN_MAX))]),
        Refusal::TooManyProjections => facts([("most", json!(events::PROJECTIONS_MAX))]),
        Refusal::SubscriptionMoved { position } | Refusal::ProjectionMoved { position } => {
            facts([("position", json!(position.get()))])
        }
        Refusal::AheadOfStore { position, head } => {
            facts([("position", json!(position.get())), ("head", json!(head.get()))])
        }
        Refusal::Claim(refusal) => claim_facts(refusal),
        Refusal::NothingAsked
        | Refusal::InvalidName(_)
        | Refusal::InvalidSource(_)
        | Refusal::InvalidSubscriptionName(_)
        | Refusal::InvalidSubscriptionQuery(_)
        | Refusal::InvalidGroupBy(_)
        | Refusal::NoAttempts
        | Refusal::UnknownStore
        | Refusal::UnknownSubscription
        | Refusal::SubscriptionOfAnotherStore
        | Refusal::InvalidProjectionName(_)
        | Refusal::InvalidTag(_)
        | Refusal::UnknownProjection => Map::new(),
    }
}

fn streams_facts(refusal: &streams::Refusal) -> Map<String, Value> {
    use streams::Refusal;
    match refusal {
        Refusal::TopicExists { partitions, .. } => facts([("partitions", json!(partitions))]),
        Refusal::UnknownTopic { name } => facts([("topic", json!(name))]),
        Refusal::UnknownPartition { partition, partitions, .. } => {
            facts([("partition", json!(partition)), ("partitions", json!(partitions))])
        }
        Refusal::InvalidPartitionCount { partitions } => {
            facts([("given", json!(partitions)), ("most", json!(streams::PARTITIONS_MAX))])
        }
        Refusal::MetadataTooLong { bytes } => {
            facts([("given", json!(bytes)), ("most", json!(streams::OFFSET_METADATA_BYTES_MAX))])
        }
        Refusal::UnknownGroup { name } => facts([("group", json!(name))]),
        Refusal::TooFewPartitions { partitions, current } => {
            facts([("given", json!(partitions)), ("partitions", json!(current))])
        }
        Refusal::InvalidTimestamp { timestamp_ms, now_ms, before_max_ms, after_max_ms } => {
            let most = before_max_ms.or(*after_max_ms);
            facts([("given", json!(timestamp_ms)), ("now_ms", json!(now_ms)), ("most", json!(most))])
        }
        Refusal::MissingKey { record } => facts([("record", json!(record))]),
        Refusal::InvalidSettings { setting } => facts([("setting", json!(setting))]),
        Refusal::BeyondEnd { before, next } => facts([("before", json!(before.get())), ("next", json!(next.get()))]),
        Refusal::BatchTooLarge { bytes, bytes_max } => facts([("given", json!(bytes)), ("most", json!(bytes_max))]),
        Refusal::StaleGeneration { generation, current } => {
            facts([("generation", json!(generation.get())), ("current", json!(current.get()))])
        }
        Refusal::GroupHasMembers { leases, generation } => {
            facts([("leases", json!(leases)), ("generation", json!(generation.map(streams::Generation::get)))])
        }
        Refusal::Claim(refusal) => claim_facts(refusal),
        // Only the Kafka protocol has idempotent producers and members, and the database resolves
        // keys itself.
        Refusal::UnreadKeys
        | Refusal::UnknownProducer { .. }
        | Refusal::InvalidProducer { .. }
        | Refusal::FencedProducer { .. }
        | Refusal::OutOfOrderSequence { .. }
        | Refusal::InvalidMembers
        | Refusal::InvalidLease { .. }
        | Refusal::UnknownMember { .. }
        | Refusal::NotOwner { .. }
        | Refusal::UnknownTopicId { .. }
        | Refusal::InvalidTopicName(_)
        | Refusal::InvalidGroupName(_)
        | Refusal::ControlBatch
        | Refusal::TransactionalBatch => Map::new(),
    }
}

fn jobs_facts(refusal: &jobs::Refusal) -> Map<String, Value> {
    use jobs::Refusal;
    match refusal {
        Refusal::InvalidName { name } => facts([("name", json!(name))]),
        Refusal::StaleLease { job, state } | Refusal::WrongState { job, state } => {
            facts([("job", json!(job.to_string())), ("state", json!(state.name()))])
        }
        Refusal::UnknownJob { job } | Refusal::Duplicate { job } => facts([("job", json!(job.to_string()))]),
        Refusal::UnknownQueue { queue } | Refusal::QueueDraining { queue } => facts([("queue", json!(queue))]),
        Refusal::TooFewAttempts { job, least } => facts([("job", json!(job.to_string())), ("least", json!(least))]),
        Refusal::TooManyActive { queue, setting, most } => {
            facts([("queue", json!(queue)), ("setting", json!(setting)), ("most", json!(most))])
        }
        Refusal::Overloaded { queue, jobs_max, retry_after_micros } => facts([
            ("queue", json!(queue)),
            ("jobs_max", json!(jobs_max)),
            ("retry_after_ms", json!(retry_after_micros / 1_000)),
        ]),
        Refusal::OutOfRange { limit, given } => {
            let (least, most) = in_ms(*limit).unwrap_or(limit.range());
            let given = if limit.is_micros() { given / 1_000 } else { *given };
            facts([("given", json!(given)), ("least", json!(least)), ("most", json!(most))])
        }
        Refusal::ControlCharacter { field, name } => facts([("field", json!(field)), ("name", json!(name))]),
        Refusal::Claim(refusal) => claim_facts(refusal),
        Refusal::InvalidWeights | Refusal::NestedEach => Map::new(),
    }
}

/// The range of a time limit in milliseconds, the unit of clients.
fn in_ms(limit: jobs::JobLimit) -> Option<(u64, u64)> {
    let (least, most) = limit.range();
    limit.is_micros().then(|| (least.div_ceil(1_000), most / 1_000))
}

/// The message of a refusal, in the units of clients.
fn message(reason: &Reason) -> String {
    match reason {
        Reason::Jobs(jobs::Refusal::OutOfRange { limit, given }) if limit.is_micros() => {
            let (least, most) = in_ms(*limit).expect("a limit of time");
            let what = limit.to_string().replace("microseconds", "milliseconds");
            format!("{what} must be between {least} and {most}, got {}", given / 1_000)
        }
        reason => reason.to_string(),
    }
}

fn graph_facts(refusal: &graph::Refusal) -> Map<String, Value> {
    use graph::{End, Refusal};
    match refusal {
        Refusal::VersionMismatch { block, name, expected, found } => facts([
            ("block", json!(block.to_string())),
            ("name", json!(name)),
            ("expected", json!(expected.get())),
            ("found", json!(found.get())),
        ]),
        Refusal::MissingBlock { block, name, end } => {
            let end = if *end == End::Source { "source" } else { "target" };
            facts([("block", json!(block.to_string())), ("name", json!(name)), ("end", json!(end))])
        }
        Refusal::TooManyEdges { block, name, edges } => facts([
            ("block", json!(block.to_string())),
            ("name", json!(name)),
            ("given", json!(edges)),
            ("most", json!(graph::GraphLimit::EdgesDeleted.max())),
        ]),
        Refusal::AheadOfLog { from, at } => facts([("from", json!(from.get())), ("at", json!(at.get()))]),
        Refusal::InvalidName { name, .. } => facts([("name", json!(name))]),
        Refusal::NotJson { field, .. } => facts([("field", json!(field))]),
        Refusal::OverLimit { limit, found } => {
            facts([("limit", json!(limit.to_string())), ("given", json!(found)), ("most", json!(limit.max()))])
        }
        Refusal::Claim(refusal) => claim_facts(refusal),
    }
}
