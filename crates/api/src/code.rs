//! The codes of failures: each with its name, its status in each protocol, and what to do.
//!
//! `docs/errors.md` repeats this list, and a test compares the two.

/// A status code of gRPC, with its number in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrpcCode {
    /// The caller cancelled the call.
    Cancelled = 1,
    /// The request is invalid in any state.
    InvalidArgument = 3,
    /// Time ran out.
    DeadlineExceeded = 4,
    /// The named thing does not exist.
    NotFound = 5,
    /// The thing to create already exists.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A limit is reached.
    ResourceExhausted = 8,
    /// The current state does not allow the request.
    FailedPrecondition = 9,
    /// A conflict with concurrent changes.
    Aborted = 10,
    /// A position or size is outside of the valid range.
    OutOfRange = 11,
    /// The server does not offer this.
    Unimplemented = 12,
    /// An error of the server.
    Internal = 13,
    /// The server cannot respond now.
    Unavailable = 14,
    /// Data is damaged.
    DataLoss = 15,
    /// The caller has no valid credentials.
    Unauthenticated = 16,
}

impl GrpcCode {
    /// Its name in the specification of gRPC.
    pub const fn name(self) -> &'static str {
        match self {
            GrpcCode::Cancelled => "CANCELLED",
            GrpcCode::InvalidArgument => "INVALID_ARGUMENT",
            GrpcCode::DeadlineExceeded => "DEADLINE_EXCEEDED",
            GrpcCode::NotFound => "NOT_FOUND",
            GrpcCode::AlreadyExists => "ALREADY_EXISTS",
            GrpcCode::PermissionDenied => "PERMISSION_DENIED",
            GrpcCode::ResourceExhausted => "RESOURCE_EXHAUSTED",
            GrpcCode::FailedPrecondition => "FAILED_PRECONDITION",
            GrpcCode::Aborted => "ABORTED",
            GrpcCode::OutOfRange => "OUT_OF_RANGE",
            GrpcCode::Unimplemented => "UNIMPLEMENTED",
            GrpcCode::Internal => "INTERNAL",
            GrpcCode::Unavailable => "UNAVAILABLE",
            GrpcCode::DataLoss => "DATA_LOSS",
            GrpcCode::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

macro_rules! kafka_codes {
    ($($variant:ident = $number:literal, $name:literal;)+) => {
        /// An error code of the Kafka protocol, with its number.
        ///
        /// A code determines what a Kafka client does. After a *retriable* code it refreshes its
        /// metadata and retries until its own timeout.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum KafkaCode {
            $(#[doc = concat!("`", $name, "`.")] $variant = $number,)+
        }

        impl KafkaCode {
            /// Its name in the Kafka protocol.
            pub const fn name(self) -> &'static str {
                match self { $(KafkaCode::$variant => $name,)+ }
            }

            /// Its number in the Kafka protocol.
            pub const fn number(self) -> i16 {
                self as i16
            }
        }
    };
}

kafka_codes! {
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR";
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE";
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION";
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER";
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE";
    OffsetMetadataTooLarge = 12, "OFFSET_METADATA_TOO_LARGE";
    NetworkException = 13, "NETWORK_EXCEPTION";
    InvalidTopic = 17, "INVALID_TOPIC_EXCEPTION";
    IllegalGeneration = 22, "ILLEGAL_GENERATION";
    InvalidGroupId = 24, "INVALID_GROUP_ID";
    UnknownMemberId = 25, "UNKNOWN_MEMBER_ID";
    TopicAuthorizationFailed = 29, "TOPIC_AUTHORIZATION_FAILED";
    GroupAuthorizationFailed = 30, "GROUP_AUTHORIZATION_FAILED";
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED";
    InvalidTimestamp = 32, "INVALID_TIMESTAMP";
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS";
    InvalidPartitions = 37, "INVALID_PARTITIONS";
    InvalidConfig = 40, "INVALID_CONFIG";
    InvalidRequest = 42, "INVALID_REQUEST";
    PolicyViolation = 44, "POLICY_VIOLATION";
    OutOfOrderSequence = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER";
    InvalidProducerEpoch = 47, "INVALID_PRODUCER_EPOCH";
    InvalidTxnState = 48, "INVALID_TXN_STATE";
    TransactionalIdAuthorizationFailed = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED";
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR";
    UnknownProducerId = 59, "UNKNOWN_PRODUCER_ID";
    NonEmptyGroup = 68, "NON_EMPTY_GROUP";
    GroupIdNotFound = 69, "GROUP_ID_NOT_FOUND";
    InvalidRecord = 87, "INVALID_RECORD";
    ResourceNotFound = 91, "RESOURCE_NOT_FOUND";
    DuplicateResource = 92, "DUPLICATE_RESOURCE";
    UnacceptableCredential = 93, "UNACCEPTABLE_CREDENTIAL";
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID";
}

macro_rules! codes {
    ($($variant:ident $name:literal $reason:literal $http:literal $grpc:ident $title:literal $action:literal)+) => {
        /// A code of a failure. It is stable; messages may change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $title] $variant,)+
        }

        impl Code {
            /// Every code, in the order of `docs/errors.md`.
            pub const ALL: &[Code] = &[$(Code::$variant,)+];

            /// Its name, as HTTP shows it.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)+ }
            }

            /// Its reason, as gRPC shows it: the name in capitals.
            pub const fn reason(self) -> &'static str {
                match self { $(Code::$variant => $reason,)+ }
            }

            /// Its HTTP status.
            pub const fn http(self) -> u16 {
                match self { $(Code::$variant => $http,)+ }
            }

            /// Its gRPC status.
            pub const fn grpc(self) -> GrpcCode {
                match self { $(Code::$variant => GrpcCode::$grpc,)+ }
            }

            /// Its meaning, in one sentence that is the same for each failure with this code.
            pub const fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)+ }
            }

            /// What the client should do.
            pub const fn action(self) -> &'static str {
                match self { $(Code::$variant => $action,)+ }
            }
        }
    };
}

// A conflict with the current state is 409, a request that is invalid in any state 400.
codes! {
    // Invalid requests.
    MalformedJson "malformed_json" "MALFORMED_JSON" 400 InvalidArgument "The body is not JSON." "Correct the body."
    Invalid "invalid" "INVALID" 400 InvalidArgument "A field, parameter or argument is invalid." "Correct the request."
    InvalidHost "invalid_host" "INVALID_HOST" 400 InvalidArgument "The request has no valid `Host`." "Send exactly one header `Host`."
    InvalidName "invalid_name" "INVALID_NAME" 400 InvalidArgument "A name is invalid." "Correct the name."
    InvalidTag "invalid_tag" "INVALID_TAG" 400 InvalidArgument "A tag is invalid." "Correct the tag."
    InvalidGroupBy "invalid_group_by" "INVALID_GROUP_BY" 400 InvalidArgument "The `group_by` of a subscription is invalid." "Correct it: it is the start of a tag."
    InvalidEvent "invalid_event" "INVALID_EVENT" 400 InvalidArgument "An event is invalid." "Correct the event."
    InvalidQuery "invalid_query" "INVALID_QUERY" 400 InvalidArgument "A query is invalid." "Correct the query."
    RepeatedId "repeated_id" "REPEATED_ID" 400 InvalidArgument "Two events of an append have one id." "Give each event an id of its own."
    NothingAsked "nothing_asked" "NOTHING_ASKED" 400 InvalidArgument "An append has no event and no condition." "Add an event or a condition."
    TooManyEvents "too_many_events" "TOO_MANY_EVENTS" 400 InvalidArgument "An append has too many events." "Split the append."
    TooManyConditions "too_many_conditions" "TOO_MANY_CONDITIONS" 400 InvalidArgument "An append has too many conditions." "Join conditions into one query."
    NoAttempts "no_attempts" "NO_ATTEMPTS" 400 InvalidArgument "The `attempts_max` of a subscription is 0." "Give at least 1."
    InvalidPartitionCount "invalid_partition_count" "INVALID_PARTITION_COUNT" 400 InvalidArgument "A topic cannot have this number of partitions." "Choose a number in the range."
    InvalidSettings "invalid_settings" "INVALID_SETTINGS" 400 InvalidArgument "A setting of a topic is invalid." "Correct the setting."
    MissingKey "missing_key" "MISSING_KEY" 400 InvalidArgument "A record of a compacted topic has no key." "Give each record a key."
    InvalidTimestamp "invalid_timestamp" "INVALID_TIMESTAMP" 400 InvalidArgument "The time of a record is too far from now." "Correct the time: it is in milliseconds since 1970."
    ControlBatch "control_batch" "CONTROL_BATCH" 400 InvalidArgument "A producer sent a control batch." "Send records only."
    TransactionalBatch "transactional_batch" "TRANSACTIONAL_BATCH" 400 InvalidArgument "A producer sent a transactional batch." "Produce without a transaction."
    InvalidProducer "invalid_producer" "INVALID_PRODUCER" 400 InvalidArgument "The numbers of a producer are invalid." "Initialize the producer again."
    InvalidMembers "invalid_members" "INVALID_MEMBERS" 400 InvalidArgument "The members of a group are invalid." "Correct their names."
    InvalidLease "invalid_lease" "INVALID_LEASE" 400 InvalidArgument "The lease of a group member is invalid." "Choose a lease in the range."
    MetadataTooLong "metadata_too_long" "METADATA_TOO_LONG" 400 InvalidArgument "The metadata of a committed offset is too long." "Shorten it."
    InvalidWeights "invalid_weights" "INVALID_WEIGHTS" 400 InvalidArgument "The weights of a fetch are invalid." "Give one weight for each queue, each at least 1."
    NestedEach "nested_each" "NESTED_EACH" 400 InvalidArgument "An `each` contains an `each`." "Put all commands into one `each`."
    OutOfRange "out_of_range" "OUT_OF_RANGE" 400 InvalidArgument "A number or size is outside of its range." "Choose a value in the range."
    NotJson "not_json" "NOT_JSON" 400 InvalidArgument "Metadata or properties are not JSON." "Give valid JSON."
    OverLimit "over_limit" "OVER_LIMIT" 400 InvalidArgument "A size or number exceeds a limit of graphs." "Give less."
    InvalidRule "invalid_rule" "INVALID_RULE" 400 InvalidArgument "An access rule is invalid." "Correct the rule."
    InvalidCredential "invalid_credential" "INVALID_CREDENTIAL" 400 InvalidArgument "The credential of a password is invalid." "Correct its iterations, salt and keys."
    ExpiryRequired "expiry_required" "EXPIRY_REQUIRED" 400 InvalidArgument "The API key of a user without the role `admin` must expire." "Give the key a lifetime."
    InvalidIdempotencyKey "invalid_idempotency_key" "INVALID_IDEMPOTENCY_KEY" 400 InvalidArgument "An idempotency key is invalid." "Give 1 to 255 bytes without control characters."
    // Conflicts with the current state.
    ConditionFailed "condition_failed" "CONDITION_FAILED" 409 Aborted "A condition does not hold." "Read again, then decide again."
    AfterAhead "after_ahead" "AFTER_AHEAD" 409 FailedPrecondition "The `after` of a condition is beyond the last event." "Read the store again: the position is of another store, or was lost."
    DuplicateEvent "duplicate_event" "DUPLICATE_EVENT" 409 AlreadyExists "Another event has the id." "Use a new id, or repeat the same append."
    UpstreamBehind "upstream_behind" "UPSTREAM_BEHIND" 409 AlreadyExists "The source was already read up to this position." "Continue after the known position."
    TooManySources "too_many_sources" "TOO_MANY_SOURCES" 409 ResourceExhausted "The store reads from as many sources as it may." "Use fewer sources."
    TooManySubscriptions "too_many_subscriptions" "TOO_MANY_SUBSCRIPTIONS" 409 ResourceExhausted "There are as many subscriptions as there may be." "Drop subscriptions."
    TooManyForgotten "too_many_forgotten" "TOO_MANY_FORGOTTEN" 409 ResourceExhausted "The store has forgotten as many tags as it may." "Trim the store instead."
    TooManyProjections "too_many_projections" "TOO_MANY_PROJECTIONS" 409 ResourceExhausted "The store keeps as many projections as it may." "Drop projections."
    UnknownStore "unknown_store" "UNKNOWN_STORE" 409 NotFound "The event store does not exist." "Correct the name, or append an event first."
    UnknownSubscription "unknown_subscription" "UNKNOWN_SUBSCRIPTION" 409 NotFound "The subscription does not exist." "Correct the name."
    UnknownProjection "unknown_projection" "UNKNOWN_PROJECTION" 409 NotFound "The saved projection does not exist." "Correct the name."
    SubscriptionOfAnotherStore "subscription_of_another_store" "SUBSCRIPTION_OF_ANOTHER_STORE" 409 AlreadyExists "A subscription of another store has the name." "Choose another name."
    SubscriptionMoved "subscription_moved" "SUBSCRIPTION_MOVED" 409 Aborted "Another client moved the subscription." "Read its position again."
    ProjectionMoved "projection_moved" "PROJECTION_MOVED" 409 Aborted "Another client saved the projection." "Load it again, then fold from its position."
    AheadOfStore "ahead_of_store" "AHEAD_OF_STORE" 409 FailedPrecondition "The position is beyond the last event of the store." "Choose a position up to the head."
    NameTaken "name_taken" "NAME_TAKEN" 409 AlreadyExists "Kafka clients see another object under the topic name." "Choose another name."
    LimitExceeded "limit_exceeded" "LIMIT_EXCEEDED" 409 ResourceExhausted "The database has as many of these objects as it may." "Delete some, or raise the setting."
    TopicExists "topic_exists" "TOPIC_EXISTS" 409 AlreadyExists "The topic already exists." "Use it, or choose another name."
    UnknownTopic "unknown_topic" "UNKNOWN_TOPIC" 409 NotFound "The topic does not exist." "Correct the name, or create the topic."
    UnknownPartition "unknown_partition" "UNKNOWN_PARTITION" 409 NotFound "The topic has no such partition." "Choose one of its partitions."
    UnknownGroup "unknown_group" "UNKNOWN_GROUP" 409 NotFound "The consumer group does not exist." "Correct the name."
    TooFewPartitions "too_few_partitions" "TOO_FEW_PARTITIONS" 409 FailedPrecondition "A topic cannot lose partitions." "Choose a greater number."
    BeyondEnd "beyond_end" "BEYOND_END" 409 FailedPrecondition "The offset is beyond the end of the partition." "Choose an offset up to the end."
    BatchTooLarge "batch_too_large" "BATCH_TOO_LARGE" 409 FailedPrecondition "A batch is larger than its topic accepts." "Send smaller batches, or raise `batch_bytes_max`."
    StaleGeneration "stale_generation" "STALE_GENERATION" 409 FailedPrecondition "The generation of the group is stale." "Rejoin the group."
    GroupHasMembers "group_has_members" "GROUP_HAS_MEMBERS" 409 FailedPrecondition "The group has members." "Stop them first."
    UnknownMember "unknown_member" "UNKNOWN_MEMBER" 409 NotFound "The group has no such member." "Rejoin the group."
    NotOwner "not_owner" "NOT_OWNER" 409 FailedPrecondition "Another member reads the partition." "Rejoin the group."
    MemberReplaced "member_replaced" "MEMBER_REPLACED" 409 Aborted "Another client took the place of the member." "Give each client a name of its own."
    UnknownProducer "unknown_producer" "UNKNOWN_PRODUCER" 409 NotFound "The producer id is unknown." "Initialize the producer again."
    FencedProducer "fenced_producer" "FENCED_PRODUCER" 409 FailedPrecondition "A later epoch of the producer writes." "Stop this producer."
    OutOfOrderSequence "out_of_order_sequence" "OUT_OF_ORDER_SEQUENCE" 409 FailedPrecondition "A batch of the producer is missing, or came again too late." "Initialize the producer again."
    StaleLease "stale_lease" "STALE_LEASE" 409 FailedPrecondition "The lease of the job no longer holds." "Discard the work, or make it safe to repeat."
    WrongState "wrong_state" "WRONG_STATE" 409 FailedPrecondition "The state of the job does not allow the change." "See the states of jobs."
    UnknownJob "unknown_job" "UNKNOWN_JOB" 409 NotFound "The job does not exist, or its history was trimmed." "Correct the id."
    Duplicate "duplicate" "DUPLICATE" 409 AlreadyExists "Another job has the unique key." "Use the other job."
    UnknownQueue "unknown_queue" "UNKNOWN_QUEUE" 409 NotFound "The queue does not exist." "Correct the name."
    QueueDraining "queue_draining" "QUEUE_DRAINING" 409 FailedPrecondition "The queue accepts no new jobs: it is draining." "Use another queue, or end the draining."
    TooManyActive "too_many_active" "TOO_MANY_ACTIVE" 409 FailedPrecondition "The queue has as many active jobs as it may." "Move the job when it is not active."
    TooFewAttempts "too_few_attempts" "TOO_FEW_ATTEMPTS" 409 FailedPrecondition "The job already started more attempts." "Choose a greater number."
    VersionMismatch "version_mismatch" "VERSION_MISMATCH" 409 Aborted "The block has another version." "Read the block again, then decide again."
    MissingBlock "missing_block" "MISSING_BLOCK" 409 FailedPrecondition "An end of the edge does not exist." "Put the block first, or set `allow_missing`."
    TooManyEdges "too_many_edges" "TOO_MANY_EDGES" 409 FailedPrecondition "The commit deletes too many edges." "Delete edges of the block in several commits first."
    AheadOfLog "ahead_of_log" "AHEAD_OF_LOG" 409 FailedPrecondition "The position is beyond the end of the log." "Choose a position up to the end."
    UserExists "user_exists" "USER_EXISTS" 409 AlreadyExists "The user already exists." "Use it, or choose another name."
    UnknownUser "unknown_user" "UNKNOWN_USER" 409 NotFound "The user does not exist." "Correct the name, or create the user."
    KeyExists "key_exists" "KEY_EXISTS" 409 AlreadyExists "An API key of this id already exists." "Create another key."
    UnknownKey "unknown_key" "UNKNOWN_KEY" 409 NotFound "The API key does not exist." "Correct the id."
    UnknownRole "unknown_role" "UNKNOWN_ROLE" 409 NotFound "The role does not exist." "Correct the name, or put the role."
    BuiltInRole "built_in_role" "BUILT_IN_ROLE" 409 FailedPrecondition "A built-in role cannot be changed." "Put a role of another name."
    RoleInUse "role_in_use" "ROLE_IN_USE" 409 FailedPrecondition "A user has the role." "Change the roles of its users first."
    AccessEnabled "access_enabled" "ACCESS_ENABLED" 409 FailedPrecondition "Access control is already enabled." "Use an administrator's key."
    AccessDisabled "access_disabled" "ACCESS_DISABLED" 409 FailedPrecondition "Access control is not enabled." "Create the first administrator."
    NoAdmin "no_admin" "NO_ADMIN" 409 FailedPrecondition "No enabled user has the role `admin`." "Create an administrator first."
    Unaudited "unaudited" "UNAUDITED" 409 FailedPrecondition "The audit event of a change of access is refused." "Remove the cause, which the message names."
    Refused "refused" "REFUSED" 409 FailedPrecondition "The current state does not allow the commit." "Read again, then decide again."
    // Everything else.
    Unauthenticated "unauthenticated" "UNAUTHENTICATED" 401 Unauthenticated "The request has no valid credentials." "Send a valid API key."
    NotPermitted "not_permitted" "NOT_PERMITTED" 403 PermissionDenied "The client lacks a permission." "Ask an administrator for the permission."
    OwnerOnly "owner_only" "OWNER_ONLY" 403 PermissionDenied "Only the owner of the directory may do this." "Use a program that opens the directory."
    ReservedStore "reserved_store" "RESERVED_STORE" 403 PermissionDenied "Only the database itself changes the event store." "Choose another store."
    ReadOnly "read_only" "READ_ONLY" 403 FailedPrecondition "The database was opened read-only." "Use a server that writes."
    ForeignOrigin "foreign_origin" "FOREIGN_ORIGIN" 403 PermissionDenied "A page of another origin sent the request." "Call from a program, or allow the origin."
    NotFound "not_found" "NOT_FOUND" 404 NotFound "The named thing does not exist." "Correct the name or position."
    UnknownRoute "unknown_route" "UNKNOWN_ROUTE" 404 Unimplemented "No route has this path." "Correct the path."
    OffsetOutOfRange "offset_out_of_range" "OFFSET_OUT_OF_RANGE" 404 OutOfRange "The partition has no record at this offset." "Choose an offset from `start` to `next`."
    MethodNotAllowed "method_not_allowed" "METHOD_NOT_ALLOWED" 405 Unimplemented "The path does not accept this method." "Use a method of the header `Allow`."
    Timeout "timeout" "TIMEOUT" 408 DeadlineExceeded "The request did not arrive in time." "Send it again, without pauses."
    Gone "gone" "GONE" 410 OutOfRange "The history was trimmed." "Read as of a later position, which the message names."
    TooLarge "too_large" "TOO_LARGE" 413 OutOfRange "The request or response is too large." "Split the commit, or request less at once."
    UnsupportedEncoding "unsupported_encoding" "UNSUPPORTED_ENCODING" 415 Unimplemented "The encoding of the body is not supported." "Send the body in an encoding of the header `Accept-Encoding`."
    UnsupportedMediaType "unsupported_media_type" "UNSUPPORTED_MEDIA_TYPE" 415 InvalidArgument "The type of the body is not supported." "Send the body as `application/json`."
    UnknownHost "unknown_host" "UNKNOWN_HOST" 421 PermissionDenied "`Host` is no name of this server." "Use the server's address, or add the name with `--http-host`."
    IdempotencyKeyReused "idempotency_key_reused" "IDEMPOTENCY_KEY_REUSED" 422 FailedPrecondition "Another commit has the idempotency key." "Give each commit a key of its own."
    TooCostly "too_costly" "TOO_COSTLY" 422 ResourceExhausted "The request needs more steps than the server allows." "Narrow the request, or read in parts."
    Overloaded "overloaded" "OVERLOADED" 429 ResourceExhausted "A queue or the memory of the server is full." "Wait for `retry_after`, then send the request again."
    Damaged "damaged" "DAMAGED" 500 DataLoss "Files are damaged." "Check the server."
    Io "io" "IO" 500 Internal "The operating system refused an operation." "Check the server."
    Failed "failed" "FAILED" 503 Unavailable "The database can no longer keep its promises." "Restart the server."
    Unsettled "unsettled" "UNSETTLED" 503 Aborted "The commit may or may not survive." "Look for its effect, or repeat it so that it counts once."
    NotLeader "not_leader" "NOT_LEADER" 503 Unavailable "Another node of the cluster is the leader, or none is." "Send it to the leader, which the message names, or retry."
    Cancelled "cancelled" "CANCELLED" 503 Cancelled "The client cancelled the request." "Send it again if its answer is still wanted."
    Stalled "stalled" "STALLED" 503 Unavailable "The log was not synced in time." "Retry; check the disk of the server."
    Stopping "stopping" "STOPPING" 503 Unavailable "The server is stopping." "Retry when it is back."
    TooManyConnections "too_many_connections" "TOO_MANY_CONNECTIONS" 503 Unavailable "The server has too many connections." "Close unused ones, or retry later."
    NoSegment "no_segment" "NO_SEGMENT" 503 Unavailable "A segment could not be created." "Check the disk of the server."
    NoSpace "no_space" "NO_SPACE" 507 ResourceExhausted "The disk is full." "Free disk space."
}

impl Code {
    /// The code with this name.
    pub fn from_name(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_code_has_one_name_and_its_reason_is_the_name_in_capitals() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(code.reason(), code.name().to_ascii_uppercase());
            assert_eq!(Code::from_name(code.name()), Some(*code));
            assert!((400..600).contains(&code.http()), "{code:?}");
        }
    }
}
