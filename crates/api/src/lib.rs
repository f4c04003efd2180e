//! The part of Quire's interface that front ends and clients share: what a client gets when a
//! request fails, the envelope of lists, and the JSON of commits ([`request`]).
//!
//! ```
//! use quire::{CommitRefusal, Reason, jobs};
//! use quire_api::{Code, Failure, TimeUnit};
//!
//! let job = "7-0".parse()?;
//! let reason = Reason::Jobs(jobs::Refusal::UnknownJob { job });
//! let failure = Failure::of_reason(&reason, TimeUnit::Millis);
//! assert_eq!(failure.code, Code::UnknownJob);
//! assert_eq!((failure.code.name(), failure.code.http()), ("unknown_job", 409));
//! assert_eq!(failure.message, "unknown job 7-0");
//! # Ok::<(), jobs::ParseIdError>(())
//! ```
//!
//! # The path of a failure
//! ```text
//! Reason, ErrorKind ─▶ table: Row ─▶ Code: name, HTTP status, gRPC code, what to do
//!         │                   └────▶ Kafka code
//!         └─▶ facts, message ─▶ Failure ─▶ http: problem    grpc: status    kafka: error
//! ```
//!
//! # What it is not
//! It does no I/O and decides nothing: the models decide, and the front ends translate.

mod code;

mod table;

mod facts;
mod failure;

mod history;

mod page;

mod schema;

mod bytes;
mod meter;
pub mod reply;
pub mod request;

pub mod samples;

pub use code::{Code, GrpcCode, KafkaCode};
pub use facts::{FactValue, FailureFact, TimeUnit};
pub use failure::Failure;
pub use history::MetricsHistory;
pub use meter::{METERED_BYTES, list, metered};
pub use page::{ListPage, NoFacts};
pub use table::{
    Row, of_claim, of_error, of_events, of_graph, of_idempotency, of_jobs, of_permission, of_reason, of_streams,
    of_system,
};
