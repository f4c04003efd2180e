//! The table from failures to codes: one row for each refusal of a model and each kind of error.
//!
//! Every `match` here is complete, so a new refusal does not compile without its row.

use quire::{
    ClaimRefusal, ErrorKind, IdempotencyRefusal, PermissionRefusal, Reason, ResourceKind, events, graph, jobs, streams,
    system,
};

use crate::{Code, KafkaCode};

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The code, which has the status in HTTP and gRPC.
    pub code: Code,
    /// The error code for Kafka clients. Only failures that they can meet have one.
    pub kafka: Option<KafkaCode>,
}

const fn row(code: Code) -> Row {
    Row { code, kafka: None }
}

const fn kafka(code: Code, kafka: KafkaCode) -> Row {
    Row { code, kafka: Some(kafka) }
}

/// The row of an error of the database.
pub fn of_error(kind: ErrorKind) -> Row {
    match kind {
        ErrorKind::Invalid => kafka(Code::Invalid, KafkaCode::InvalidRequest),
        ErrorKind::NotFound => kafka(Code::NotFound, KafkaCode::UnknownTopicOrPartition),
        ErrorKind::Gone => kafka(Code::Gone, KafkaCode::UnknownServerError),
        ErrorKind::Refused => kafka(Code::Refused, KafkaCode::UnknownServerError),
        ErrorKind::Overloaded => kafka(Code::Overloaded, KafkaCode::UnknownServerError),
        // A client must not repeat a request that is too costly.
        ErrorKind::TooCostly => kafka(Code::TooCostly, KafkaCode::PolicyViolation),
        // The client that cancelled its request sees no response.
        ErrorKind::Cancelled => kafka(Code::Cancelled, KafkaCode::NetworkException),
        ErrorKind::TooLarge => kafka(Code::TooLarge, KafkaCode::MessageTooLarge),
        ErrorKind::ReadOnly => kafka(Code::ReadOnly, KafkaCode::UnknownServerError),
        // An operator can repair the disk while Kafka clients retry.
        ErrorKind::NoSpace => kafka(Code::NoSpace, KafkaCode::KafkaStorageError),
        // gRPC: not `UNAVAILABLE`, after which clients repeat a call by themselves. Kafka: a
        // producer refreshes its metadata and sends the batch again; its sequence numbers make the
        // batch count once.
        ErrorKind::Unsettled => kafka(Code::Unsettled, KafkaCode::NotLeaderOrFollower),
        // Nothing was done, so clients may repeat the call by themselves.
        ErrorKind::NotLeader => kafka(Code::NotLeader, KafkaCode::NotLeaderOrFollower),
        ErrorKind::Failed => kafka(Code::Failed, KafkaCode::KafkaStorageError),
        ErrorKind::NotPermitted => kafka(Code::NotPermitted, KafkaCode::TopicAuthorizationFailed),
        ErrorKind::Damaged => kafka(Code::Damaged, KafkaCode::KafkaStorageError),
        ErrorKind::Io => kafka(Code::Io, KafkaCode::KafkaStorageError),
        // The other kinds come from opening a database and from handlers of embedded programs, and
        // a server's database is open.
        _ => kafka(Code::Io, KafkaCode::UnknownServerError),
    }
}

/// The row of a refusal, by the model that refuses.
pub fn of_reason(reason: &Reason) -> Row {
    match reason {
        Reason::Streams(refusal) => of_streams(refusal),
        Reason::Events(refusal) => of_events(refusal),
        Reason::Jobs(refusal) => of_jobs(refusal),
        Reason::Graph(refusal) => of_graph(refusal),
        Reason::System(refusal) => of_system(refusal),
        Reason::Idempotency(refusal) => of_idempotency(refusal),
        Reason::NotPermitted(refused) => of_permission(&refused.refusal),
    }
}

/// The row of a missing permission, which the models share.
pub fn of_permission(refusal: &PermissionRefusal) -> Row {
    kafka(
        Code::NotPermitted,
        match refusal.kind {
            ResourceKind::Topic | ResourceKind::Store | ResourceKind::Queue => KafkaCode::TopicAuthorizationFailed,
            ResourceKind::Group => KafkaCode::GroupAuthorizationFailed,
            ResourceKind::TransactionalId => KafkaCode::TransactionalIdAuthorizationFailed,
            ResourceKind::Cluster | ResourceKind::Graph | ResourceKind::Space | ResourceKind::Admin => {
                KafkaCode::ClusterAuthorizationFailed
            }
        },
    )
}

/// The row of a refused idempotency key.
pub fn of_idempotency(refusal: &IdempotencyRefusal) -> Row {
    row(match refusal {
        IdempotencyRefusal::KeyReused { .. } => Code::IdempotencyKeyReused,
        IdempotencyRefusal::InvalidKey { .. } => Code::InvalidIdempotencyKey,
    })
}

/// The row of a refused name or limit, which the models share.
pub fn of_claim(refusal: &ClaimRefusal) -> Row {
    match refusal {
        ClaimRefusal::NameTaken { .. } => kafka(Code::NameTaken, KafkaCode::TopicAlreadyExists),
        ClaimRefusal::OverLimit { .. } => kafka(Code::LimitExceeded, KafkaCode::PolicyViolation),
    }
}

/// The row of a refusal of a topic or a consumer group.
pub fn of_streams(refusal: &streams::Refusal) -> Row {
    use streams::Refusal;
    match refusal {
        Refusal::InvalidTopicName(_) => kafka(Code::InvalidName, KafkaCode::InvalidTopic),
        Refusal::InvalidGroupName(_) => kafka(Code::InvalidName, KafkaCode::InvalidGroupId),
        Refusal::InvalidPartitionCount { .. } => kafka(Code::InvalidPartitionCount, KafkaCode::InvalidPartitions),
        Refusal::TopicExists { .. } => kafka(Code::TopicExists, KafkaCode::TopicAlreadyExists),
        Refusal::UnknownTopic { .. } => kafka(Code::UnknownTopic, KafkaCode::UnknownTopicOrPartition),
        Refusal::UnknownTopicId { .. } => kafka(Code::UnknownTopic, KafkaCode::UnknownTopicId),
        Refusal::UnknownPartition { .. } => kafka(Code::UnknownPartition, KafkaCode::UnknownTopicOrPartition),
        Refusal::UnknownGroup { .. } => kafka(Code::UnknownGroup, KafkaCode::GroupIdNotFound),
        Refusal::TooFewPartitions { .. } => kafka(Code::TooFewPartitions, KafkaCode::InvalidPartitions),
        Refusal::InvalidSettings { .. } => kafka(Code::InvalidSettings, KafkaCode::InvalidConfig),
        Refusal::BeyondEnd { .. } => kafka(Code::BeyondEnd, KafkaCode::OffsetOutOfRange),
        Refusal::BatchTooLarge { .. } => kafka(Code::BatchTooLarge, KafkaCode::MessageTooLarge),
        Refusal::UnknownProducer { .. } => kafka(Code::UnknownProducer, KafkaCode::UnknownProducerId),
        Refusal::InvalidProducer { .. } => kafka(Code::InvalidProducer, KafkaCode::InvalidRecord),
        Refusal::FencedProducer { .. } => kafka(Code::FencedProducer, KafkaCode::InvalidProducerEpoch),
        Refusal::OutOfOrderSequence { .. } => kafka(Code::OutOfOrderSequence, KafkaCode::OutOfOrderSequence),
        Refusal::StaleGeneration { .. } => kafka(Code::StaleGeneration, KafkaCode::IllegalGeneration),
        Refusal::InvalidMembers => kafka(Code::InvalidMembers, KafkaCode::InvalidRequest),
        Refusal::InvalidLease { .. } => kafka(Code::InvalidLease, KafkaCode::InvalidRequest),
        Refusal::UnknownMember { .. } => kafka(Code::UnknownMember, KafkaCode::UnknownMemberId),
        Refusal::NotOwner { .. } => kafka(Code::NotOwner, KafkaCode::UnknownMemberId),
        Refusal::GroupHasMembers { .. } => kafka(Code::GroupHasMembers, KafkaCode::NonEmptyGroup),
        // The database reads keys itself and repeats the command.
        Refusal::MissingKey { .. } | Refusal::UnreadKeys => kafka(Code::MissingKey, KafkaCode::InvalidRecord),
        Refusal::InvalidTimestamp { .. } => kafka(Code::InvalidTimestamp, KafkaCode::InvalidTimestamp),
        Refusal::ControlBatch => kafka(Code::ControlBatch, KafkaCode::InvalidRecord),
        Refusal::TransactionalBatch => kafka(Code::TransactionalBatch, KafkaCode::InvalidTxnState),
        Refusal::MetadataTooLong { .. } => kafka(Code::MetadataTooLong, KafkaCode::OffsetMetadataTooLarge),
        Refusal::Claim(refusal) => of_claim(refusal),
    }
}

/// The row of a refusal of an event store.
pub fn of_events(refusal: &events::Refusal) -> Row {
    use events::Refusal;
    row(match refusal {
        Refusal::ConditionFailed { .. } => Code::ConditionFailed,
        Refusal::AfterAhead { .. } => Code::AfterAhead,
        Refusal::TooCostly { .. } => Code::TooCostly,
        Refusal::DuplicateEvent { .. } => Code::DuplicateEvent,
        Refusal::RepeatedId(_) => Code::RepeatedId,
        Refusal::NothingAsked => Code::NothingAsked,
        Refusal::TooManyEvents { .. } => Code::TooManyEvents,
        Refusal::TooManyConditions { .. } => Code::TooManyConditions,
        Refusal::InvalidName(_)
        | Refusal::InvalidSource(_)
        | Refusal::InvalidSubscriptionName(_)
        | Refusal::InvalidProjectionName(_) => Code::InvalidName,
        Refusal::InvalidEvent { .. } => Code::InvalidEvent,
        Refusal::InvalidQuery { .. } | Refusal::InvalidSubscriptionQuery(_) => Code::InvalidQuery,
        Refusal::UpstreamBehind { .. } => Code::UpstreamBehind,
        Refusal::TooManySources => Code::TooManySources,
        Refusal::InvalidGroupBy(_) => Code::InvalidGroupBy,
        Refusal::NoAttempts => Code::NoAttempts,
        Refusal::TooManySubscriptions => Code::TooManySubscriptions,
        Refusal::UnknownStore => Code::UnknownStore,
        Refusal::UnknownSubscription => Code::UnknownSubscription,
        Refusal::SubscriptionOfAnotherStore => Code::SubscriptionOfAnotherStore,
        Refusal::SubscriptionMoved { .. } => Code::SubscriptionMoved,
        Refusal::AheadOfStore { .. } => Code::AheadOfStore,
        Refusal::InvalidTag(_) => Code::InvalidTag,
        Refusal::TooManyForgotten => Code::TooManyForgotten,
        Refusal::TooManyProjections => Code::TooManyProjections,
        Refusal::UnknownProjection => Code::UnknownProjection,
        Refusal::ProjectionMoved { .. } => Code::ProjectionMoved,
        Refusal::ReservedStore { .. } => Code::ReservedStore,
        Refusal::Claim(refusal) => return of_claim(refusal),
    })
}

/// The row of a refusal of a queue.
pub fn of_jobs(refusal: &jobs::Refusal) -> Row {
    use jobs::Refusal;
    row(match refusal {
        Refusal::InvalidName { .. } | Refusal::ControlCharacter { .. } => Code::InvalidName,
        Refusal::StaleLease { .. } => Code::StaleLease,
        Refusal::UnknownJob { .. } => Code::UnknownJob,
        Refusal::UnknownQueue { .. } => Code::UnknownQueue,
        Refusal::WrongState { .. } => Code::WrongState,
        Refusal::Duplicate { .. } => Code::Duplicate,
        Refusal::QueueDraining { .. } => Code::QueueDraining,
        Refusal::Overloaded { .. } => Code::Overloaded,
        Refusal::TooManyActive { .. } => Code::TooManyActive,
        Refusal::TooFewAttempts { .. } => Code::TooFewAttempts,
        Refusal::InvalidWeights => Code::InvalidWeights,
        Refusal::NestedEach => Code::NestedEach,
        Refusal::OutOfRange { .. } => Code::OutOfRange,
        Refusal::Claim(refusal) => return of_claim(refusal),
        Refusal::NotPermitted(refusal) => return of_permission(refusal),
    })
}

/// The row of a refusal of a graph.
pub fn of_graph(refusal: &graph::Refusal) -> Row {
    use graph::Refusal;
    row(match refusal {
        Refusal::VersionMismatch { .. } => Code::VersionMismatch,
        Refusal::MissingBlock { .. } => Code::MissingBlock,
        Refusal::TooManyEdges { .. } => Code::TooManyEdges,
        Refusal::AheadOfLog { .. } => Code::AheadOfLog,
        Refusal::InvalidName { .. } => Code::InvalidName,
        Refusal::NotJson { .. } => Code::NotJson,
        Refusal::OverLimit { .. } => Code::OverLimit,
        Refusal::Claim(refusal) => return of_claim(refusal),
    })
}

/// The row of a refused change of users, keys, roles or rules.
pub fn of_system(refusal: &system::Refusal) -> Row {
    use system::{AccessLimit, Refusal};
    match refusal {
        Refusal::InvalidName(_) => kafka(Code::InvalidName, KafkaCode::InvalidRequest),
        Refusal::UserExists { .. } => kafka(Code::UserExists, KafkaCode::DuplicateResource),
        Refusal::UnknownUser { .. } => kafka(Code::UnknownUser, KafkaCode::ResourceNotFound),
        Refusal::UnknownRole { .. } => kafka(Code::UnknownRole, KafkaCode::ResourceNotFound),
        Refusal::InvalidRule(_) => kafka(Code::InvalidRule, KafkaCode::InvalidRequest),
        Refusal::InvalidCredential => kafka(Code::InvalidCredential, KafkaCode::UnacceptableCredential),
        Refusal::LimitExceeded(limit) => match limit {
            AccessLimit::Users | AccessLimit::Keys | AccessLimit::Roles | AccessLimit::Rules | AccessLimit::Quotas => {
                kafka(Code::LimitExceeded, KafkaCode::PolicyViolation)
            }
            AccessLimit::RolesOfUser | AccessLimit::RulesOfKey | AccessLimit::NoteBytes | AccessLimit::RulesOfRole => {
                row(Code::OutOfRange)
            }
        },
        Refusal::Unaudited { .. } => kafka(Code::Unaudited, KafkaCode::PolicyViolation),
        // The Kafka protocol changes neither roles nor keys, and does not enable access control.
        Refusal::BuiltInRole { .. } => row(Code::BuiltInRole),
        Refusal::RoleInUse { .. } => row(Code::RoleInUse),
        Refusal::KeyExists { .. } => row(Code::KeyExists),
        Refusal::UnknownKey { .. } => row(Code::UnknownKey),
        Refusal::ExpiryRequired { .. } => row(Code::ExpiryRequired),
        Refusal::AlreadyEnabled => row(Code::AccessEnabled),
        Refusal::NotEnabled => row(Code::AccessDisabled),
        Refusal::NoAdmin => row(Code::NoAdmin),
        Refusal::OwnerOnly => row(Code::OwnerOnly),
    }
}
