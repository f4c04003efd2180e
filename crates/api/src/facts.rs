//! The facts of a refusal, for programs. Each has a name, and a value in the units of the protocol.

use std::fmt::{self, Display};

use quire::{
    ClaimRefusal, IDEMPOTENCY_KEY_BYTES_MAX, IdempotencyRefusal, PermissionRefusal, Reason, events, graph, jobs,
    streams, system,
};

/// The unit of durations in a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Milliseconds, with the suffix `_ms`: HTTP.
    Millis,
    /// Microseconds, with the suffix `_us`: gRPC.
    Micros,
}

/// A fact of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureFact {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: FactValue,
}

/// The value of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactValue {
    /// Nothing: the fact does not apply, for example because no event conflicts.
    Absent,
    /// A number.
    Number(i128),
    /// A text.
    Text(String),
}

impl Display for FactValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FactValue::Absent => Ok(()),
            FactValue::Number(number) => number.fmt(f),
            FactValue::Text(text) => text.fmt(f),
        }
    }
}

impl From<&str> for FactValue {
    fn from(text: &str) -> Self {
        FactValue::Text(text.to_owned())
    }
}

impl From<String> for FactValue {
    fn from(text: String) -> Self {
        FactValue::Text(text)
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl From<$number> for FactValue {
            fn from(number: $number) -> Self {
                FactValue::Number(i128::from(number))
            }
        })+
    };
}

numbers!(u16, u32, u64, i64);

impl From<usize> for FactValue {
    fn from(number: usize) -> Self {
        FactValue::from(number as u64)
    }
}

impl<T: Into<FactValue>> From<Option<T>> for FactValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(FactValue::Absent, Into::into)
    }
}

fn fact(name: &'static str, value: impl Into<FactValue>) -> FailureFact {
    FailureFact { name, value: value.into() }
}

/// The facts of a refusal.
pub(crate) fn of_reason(reason: &Reason, unit: TimeUnit) -> Vec<FailureFact> {
    match reason {
        Reason::Streams(refusal) => of_streams(refusal),
        Reason::Events(refusal) => of_events(refusal),
        Reason::Jobs(refusal) => of_jobs(refusal, unit),
        Reason::Graph(refusal) => of_graph(refusal),
        Reason::System(refusal) => of_system(refusal),
        Reason::Idempotency(refusal) => of_idempotency(refusal),
        Reason::NotPermitted(refused) => of_permission(&refused.refusal),
    }
}

/// The facts of a missing permission.
pub(crate) fn of_permission(refusal: &PermissionRefusal) -> Vec<FailureFact> {
    let PermissionRefusal { kind, name, operation } = refusal;
    vec![fact("kind", kind.name()), fact("name", &**name), fact("operation", operation.name())]
}

fn of_idempotency(refusal: &IdempotencyRefusal) -> Vec<FailureFact> {
    match refusal {
        IdempotencyRefusal::KeyReused { key, position } => {
            vec![fact("key", &**key), fact("position", position.get())]
        }
        IdempotencyRefusal::InvalidKey { bytes, .. } => {
            vec![fact("given", *bytes), fact("most", IDEMPOTENCY_KEY_BYTES_MAX)]
        }
    }
}

/// The message of a refusal.
pub(crate) fn message(reason: &Reason, unit: TimeUnit) -> String {
    match (reason, unit) {
        (Reason::Jobs(jobs::Refusal::OutOfRange { limit, given }), TimeUnit::Millis) if limit.is_micros() => {
            let (least, most) = in_unit(*limit, unit);
            let limit = limit.to_string().replace("microseconds", "milliseconds");
            format!("{limit} must be between {least} and {most}, got {}", given / 1_000)
        }
        _ => reason.to_string(),
    }
}

/// The range of a limit. A limit on a duration is in the unit of the protocol.
fn in_unit(limit: jobs::JobLimit, unit: TimeUnit) -> (u64, u64) {
    let (least, most) = limit.range();
    if limit.is_micros() && unit == TimeUnit::Millis { (least.div_ceil(1_000), most / 1_000) } else { (least, most) }
}

fn of_claim(refusal: &ClaimRefusal) -> Vec<FailureFact> {
    match refusal {
        ClaimRefusal::NameTaken { topic, kind, name } => {
            vec![fact("topic", &**topic), fact("kind", kind.to_string()), fact("name", &**name)]
        }
        ClaimRefusal::OverLimit { limit, count, more, count_max } => {
            vec![fact("limit", limit.setting()), fact("count", *count), fact("more", *more), fact("most", *count_max)]
        }
    }
}

fn of_streams(refusal: &streams::Refusal) -> Vec<FailureFact> {
    use streams::Refusal;
    match refusal {
        Refusal::TopicExists { partitions, .. } => vec![fact("partitions", *partitions)],
        Refusal::UnknownTopic { name } => vec![fact("topic", &**name)],
        Refusal::UnknownPartition { partition, partitions, .. } => {
            vec![fact("partition", *partition), fact("partitions", *partitions)]
        }
        Refusal::InvalidPartitionCount { partitions } => {
            vec![fact("given", *partitions), fact("most", streams::PARTITIONS_MAX)]
        }
        Refusal::MetadataTooLong { bytes } => {
            vec![fact("given", *bytes), fact("most", streams::OFFSET_METADATA_BYTES_MAX)]
        }
        Refusal::UnknownGroup { name } => vec![fact("group", &**name)],
        Refusal::TooFewPartitions { partitions, current } => {
            vec![fact("given", *partitions), fact("partitions", *current)]
        }
        Refusal::InvalidTimestamp { timestamp_ms, now_ms, before_max_ms, after_max_ms } => {
            vec![fact("given", *timestamp_ms), fact("now_ms", *now_ms), fact("most", before_max_ms.or(*after_max_ms))]
        }
        Refusal::MissingKey { record } => vec![fact("record", *record)],
        Refusal::InvalidSettings { setting } => vec![fact("setting", *setting)],
        Refusal::BeyondEnd { before, next } => vec![fact("before", before.get()), fact("next", next.get())],
        Refusal::BatchTooLarge { bytes, bytes_max } => vec![fact("given", *bytes), fact("most", *bytes_max)],
        Refusal::StaleGeneration { generation, current } => {
            vec![fact("generation", generation.get()), fact("current", current.get())]
        }
        Refusal::GroupHasMembers { leases, generation } => {
            vec![fact("leases", *leases), fact("generation", generation.map(streams::Generation::get))]
        }
        Refusal::Claim(refusal) => of_claim(refusal),
        // Only Kafka clients meet these, and its errors have no facts.
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
        | Refusal::TransactionalBatch => Vec::new(),
    }
}

fn of_events(refusal: &events::Refusal) -> Vec<FailureFact> {
    use events::Refusal;
    match refusal {
        Refusal::ConditionFailed { condition, position } => {
            vec![fact("condition", *condition), fact("position", position.map(events::EventPosition::get))]
        }
        Refusal::AfterAhead { condition, after, head } => {
            vec![fact("condition", *condition), fact("after", after.get()), fact("head", head.get())]
        }
        Refusal::TooCostly { condition, steps_max } => vec![fact("condition", *condition), fact("most", *steps_max)],
        Refusal::DuplicateEvent { event, id, position } => {
            vec![fact("event", *event), fact("id", id.to_string()), fact("position", position.get())]
        }
        Refusal::RepeatedId(id) => vec![fact("id", id.to_string())],
        Refusal::InvalidEvent { event, .. } => vec![fact("event", *event)],
        Refusal::InvalidQuery { condition, .. } => vec![fact("condition", *condition)],
        Refusal::TooManyEvents { events } => vec![fact("given", *events), fact("most", events::EVENTS_MAX)],
        Refusal::TooManyConditions { conditions } => {
            vec![fact("given", *conditions), fact("most", events::CONDITIONS_MAX)]
        }
        Refusal::UpstreamBehind { position, known } => vec![fact("position", *position), fact("known", *known)],
        Refusal::TooManySources => vec![fact("most", events::SOURCES_MAX)],
        Refusal::TooManySubscriptions => vec![fact("most", events::SUBSCRIPTIONS_MAX)],
        Refusal::TooManyForgotten => vec![fact("most", events::FORGOTTEN_MAX)],
        Refusal::TooManyProjections => vec![fact("most", events::PROJECTIONS_MAX)],
        Refusal::SubscriptionMoved { position } | Refusal::ProjectionMoved { position } => {
            vec![fact("position", position.get())]
        }
        Refusal::AheadOfStore { position, head } => {
            vec![fact("position", position.get()), fact("head", head.get())]
        }
        Refusal::ReservedStore { store } => vec![fact("store", &**store)],
        Refusal::Claim(refusal) => of_claim(refusal),
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
        | Refusal::UnknownProjection => Vec::new(),
    }
}

fn of_jobs(refusal: &jobs::Refusal, unit: TimeUnit) -> Vec<FailureFact> {
    use jobs::Refusal;
    match refusal {
        Refusal::InvalidName { name } => vec![fact("name", &**name)],
        Refusal::StaleLease { job, state } | Refusal::WrongState { job, state } => {
            vec![fact("job", job.to_string()), fact("state", state.name())]
        }
        Refusal::UnknownJob { job } | Refusal::Duplicate { job } => vec![fact("job", job.to_string())],
        Refusal::UnknownQueue { queue } | Refusal::QueueDraining { queue } => vec![fact("queue", &**queue)],
        Refusal::TooFewAttempts { job, least } => vec![fact("job", job.to_string()), fact("least", *least)],
        Refusal::TooManyActive { queue, setting, most } => {
            vec![fact("queue", &**queue), fact("setting", *setting), fact("most", *most)]
        }
        Refusal::Overloaded { queue, jobs_max, retry_after_micros } => {
            let retry_after = match unit {
                TimeUnit::Millis => fact("retry_after_ms", retry_after_micros / 1_000),
                TimeUnit::Micros => fact("retry_after_us", *retry_after_micros),
            };
            vec![fact("queue", &**queue), fact("jobs_max", *jobs_max), retry_after]
        }
        Refusal::OutOfRange { limit, given } => {
            let (least, most) = in_unit(*limit, unit);
            let given = if limit.is_micros() && unit == TimeUnit::Millis { given / 1_000 } else { *given };
            vec![fact("given", given), fact("least", least), fact("most", most)]
        }
        Refusal::ControlCharacter { field, name } => vec![fact("field", *field), fact("name", &**name)],
        Refusal::Claim(refusal) => of_claim(refusal),
        Refusal::NotPermitted(refusal) => of_permission(refusal),
        Refusal::InvalidWeights | Refusal::NestedEach => Vec::new(),
    }
}

fn of_graph(refusal: &graph::Refusal) -> Vec<FailureFact> {
    use graph::{End, Refusal};
    let block_facts = |block: &graph::BlockId, name: &Option<String>| {
        [fact("block", block.to_string()), fact("name", name.as_deref())].into_iter()
    };
    match refusal {
        Refusal::VersionMismatch { block, name, expected, found } => {
            block_facts(block, name).chain([fact("expected", expected.get()), fact("found", found.get())]).collect()
        }
        Refusal::MissingBlock { block, name, end } => {
            let end = if *end == End::Source { "source" } else { "target" };
            block_facts(block, name).chain([fact("end", end)]).collect()
        }
        Refusal::TooManyEdges { block, name, edges } => block_facts(block, name)
            .chain([fact("given", *edges), fact("most", graph::GraphLimit::EdgesDeleted.max())])
            .collect(),
        Refusal::AheadOfLog { from, at } => vec![fact("from", from.get()), fact("at", at.get())],
        Refusal::InvalidName { name, .. } => vec![fact("name", &**name)],
        Refusal::NotJson { field, .. } => vec![fact("field", *field)],
        Refusal::OverLimit { limit, found } => {
            vec![fact("limit", limit.to_string()), fact("given", *found), fact("most", limit.max())]
        }
        Refusal::Claim(refusal) => of_claim(refusal),
    }
}

fn of_system(refusal: &system::Refusal) -> Vec<FailureFact> {
    use system::Refusal;
    match refusal {
        Refusal::UserExists { user } | Refusal::UnknownUser { user } | Refusal::ExpiryRequired { user } => {
            vec![fact("user", &**user)]
        }
        Refusal::UnknownRole { role } | Refusal::BuiltInRole { role } => vec![fact("role", &**role)],
        Refusal::RoleInUse { role, user } => vec![fact("role", &**role), fact("user", &**user)],
        Refusal::KeyExists { key } | Refusal::UnknownKey { key } => vec![fact("key", key.as_str())],
        Refusal::LimitExceeded(limit) => vec![fact("limit", limit.name()), fact("most", limit.max())],
        Refusal::InvalidName(_)
        | Refusal::InvalidRule(_)
        | Refusal::InvalidCredential
        | Refusal::AlreadyEnabled
        | Refusal::NotEnabled
        | Refusal::NoAdmin
        | Refusal::OwnerOnly
        | Refusal::Unaudited { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_the_unit_of_the_protocol() {
        let full = jobs::Refusal::Overloaded { queue: "q".to_owned(), jobs_max: 3, retry_after_micros: 250_000 };
        let last = |unit| of_jobs(&full, unit).pop().expect("facts");
        assert_eq!(last(TimeUnit::Millis), fact("retry_after_ms", 250_u64));
        assert_eq!(last(TimeUnit::Micros), fact("retry_after_us", 250_000_u64));

        let given = 8 * 24 * 3_600 * 1_000_000;
        let reason = Reason::Jobs(jobs::Refusal::OutOfRange { limit: jobs::JobLimit::LeaseMicros, given });
        let most = |unit| of_reason(&reason, unit).pop().expect("facts").value;
        assert_eq!(most(TimeUnit::Millis), FactValue::from(7_u64 * 24 * 3_600 * 1_000));
        assert_eq!(most(TimeUnit::Micros), FactValue::from(7_u64 * 24 * 3_600 * 1_000_000));
        assert!(
            message(&reason, TimeUnit::Millis).starts_with("lease in milliseconds must be between 1 and 604800000")
        );
        assert!(message(&reason, TimeUnit::Micros).starts_with("lease in microseconds must be between 1 and"));
    }
}
