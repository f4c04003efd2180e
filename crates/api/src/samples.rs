//! One refusal of each kind, for the tests of front ends and of `docs/errors.md`.

use quire::graph::{BlockId, End, GraphLimit, NotJson, Version};
use quire::streams::{Generation, MemberId, ProducerId, TopicId, TopicNameProblem};
use quire::{
    ClaimLimit, ClaimRefusal, ErrorKind, IdempotencyRefusal, ModelId, NameKind, NotPermitted, Operation,
    PermissionRefusal, Position, Reason, Resource, ResourceKind, Sequence, events, graph, jobs, streams, system,
};

use crate::{Row, of_error, of_reason};

/// Each refusal of each model.
pub fn reasons() -> Vec<Reason> {
    let streams = streams().into_iter().map(Reason::Streams);
    let events = events().into_iter().map(Reason::Events);
    let jobs = jobs().into_iter().map(Reason::Jobs);
    let graph = graph().into_iter().map(Reason::Graph);
    let system = system().into_iter().map(Reason::System);
    let keys = idempotency().into_iter().map(Reason::Idempotency);
    let permissions = permissions()
        .into_iter()
        .map(|refusal| Reason::NotPermitted(NotPermitted { model: ModelId::STREAMS, refusal }));
    streams.chain(events).chain(jobs).chain(graph).chain(system).chain(keys).chain(permissions).collect()
}

/// A missing permission on each kind of resource.
pub fn permissions() -> [PermissionRefusal; ResourceKind::ALL.len()] {
    ResourceKind::ALL.map(|kind| PermissionRefusal::new(Resource::new(kind, "orders"), Operation::Write))
}

/// Each refusal of an idempotency key.
pub fn idempotency() -> [IdempotencyRefusal; 2] {
    [
        IdempotencyRefusal::KeyReused { key: "order-17".into(), position: Position::new(9) },
        IdempotencyRefusal::InvalidKey { key: "".into(), bytes: 0 },
    ]
}

/// The rows of the table, in its order.
pub fn rows() -> Vec<Row> {
    let errors = ErrorKind::ALL.into_iter().map(of_error);
    errors.chain(reasons().iter().map(of_reason)).collect()
}

/// Each refusal of a name or limit.
pub fn claims() -> [ClaimRefusal; 2] {
    [
        ClaimRefusal::taken("mail", NameKind::Queue, "mail"),
        ClaimRefusal::OverLimit { limit: ClaimLimit::Queues, count: 3, more: 1, count_max: 3 },
    ]
}

/// Each refusal of a topic or a consumer group.
pub fn streams() -> Vec<streams::Refusal> {
    use streams::Refusal;
    let (topic, producer, member) = (TopicId::new(3), ProducerId::new(7), MemberId::new(9));
    let mut samples = vec![
        Refusal::InvalidTopicName(TopicNameProblem::Empty),
        Refusal::InvalidGroupName(TopicNameProblem::Dots),
        Refusal::InvalidPartitionCount { partitions: 0 },
        Refusal::TopicExists { topic, partitions: 2 },
        Refusal::UnknownTopic { name: "orders".to_owned() },
        Refusal::UnknownTopicId { topic },
        Refusal::UnknownPartition { topic, partition: 4, partitions: 2 },
        Refusal::UnknownGroup { name: "boards".to_owned() },
        Refusal::TooFewPartitions { partitions: 1, current: 2 },
        Refusal::InvalidSettings { setting: "batch_bytes_max" },
        Refusal::BeyondEnd { before: Sequence::new(9), next: Sequence::new(5) },
        Refusal::BatchTooLarge { bytes: 2_000, bytes_max: 1_000 },
        Refusal::UnknownProducer { producer },
        Refusal::InvalidProducer { producer: 7, epoch: -1, sequence: 0 },
        Refusal::FencedProducer { producer, epoch: 0, current: 1 },
        Refusal::OutOfOrderSequence { producer, expected: 4, sequence: 6 },
        Refusal::StaleGeneration { generation: Generation::new(1), current: Generation::new(2) },
        Refusal::InvalidMembers,
        Refusal::InvalidLease { lease_ms: 0 },
        Refusal::UnknownMember { member },
        Refusal::NotOwner { partition: 0, member },
        Refusal::GroupHasMembers { leases: 2, generation: None },
        Refusal::MissingKey { record: 1 },
        Refusal::UnreadKeys,
        Refusal::InvalidTimestamp { timestamp_ms: 9, now_ms: 1, before_max_ms: None, after_max_ms: Some(5) },
        Refusal::ControlBatch,
        Refusal::TransactionalBatch,
        Refusal::MetadataTooLong { bytes: 5_000 },
    ];
    samples.extend(claims().map(Refusal::Claim));
    samples
}

/// Each refusal of an event store.
pub fn events() -> Vec<events::Refusal> {
    use events::{EventId, EventPosition, EventProblem, LabelProblem, NameProblem, QueryProblem, Refusal};
    let (id, position) = (EventId::NIL, EventPosition::new(4));
    let mut samples = vec![
        Refusal::ConditionFailed { condition: 1, position: Some(position) },
        Refusal::ConditionFailed { condition: 0, position: None },
        Refusal::AfterAhead { condition: 0, after: EventPosition::new(9), head: position },
        Refusal::TooCostly { condition: 0, steps_max: 1_000_000 },
        Refusal::DuplicateEvent { event: 2, id, position },
        Refusal::RepeatedId(id),
        Refusal::NothingAsked,
        Refusal::TooManyEvents { events: 70_000 },
        Refusal::TooManyConditions { conditions: 2_000 },
        Refusal::InvalidName(NameProblem::Empty),
        Refusal::InvalidEvent { event: 3, problem: EventProblem::NilId },
        Refusal::InvalidQuery { condition: 1, problem: QueryProblem::NoItems },
        Refusal::UpstreamBehind { position: 3, known: 5 },
        Refusal::InvalidSource(LabelProblem::Empty),
        Refusal::TooManySources,
        Refusal::InvalidSubscriptionName(NameProblem::Dots),
        Refusal::InvalidSubscriptionQuery(QueryProblem::NoItems),
        Refusal::InvalidGroupBy(LabelProblem::Empty),
        Refusal::NoAttempts,
        Refusal::TooManySubscriptions,
        Refusal::UnknownStore,
        Refusal::UnknownSubscription,
        Refusal::SubscriptionOfAnotherStore,
        Refusal::SubscriptionMoved { position },
        Refusal::AheadOfStore { position: EventPosition::new(9), head: position },
        Refusal::InvalidTag(LabelProblem::Empty),
        Refusal::TooManyForgotten,
        Refusal::InvalidProjectionName(LabelProblem::Empty),
        Refusal::TooManyProjections,
        Refusal::UnknownProjection,
        Refusal::ProjectionMoved { position },
        Refusal::ReservedStore { store: "quire/audit".to_owned() },
    ];
    samples.extend(claims().map(Refusal::Claim));
    samples
}

/// Each refusal of a queue.
pub fn jobs() -> Vec<jobs::Refusal> {
    use jobs::{JobId, JobLimit, JobState, Refusal};
    let job: JobId = "17-0".parse().expect("an id");
    let queue = || "mail".to_owned();
    let mut samples = vec![
        Refusal::InvalidName { name: "a b".to_owned() },
        Refusal::StaleLease { job, state: JobState::Completed },
        Refusal::UnknownJob { job },
        Refusal::UnknownQueue { queue: queue() },
        Refusal::WrongState { job, state: JobState::Active },
        Refusal::Duplicate { job },
        Refusal::QueueDraining { queue: queue() },
        Refusal::Overloaded { queue: queue(), jobs_max: 3, retry_after_micros: 250_000 },
        Refusal::TooManyActive { queue: queue(), setting: "active_max", most: 10 },
        Refusal::TooFewAttempts { job, least: 3 },
        Refusal::InvalidWeights,
        Refusal::NestedEach,
        Refusal::OutOfRange { limit: JobLimit::LeaseMicros, given: 0 },
        Refusal::OutOfRange { limit: JobLimit::Tags, given: 99 },
        Refusal::ControlCharacter { field: "kind", name: "a\u{1}".to_owned() },
    ];
    samples.extend(claims().map(Refusal::Claim));
    samples.extend(permissions().map(Refusal::NotPermitted));
    samples
}

/// Each refusal of a graph.
pub fn graph() -> Vec<graph::Refusal> {
    use graph::Refusal;
    let (block, name) = (BlockId::of_name("EWR"), || Some("EWR".to_owned()));
    let mut samples = vec![
        Refusal::VersionMismatch { block, name: name(), expected: Version::new(1), found: Version::new(2) },
        Refusal::MissingBlock { block, name: None, end: End::Target },
        Refusal::TooManyEdges { block, name: name(), edges: 200_000 },
        Refusal::AheadOfLog { from: quire::Position::new(9), at: quire::Position::new(4) },
        Refusal::InvalidName { name: "a//b".to_owned(), rule: "no empty segment" },
        Refusal::NotJson { field: "metadata", reason: NotJson::TooDeep },
        Refusal::OverLimit { limit: GraphLimit::TagBytes, found: 300 },
    ];
    samples.extend(claims().map(Refusal::Claim));
    samples
}

/// Each refusal of a change of users, keys, roles or rules.
pub fn system() -> Vec<system::Refusal> {
    use system::{AccessLimit, AccessNameProblem, KeyId, Refusal, RuleProblem};
    let (user, role) = (|| "ann".to_owned(), || "clerk".to_owned());
    let key = KeyId::parse("8f3kQ0aZ1b").expect("an id");
    vec![
        Refusal::InvalidName(AccessNameProblem::Empty),
        Refusal::UserExists { user: user() },
        Refusal::UnknownUser { user: user() },
        Refusal::UnknownRole { role: role() },
        Refusal::BuiltInRole { role: "admin".to_owned() },
        Refusal::RoleInUse { role: role(), user: user() },
        Refusal::KeyExists { key },
        Refusal::UnknownKey { key },
        Refusal::ExpiryRequired { user: user() },
        Refusal::InvalidRule(RuleProblem::PrefixOfSpaces),
        Refusal::InvalidCredential,
        Refusal::LimitExceeded(AccessLimit::Users),
        Refusal::LimitExceeded(AccessLimit::NoteBytes),
        Refusal::AlreadyEnabled,
        Refusal::NotEnabled,
        Refusal::NoAdmin,
        Refusal::OwnerOnly,
        Refusal::Unaudited { reason: "Kafka clients see another object".to_owned() },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Checks that there is a sample of each kind. A new kind does not compile without its place.
    macro_rules! check_kinds {
        ($samples:expr, [$($kind:pat),+ $(,)?]) => {
            let samples = $samples;
            let kinds = samples.iter().map(|sample| match sample { $($kind => stringify!($kind),)+ });
            let found: BTreeSet<_> = kinds.collect();
            assert_eq!(found, BTreeSet::from([$(stringify!($kind)),+]));
        };
    }

    #[test]
    fn each_refusal_of_each_model_has_a_sample() {
        check_kinds!(claims(), [ClaimRefusal::NameTaken { .. }, ClaimRefusal::OverLimit { .. }]);
        {
            use streams::Refusal::*;
            check_kinds!(
                streams(),
                [
                    InvalidTopicName(_),
                    InvalidGroupName(_),
                    InvalidPartitionCount { .. },
                    TopicExists { .. },
                    UnknownTopic { .. },
                    UnknownTopicId { .. },
                    UnknownPartition { .. },
                    UnknownGroup { .. },
                    TooFewPartitions { .. },
                    InvalidSettings { .. },
                    BeyondEnd { .. },
                    BatchTooLarge { .. },
                    UnknownProducer { .. },
                    InvalidProducer { .. },
                    FencedProducer { .. },
                    OutOfOrderSequence { .. },
                    StaleGeneration { .. },
                    InvalidMembers,
                    InvalidLease { .. },
                    UnknownMember { .. },
                    NotOwner { .. },
                    GroupHasMembers { .. },
                    MissingKey { .. },
                    UnreadKeys,
                    InvalidTimestamp { .. },
                    ControlBatch,
                    TransactionalBatch,
                    MetadataTooLong { .. },
                    Claim(_),
                ]
            );
        }
        {
            use events::Refusal::*;
            check_kinds!(
                events(),
                [
                    ConditionFailed { .. },
                    AfterAhead { .. },
                    TooCostly { .. },
                    DuplicateEvent { .. },
                    RepeatedId(_),
                    NothingAsked,
                    TooManyEvents { .. },
                    TooManyConditions { .. },
                    InvalidName(_),
                    InvalidEvent { .. },
                    InvalidQuery { .. },
                    UpstreamBehind { .. },
                    InvalidSource(_),
                    TooManySources,
                    InvalidSubscriptionName(_),
                    InvalidSubscriptionQuery(_),
                    InvalidGroupBy(_),
                    NoAttempts,
                    TooManySubscriptions,
                    UnknownStore,
                    UnknownSubscription,
                    SubscriptionOfAnotherStore,
                    SubscriptionMoved { .. },
                    AheadOfStore { .. },
                    InvalidTag(_),
                    TooManyForgotten,
                    InvalidProjectionName(_),
                    TooManyProjections,
                    UnknownProjection,
                    ProjectionMoved { .. },
                    ReservedStore { .. },
                    Claim(_),
                ]
            );
        }
        {
            use jobs::Refusal::*;
            check_kinds!(
                jobs(),
                [
                    InvalidName { .. },
                    StaleLease { .. },
                    UnknownJob { .. },
                    UnknownQueue { .. },
                    WrongState { .. },
                    Duplicate { .. },
                    QueueDraining { .. },
                    Overloaded { .. },
                    TooManyActive { .. },
                    TooFewAttempts { .. },
                    InvalidWeights,
                    NestedEach,
                    OutOfRange { .. },
                    ControlCharacter { .. },
                    Claim(_),
                    NotPermitted(_),
                ]
            );
        }
        {
            use system::Refusal::*;
            check_kinds!(
                system(),
                [
                    InvalidName(_),
                    UserExists { .. },
                    UnknownUser { .. },
                    UnknownRole { .. },
                    BuiltInRole { .. },
                    RoleInUse { .. },
                    KeyExists { .. },
                    UnknownKey { .. },
                    ExpiryRequired { .. },
                    InvalidRule(_),
                    InvalidCredential,
                    LimitExceeded(_),
                    AlreadyEnabled,
                    NotEnabled,
                    NoAdmin,
                    OwnerOnly,
                    Unaudited { .. },
                ]
            );
        }
        {
            use graph::Refusal::*;
            check_kinds!(
                graph(),
                [
                    VersionMismatch { .. },
                    MissingBlock { .. },
                    TooManyEdges { .. },
                    AheadOfLog { .. },
                    InvalidName { .. },
                    NotJson { .. },
                    OverLimit { .. },
                    Claim(_),
                ]
            );
        }
    }
}
