//! One durable log that serves four models: streams, events, jobs and graphs.
//!
//! One commit may append events under a condition, produce to a topic, enqueue or acknowledge a
//! job, commit a consumer's offset and change a graph. All of it happens, or none.
//!
//! ```
//! use quire::{Commit, Database, Durability, Message, NewBlock, NewEdge, NewJob};
//! use quire::events::{Condition, EventPosition, NewEvent, QueryItem};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("data");
//! let db = Database::builder(&path).durability(Durability::Os).open()?;
//!
//! let departed = QueryItem::new().event_type("Departed").tag("flight:UA1545");
//! let commit = Commit::new()
//!     .append_if(
//!         "air/flights",
//!         [NewEvent::new("Departed").tag("flight:UA1545").tag("plane:N14228").data(br#"{"dest":"IAH","delay":42}"#)],
//!         [Condition::fail_if_matches(departed)],
//!     )
//!     .produce("departures", Message::new("UA1545 to IAH").key("EWR"))
//!     .enqueue("air/delays", NewJob::new("UA1545 is 42 minutes late"))
//!     .put_block("air/routes", NewBlock::new("EWR", "airport"))
//!     .put_block("air/routes", NewBlock::new("IAH", "airport"))
//!     .put_edge("air/routes", NewEdge::new("EWR", "flies_to", "IAH"));
//!
//! let done = db.commit(&commit)?.committed()?;      // durable in all four models
//! let refused = db.commit(&commit)?.refused();      // the flight has departed: the second commit changed nothing
//! assert!(refused.unwrap().to_string().contains("event 1"));
//!
//! let job = db.queue("air/delays").fetch("worker-1", 1)?.remove(0);
//! db.commit(
//!     &Commit::new()
//!         .ack(job.job, job.token, b"")
//!         .append("air/flights", [NewEvent::new("PassengersNotified").tag("flight:UA1545")]),
//! )?
//! .committed()?;
//! assert_eq!(db.events("air/flights").head()?, EventPosition::new(2));
//! # assert_eq!(done.at.position.get(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Dependency
//! Quire needs Rust 1.95 or later. Depend on the crate by path or by Git:
//! ```toml
//! [dependencies]
//! quire = { path = "../quire/crates/quire" }
//! ```
//! The feature `serde`, on by default, adds JSON payloads and settings from a file. The feature
//! `tokio` adds asynchronous workers and consumers, and streams.
//!
//! # Main types
//! * [`Database`]: a directory, which several processes may have open. Cheap to clone and usable
//!   from any thread.
//! * [`Commit`]: parts that happen together. [`Outcome`]: the result of a commit, committed or
//!   refused.
//! * [`Ticket`]: a result that is available once it is durable. Wait for it, or `.await` it. No
//!   runtime is needed.
//! * [`Topic`], [`EventStore`], [`Queue`] and [`Graph`]: handles on the named objects of the four
//!   models.
//! * [`Projection`]: folds events into a state to decide on.
//!
//! # The path of a write
//! ```text
//! Commit ─▶ decide: each model, on the state after the last appended record
//!              │        └─▶ refusal, nothing written
//!              │ all accept
//!              ▼
//!           append the effects as one record ─▶ apply them to the models
//!              ▼
//!           Ticket ─▶ published ─▶ Outcome
//! ```
//!
//! # Limits
//! This crate is not a server: see the `quire` command, and the crates `quire-http`, `quire-grpc`
//! and `quire-kafka`. It has no query language, and does not replicate databases yet.

mod commit;
mod handler_error;
#[cfg(feature = "serde")]
mod json;
mod outcome;
mod settings;
mod stopper;
mod ticket;
mod time;

mod parts;
mod scratch;

mod builder;
mod member_file;
mod meta;
mod profile;

mod access;
mod administration;
mod cluster_view;
mod commits;
mod confirmation;
mod database;
mod decided;
mod derived;
mod dry_run;
mod durations;
mod passwords;
mod read_source;
mod reading;
mod refusals;
mod reports;
mod shards;
mod text_indexes;

mod consumer;
mod handles;

pub mod tools;

pub use access::{AccessControl, NewApiKey};
pub use builder::{Builder, OpenedDatabase};
pub use cluster_view::ClusterView;
pub use commit::{
    BlockKey, Commit, EnqueueResult, Message, NewBlock, NewEdge, NewJob, Part, PartHandle, TypedReply, UniqueKey,
};
pub use commits::{CommitEntry, CommitLog, EntryObject, LoggedCommit, LoggedEvent};
#[cfg(feature = "tokio")]
pub use consumer::DeliveryStream;
pub use consumer::{Consumer, ConsumerSettings, DeliveredRecord, Delivery, Lag, Lease, PartitionSharing};
pub use database::{Database, NextPublication};
pub use dry_run::DryRun;
pub use durations::{DurationCounts, Durations};
pub use handler_error::HandlerError;
#[cfg(feature = "tokio")]
pub use handles::EventStream;
pub use handles::{
    CommandRecord, Event, EventStore, Events, Graph, GraphChanges, GraphSnapshot, Group, GroupDescription, GroupMember,
    GroupOffset, HandlerResult, JobOutcome, LifeEvents, NextEvent, PartitionStatistics, Producer, Progress, Project,
    ProjectedState, Projection, Queue, Record, RecordedDecision, Records, Rest, SavedProjection, Source,
    StoreStatistics, Subscription, SubscriptionJob, Topic, TopicStatistics, UnknownBlock, WorkSummary, Worker,
};
#[cfg(feature = "serde")]
pub use handles::{GraphFilter, typed, typed_event};
#[cfg(feature = "serde")]
pub use json::{JsonEvent, ParseJson};
pub use member_file::MemberFile;
pub use outcome::{AcceptedCommit, Outcome, Reply};
pub use passwords::{NewPassword, PASSWORD_BYTES_MAX, salted_credential, scram_credential};
pub use profile::Profile;
pub use quire_log::{
    Access, Background, Clock, Compaction, Damage, Disk, Durability, Lock, ManualClock, Reader, Recovery, SegmentStage,
    SegmentSummary, Storage, StoredFile, SystemClock, TornTail,
};
pub use quire_model::{
    At, ClaimLimit, ClaimRefusal, CowBytes, Creator, DecideError, Entry, History, LongReading, ModelId, NameKind,
    Operation, PermissionRefusal, Place, Position, ReadError, Resource, ResourceKind, Sequence, StepBudget, Timestamp,
    steps_of_bytes, steps_of_parsing,
};
pub use quire_shard::{
    ACCESS_CHANGED, ACCESS_DENIED, AUDIT_GAP, AUDIT_STORE, AuditAuthor, AuditEvent, ClusterChange, ClusterControl,
    ClusterLeader, ClusterRole, ClusterStatus, CommitRefusal, CreatorProblem, DraftedEntry, Duty, DutyFailure, Error,
    ErrorKind, EventRef, Fingerprint, Guard, HiddenObject, IDEMPOTENCY_KEY_BYTES_MAX, IdempotencyRefusal, LOGGED_IN,
    LOGIN_REFUSED, MemberProgress, NotPermitted, OPENED_BYTES_MAX, OUTSIDE_QUEUE, Permissions, ReadView, Reason,
    Result, TopicOwner, TouchedResource, open_batch, open_batch_up_to, topic_name,
};
pub use reading::PermittedView;
pub use refusals::RefusedCommit;
pub use reports::{Statistics, StorageDurations};
pub use settings::Settings;
pub use shards::DerivedState;
pub use stopper::Stopper;
pub use text_indexes::{INDEX_STORE, TEXT_INDEXES_MAX, TEXT_PATH_BYTES_MAX, TEXT_PATHS_MAX, TextIndex};
pub use ticket::Ticket;
pub use time::{DueTime, IntoTimestamp, RetryTime};

/// Commands, replies and reads of event stores.
pub use quire_events as events;
/// Commands, replies and reads of graphs.
pub use quire_graph as graph;
/// Commands, replies and reads of job queues.
pub use quire_jobs as jobs;
/// Commands, replies and reads of topics, and the record batch format.
pub use quire_streams as streams;
/// Principals, API keys, roles and access rules, and the rules compiled for checks.
pub use quire_system as system;
