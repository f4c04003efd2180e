//! The table of operations: one for each route and method.

use quire_api::ListPage;
use quire_api::reply::{
    AccessChangeReply, AccessCheckReply, AccessSelfReply, ApiKeyReply, NewKeyReply, RoleReply, RuleReply, UserReply,
};
use quire_api::reply::{
    AppendReply, BlockCount, BlockReply, BlocksAnswer, BlocksReply, BulkReply, ChangeReply, ChangesRead,
    ClusterChangeReply, ClusterReply, CommitReply, CommitsRead, CompactionReply, ComponentsReply, Degree,
    DeliveredReply, DryRunReply, EdgeReply, EventReply, EventsRead, FetchReply, GraphRead, GraphReply, GroupEventReply,
    GroupReply, GroupWithOffsets, Health, HistoryReply, ImportReply, JobEventReply, JobReply, JobWithHistory,
    LoggedCommitReply, MissingBlock, NeighbourCount, NeighbourReply, OneGraph, OrderReply, PathsReply, PositionReply,
    ProjectReply, ProjectionReply, QueueReply, RecordReply, RecordsPosition, RefusedCommitReply, SourceReply,
    SourcesRead, SqlReply, Stats, StatsReply, StoreReply, SubscriptionReply, TextIndexReply, TopicGroupReply,
    TopicReply, TopicWithPartitions, VersionReply, WalkCount, WalkReply,
};
use quire_api::request::access::{
    AccessCheckRequest, InitAccess, KeyChange, NewKeyRequest, NewUserRequest, PasswordRequest, RoleRequest,
    RuleRequest, UserChange,
};
use quire_api::request::{
    Ack, AppendRequest, BulkRequest, ChangeRequest, CommitRequest, CreateTopic, Enqueue, Fail, FetchRequest, Heartbeat,
    Produce, PutBlockPart, ReadRequest, SavedProjectionRequest, SettingsChange, Snooze, SubscriptionRequest,
};

use super::row::{
    DIRECTION, Describe, OperationRow, ParameterKind, RequestShape, ResponseShape, delete, get, of, post,
};
use crate::events::project::ProjectRequest;
use crate::graph::get::BlocksRequest;
use crate::graph::walks::StartsRequest;
use crate::groups::{GroupEventRequest, PositionRequest};
use crate::indexes::TextIndexRequest;
use crate::queues::FetchAllRequest;
use crate::sql::SqlRequest;

const BY: ParameterKind = ParameterKind::Word(&["name", "id"]);
const FORMAT: ParameterKind = ParameterKind::Word(&["jsonl", "csv-blocks", "csv-edges", "graphml"]);
const FILES: &[&str] = &["application/x-ndjson", "text/csv", "application/graphml+xml"];
const STATES: ParameterKind = ParameterKind::Word(&[
    "blocked",
    "scheduled",
    "pending",
    "active",
    "retrying",
    "held",
    "completed",
    "cancelled",
    "dead",
]);

/// The operations, in the order of the routes.
pub(crate) fn operations() -> Vec<OperationRow> {
    let mut all = events();
    all.extend(topics());
    all.extend(jobs());
    all.extend(graphs());
    all.extend(access());
    all.extend(server());
    all
}

fn events() -> Vec<OperationRow> {
    let put = post(
        "/v1/events/{store}/subscriptions/{name}",
        "Creates or changes a named subscription.",
        RequestShape::Of(of::<SubscriptionRequest<'_>>),
        ResponseShape::Of(of::<SubscriptionReply>),
    );
    let save = post(
        "/v1/events/{store}/projections/{name}",
        "Saves the state of a projection.",
        RequestShape::Of(of::<SavedProjectionRequest<'_>>),
        ResponseShape::Empty,
    );
    vec![
        post(
            "/v1/commit",
            "Commits parts of any models: all of them, or none.",
            RequestShape::Of(of::<CommitRequest<'_>>),
            ResponseShape::Any(&[of::<CommitReply<'_>>, of::<DryRunReply<'_>>]),
        )
        .flag("dry_run")
        .key(),
        get("/v1/events", "Lists the event stores.", ResponseShape::Of(of::<ListPage<StoreReply>>)),
        get("/v1/events/{store}", "Reads events.", ResponseShape::Of(of::<ListPage<EventReply<'_>, EventsRead>>))
            .page()
            .number("after")
            .number("up_to")
            .number("before")
            .flag("backwards")
            .list(&["type", "tag"]),
        post(
            "/v1/events/{store}/append",
            "Appends events under conditions.",
            RequestShape::Of(of::<AppendRequest<'_>>),
            ResponseShape::Of(of::<AppendReply>),
        )
        .key(),
        post(
            "/v1/events/{store}/read",
            "Reads the events that match a query.",
            RequestShape::Of(of::<ReadRequest<'_>>),
            ResponseShape::Of(of::<ListPage<EventReply<'_>, EventsRead>>),
        ),
        post(
            "/v1/events/{store}/project",
            "Folds events into states.",
            RequestShape::Of(of::<ProjectRequest<'_>>),
            ResponseShape::Of(of::<ProjectReply>),
        ),
        get("/v1/events/{store}/subscribe", "Streams events.", ResponseShape::Events(of::<EventReply<'_>>))
            .with("query", ParameterKind::Text)
            .number("after")
            .list(&["type", "tag"]),
        get("/v1/events/{store}/head", "Returns the last position of a store.", ResponseShape::Of(of::<StoreReply>)),
        get("/v1/events/{store}/stats", "Returns the counts of a store.", ResponseShape::Of(of::<StatsReply>)),
        get(
            "/v1/events/{store}/sources",
            "Lists the sources that a store reads.",
            ResponseShape::Of(of::<ListPage<SourceReply, SourcesRead>>),
        ),
        get(
            "/v1/events/{store}/subscriptions",
            "Lists the named subscriptions of a store.",
            ResponseShape::Of(of::<ListPage<SubscriptionReply>>),
        ),
        get(
            "/v1/events/{store}/subscriptions/{name}",
            "Returns a named subscription.",
            ResponseShape::Of(of::<SubscriptionReply>),
        ),
        put,
        delete("/v1/events/{store}/subscriptions/{name}", "Deletes a named subscription.", ResponseShape::Empty),
        post(
            "/v1/events/{store}/subscriptions/{name}/fetch",
            "Leases deliveries of a subscription to a worker.",
            RequestShape::Of(of::<FetchRequest<'_>>),
            ResponseShape::Of(of::<DeliveredReply<'_>>),
        ),
        get(
            "/v1/events/{store}/projections",
            "Lists the saved projections of a store.",
            ResponseShape::Of(of::<ListPage<ProjectionReply<'_>>>),
        ),
        get(
            "/v1/events/{store}/projections/{name}",
            "Returns a saved projection.",
            ResponseShape::Of(of::<ProjectionReply<'_>>),
        ),
        save.key(),
        delete("/v1/events/{store}/projections/{name}", "Deletes a saved projection.", ResponseShape::Empty).key(),
    ]
}

fn topics() -> Vec<OperationRow> {
    vec![
        get("/v1/topics", "Lists the topics.", ResponseShape::Of(of::<ListPage<TopicReply>>)),
        post(
            "/v1/topics",
            "Creates a topic.",
            RequestShape::Of(of::<CreateTopic<'_>>),
            ResponseShape::Part("topic_created"),
        )
        .key(),
        get("/v1/topics/{topic}", "Returns a topic and its partitions.", ResponseShape::Of(of::<TopicWithPartitions>))
            .number("written")
            .with("wait_ms", ParameterKind::Number(0, 60_000)),
        post(
            "/v1/topics/{topic}/records",
            "Produces a message.",
            RequestShape::Without(of::<Produce<'_>>, &["topic"]),
            ResponseShape::Part("produced"),
        )
        .key(),
        get(
            "/v1/topics/{topic}/partitions/{partition}/records",
            "Reads records from an offset or a time on.",
            ResponseShape::Of(of::<ListPage<RecordReply, RecordsPosition>>),
        )
        .page()
        .number("offset")
        .number("timestamp_ms")
        .with("bytes_max", ParameterKind::Number(1, quire_access::RECORDS_BYTES_MAX as u64)),
        get(
            "/v1/topics/{topic}/groups/{group}",
            "Returns the offsets of a group in a topic.",
            ResponseShape::Of(of::<TopicGroupReply>),
        ),
        get("/v1/groups", "Lists the consumer groups.", ResponseShape::Of(of::<ListPage<GroupReply>>)),
        get(
            "/v1/groups/{group}",
            "Returns a group, its members and offsets.",
            ResponseShape::Of(of::<GroupWithOffsets>),
        ),
        post(
            "/v1/groups/{group}/stores/{store}",
            "Sets a group's offset in an event store.",
            RequestShape::Of(of::<PositionRequest>),
            ResponseShape::Of(of::<PositionReply>),
        ),
        post(
            "/v1/groups/{group}/queues/{queue}",
            "Sets a group's offset in the history of a queue.",
            RequestShape::Of(of::<GroupEventRequest>),
            ResponseShape::Of(of::<GroupEventReply>),
        ),
    ]
}

fn jobs() -> Vec<OperationRow> {
    let on_job = |path, summary, body: Describe| {
        post(path, summary, RequestShape::Without(body, &["job"]), ResponseShape::Of(of::<CommitReply<'_>>)).key()
    };
    vec![
        get("/v1/queues", "Lists the queues.", ResponseShape::Of(of::<ListPage<QueueReply>>)),
        get("/v1/queues/{queue}", "Returns a queue: its counts and settings.", ResponseShape::Of(of::<QueueReply>)),
        delete("/v1/queues/{queue}", "Removes a queue with its jobs.", ResponseShape::Of(of::<CommitReply<'_>>)).key(),
        post(
            "/v1/queues/{queue}/settings",
            "Changes settings of a queue.",
            RequestShape::Of(of::<SettingsChange>),
            ResponseShape::Of(of::<CommitReply<'_>>),
        )
        .key(),
        post(
            "/v1/queues/{queue}/clear",
            "Cancels the jobs of a queue that are not active.",
            RequestShape::None,
            ResponseShape::Of(of::<CommitReply<'_>>),
        )
        .key(),
        get(
            "/v1/queues/{queue}/jobs",
            "Lists the jobs of a queue in one state.",
            ResponseShape::Of(of::<ListPage<JobReply>>),
        )
        .with("state", STATES)
        .page(),
        post(
            "/v1/queues/{queue}/jobs",
            "Enqueues a job.",
            RequestShape::Without(of::<Enqueue<'_>>, &["queue"]),
            ResponseShape::Part("enqueued"),
        )
        .key(),
        post(
            "/v1/queues/{queue}/fetch",
            "Leases jobs of a queue to a worker.",
            RequestShape::Of(of::<FetchRequest<'_>>),
            ResponseShape::Of(of::<FetchReply<'_>>),
        )
        .key(),
        post(
            "/v1/fetch",
            "Leases jobs of several queues to a worker.",
            RequestShape::Of(of::<FetchAllRequest<'_>>),
            ResponseShape::Of(of::<FetchReply<'_>>),
        )
        .key(),
        get("/v1/jobs", "Searches jobs.", ResponseShape::Of(of::<ListPage<JobReply>>))
            .with("queue", ParameterKind::Text)
            .list(&["state", "tag", "job"])
            .with("kind", ParameterKind::Text)
            .with("error", ParameterKind::Text)
            .number("enqueued_from_ms")
            .number("enqueued_before_ms")
            .number("finished_from_ms")
            .number("finished_before_ms")
            .with("attempts_min", ParameterKind::Number(0, 65_535))
            .page(),
        get("/v1/jobs/subscribe", "Streams the life cycle of jobs.", ResponseShape::Events(of::<JobEventReply>))
            .list(&["queue", "job", "kind", "tag", "event"])
            .with("after", ParameterKind::Text),
        get("/v1/jobs/{job}", "Returns a job and its last steps.", ResponseShape::Of(of::<JobWithHistory>))
            .with("limit", ParameterKind::Number(1, 10_000)),
        post(
            "/v1/jobs/{job}/change",
            "Changes a job.",
            RequestShape::Of(of::<ChangeRequest<'_>>),
            ResponseShape::Of(of::<CommitReply<'_>>),
        )
        .key(),
        on_job("/v1/jobs/{job}/snooze", "Returns a job to its queue for later.", of::<Snooze>),
        on_job("/v1/jobs/{job}/ack", "Completes a job.", of::<Ack<'_>>),
        on_job("/v1/jobs/{job}/fail", "Ends an attempt as failed.", of::<Fail<'_>>),
        on_job("/v1/jobs/{job}/heartbeat", "Extends the lease of a job.", of::<Heartbeat<'_>>),
        get("/v1/bulks", "Lists the bulk changes.", ResponseShape::Of(of::<ListPage<BulkReply>>)),
        post(
            "/v1/bulks",
            "Starts a change of many jobs.",
            RequestShape::Of(of::<BulkRequest<'_>>),
            ResponseShape::Of(of::<CommitReply<'_>>),
        )
        .key(),
        get("/v1/bulks/{bulk}", "Returns the progress of a bulk change.", ResponseShape::Of(of::<BulkReply>)),
    ]
}

fn graphs() -> Vec<OperationRow> {
    let starts = || RequestShape::Of(of::<StartsRequest<'_>>);
    vec![
        get("/v1/graphs", "Lists the graphs.", ResponseShape::Of(of::<ListPage<GraphReply>>)),
        get("/v1/graphs/{graph}", "Returns the counts of a graph.", ResponseShape::Of(of::<OneGraph>)),
        get(
            "/v1/graphs/{graph}/blocks",
            "Lists blocks.",
            ResponseShape::Any(&[of::<ListPage<BlockReply, GraphRead>>, of::<BlockCount>]),
        )
        .filter()
        .with("source_prefix", ParameterKind::Text)
        .flag("count")
        .number("at")
        .page(),
        get("/v1/graphs/{graph}/blocks/{block}", "Returns a block.", ResponseShape::Of(of::<BlockReply>))
            .with("by", BY)
            .number("at"),
        post(
            "/v1/graphs/{graph}/blocks/{block}",
            "Puts a block.",
            RequestShape::Without(of::<PutBlockPart<'_>>, &["graph", "block"]),
            ResponseShape::Part("block_put"),
        )
        .with("by", BY)
        .key(),
        get(
            "/v1/graphs/{graph}/blocks/{block}/versions",
            "Lists the versions of a block.",
            ResponseShape::Of(of::<ListPage<VersionReply>>),
        )
        .with("by", BY)
        .number("before")
        .page(),
        get(
            "/v1/graphs/{graph}/blocks/{block}/neighbours",
            "Lists the neighbours of a block.",
            ResponseShape::Any(&[of::<ListPage<NeighbourReply, GraphRead>>, of::<NeighbourCount>]),
        )
        .with("by", BY)
        .with("direction", DIRECTION)
        .list(&["type"])
        .flag("count")
        .number("at")
        .page(),
        get(
            "/v1/graphs/{graph}/blocks/{block}/degree",
            "Counts the edges of a block.",
            ResponseShape::Of(of::<Degree>),
        )
        .with("by", BY)
        .list(&["type"])
        .number("at"),
        get("/v1/graphs/{graph}/edges", "Returns an edge.", ResponseShape::Of(of::<EdgeReply>))
            .requires("source")
            .requires("type")
            .requires("target")
            .with("by", BY)
            .number("at"),
        post(
            "/v1/graphs/{graph}/get",
            "Returns several blocks.",
            RequestShape::Of(of::<BlocksRequest<'_>>),
            ResponseShape::Of(of::<BlocksReply<BlocksAnswer>>),
        ),
        post(
            "/v1/graphs/{graph}/exists",
            "Reports which blocks exist.",
            RequestShape::Of(of::<BlocksRequest<'_>>),
            ResponseShape::Of(of::<BlocksReply<BlocksAnswer>>),
        ),
        get("/v1/graphs/{graph}/walk", "Walks from a block.", ResponseShape::Any(&[of::<WalkReply>, of::<WalkCount>]))
            .requires("start")
            .with("by", BY)
            .with("order", ParameterKind::Word(&["breadth", "depth"]))
            .flag("edges")
            .flag("count")
            .walk(),
        get("/v1/graphs/{graph}/paths", "Finds paths between two blocks.", ResponseShape::Of(of::<PathsReply>))
            .requires("from")
            .requires("to")
            .with("by", BY)
            .flag("all")
            .walk(),
        get("/v1/graphs/{graph}/order", "Orders blocks by their edges.", ResponseShape::Of(of::<OrderReply>))
            .list(&["start"])
            .with("by", BY)
            .walk(),
        post(
            "/v1/graphs/{graph}/order",
            "Orders blocks by their edges.",
            starts(),
            ResponseShape::Of(of::<OrderReply>),
        )
        .walk(),
        get("/v1/graphs/{graph}/components", "Finds strong components.", ResponseShape::Of(of::<ComponentsReply>))
            .list(&["start"])
            .with("by", BY)
            .walk(),
        post(
            "/v1/graphs/{graph}/components",
            "Finds strong components.",
            starts(),
            ResponseShape::Of(of::<ComponentsReply>),
        )
        .walk(),
        get(
            "/v1/graphs/{graph}/missing",
            "Lists the ends of edges that do not exist.",
            ResponseShape::Of(of::<ListPage<MissingBlock>>),
        )
        .with("limit", ParameterKind::Number(1, 10_000))
        .number("cursor"),
        get(
            "/v1/graphs/{graph}/changes",
            "Lists the changes of a graph.",
            ResponseShape::Of(of::<ListPage<ChangeReply, ChangesRead>>),
        )
        .with("after", ParameterKind::Text)
        .with("wait_ms", ParameterKind::Number(0, 60_000))
        .page(),
        get(
            "/v1/graphs/{graph}/subscribe",
            "Streams the changes of a graph.",
            ResponseShape::Events(of::<ChangeReply>),
        )
        .with("after", ParameterKind::Text),
        get("/v1/graphs/{graph}/export", "Exports a graph as a file.", ResponseShape::File(FILES))
            .with("format", FORMAT)
            .number("at"),
        post(
            "/v1/graphs/{graph}/import",
            "Puts the blocks and edges of a file.",
            RequestShape::File(FILES),
            ResponseShape::Lines(of::<ImportReply>),
        )
        .with("format", FORMAT)
        .flag("batches")
        .flag("allow_missing")
        .flag("progress"),
    ]
}

fn access() -> Vec<OperationRow> {
    let changed = || ResponseShape::Of(of::<AccessChangeReply>);
    vec![
        get("/v1/access/self", "Returns the principal of the client.", ResponseShape::Of(of::<AccessSelfReply>)),
        post(
            "/v1/access/init",
            "Creates the first administrator, and enables access control.",
            RequestShape::Of(of::<InitAccess<'static>>),
            ResponseShape::Of(of::<NewKeyReply>),
        ),
        get("/v1/access/users", "Lists the users.", ResponseShape::Of(of::<ListPage<UserReply>>)),
        post("/v1/access/users", "Creates a user.", RequestShape::Of(of::<NewUserRequest<'static>>), changed()),
        post(
            "/v1/access/users/{user}",
            "Replaces the roles of a user, and enables or disables it.",
            RequestShape::Of(of::<UserChange<'static>>),
            changed(),
        ),
        delete("/v1/access/users/{user}", "Drops a user with its keys, credentials and rules.", changed()),
        post(
            "/v1/access/users/{user}/password",
            "Gives a user a password, in place of an earlier one.",
            RequestShape::Of(of::<PasswordRequest<'static>>),
            changed(),
        ),
        delete("/v1/access/users/{user}/password", "Drops the password of a user.", changed()),
        get("/v1/access/keys", "Lists the API keys.", ResponseShape::Of(of::<ListPage<ApiKeyReply>>)),
        post(
            "/v1/access/keys",
            "Creates an API key.",
            RequestShape::Of(of::<NewKeyRequest<'static>>),
            ResponseShape::Of(of::<NewKeyReply>),
        ),
        post("/v1/access/keys/{key}", "Enables or disables an API key.", RequestShape::Of(of::<KeyChange>), changed()),
        delete("/v1/access/keys/{key}", "Drops an API key.", changed()),
        get("/v1/access/roles", "Lists the roles.", ResponseShape::Of(of::<ListPage<RoleReply>>)),
        post(
            "/v1/access/roles/{role}",
            "Creates a role, or replaces its rules.",
            RequestShape::Of(of::<RoleRequest>),
            changed(),
        ),
        delete("/v1/access/roles/{role}", "Drops a role that no user has.", changed()),
        get("/v1/access/rules", "Lists the access rules.", ResponseShape::Of(of::<ListPage<RuleReply>>)),
        post("/v1/access/rules", "Adds an access rule.", RequestShape::Of(of::<RuleRequest>), changed()),
        delete("/v1/access/rules", "Removes an access rule.", changed()).requires("subject").requires("rule"),
        post(
            "/v1/access/check",
            "Says whether the rules allow a principal an operation.",
            RequestShape::Of(of::<AccessCheckRequest<'static>>),
            ResponseShape::Of(of::<AccessCheckReply>),
        ),
    ]
}

fn server() -> Vec<OperationRow> {
    vec![
        get(
            "/v1/commits",
            "Lists the commits of the log.",
            ResponseShape::Of(of::<ListPage<LoggedCommitReply, CommitsRead>>),
        )
        .number("after")
        .number("before")
        .with("wait_ms", ParameterKind::Number(0, 60_000))
        .page(),
        get("/v1/commits/{position}", "Returns a commit and its entries.", ResponseShape::Of(of::<LoggedCommitReply>))
            .with("entry", ParameterKind::Number(0, u32::MAX as u64))
            .with("limit", ParameterKind::Number(1, 10_000)),
        get(
            "/v1/refusals",
            "Lists the last refused commits.",
            ResponseShape::Of(of::<ListPage<RefusedCommitReply<'_>>>),
        ),
        get("/v1/cluster", "Returns the cluster as this node sees it.", ResponseShape::Of(of::<ClusterReply>)),
        post(
            "/v1/cluster/remove",
            "Removes a member of the cluster.",
            RequestShape::None,
            ResponseShape::Of(of::<ClusterChangeReply>),
        )
        .requires("node"),
        post(
            "/v1/cluster/transfer",
            "Hands the office of the leader over.",
            RequestShape::None,
            ResponseShape::Of(of::<ClusterChangeReply>),
        )
        .number("node"),
        post(
            "/v1/compact",
            "Deletes obsolete records now.",
            RequestShape::None,
            ResponseShape::Of(of::<CompactionReply>),
        ),
        post(
            "/v1/sql",
            "Runs a read-only SQL statement.",
            RequestShape::Of(of::<SqlRequest<'_>>),
            ResponseShape::Lines(of::<SqlReply>),
        )
        .with("format", ParameterKind::Word(&["json", "ndjson"])),
        get("/v1/indexes", "Lists the text indexes.", ResponseShape::Of(of::<ListPage<TextIndexReply>>)),
        post(
            "/v1/indexes",
            "Creates a text index.",
            RequestShape::Of(of::<TextIndexRequest<'_>>),
            ResponseShape::Of(of::<TextIndexReply>),
        ),
        delete("/v1/indexes/{index}", "Deletes a text index.", ResponseShape::Empty),
        get("/v1/backup", "Returns a backup of the database.", ResponseShape::File(&["application/x-tar"])),
        get("/v1/stats", "Returns the counts of the whole database.", ResponseShape::Of(of::<Stats>)),
        get("/v1/history", "Returns figures of the last hour.", ResponseShape::Of(of::<HistoryReply>)).number("after"),
        get("/healthz", "Reports whether the database responds.", ResponseShape::Of(of::<Health>)),
        get("/livez", "Reports whether the server responds.", ResponseShape::File(&["text/plain"])),
        get("/readyz", "Reports whether the server accepts commits.", ResponseShape::File(&["text/plain"])),
        get("/metrics", "Returns the metrics, in the Prometheus text format.", ResponseShape::File(&["text/plain"])),
        get("/errors/{code}", "Explains a code of a problem.", ResponseShape::File(&["text/plain"])),
        get("/openapi.json", "Returns this description.", ResponseShape::File(&["application/json"])),
    ]
}
