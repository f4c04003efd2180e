//! A typed client of a Quire server, over HTTP: calls, subscriptions that resume, workers, and
//! consumers of topics. Its calls block.
//!
//! ```no_run
//! use quire_client::Client;
//! use quire_client::reply::PartReply;
//! use quire_client::request::{CommitRequest, Enqueue, Produce};
//!
//! let client = Client::builder("http://127.0.0.1:7070").build()?;
//! let commit = CommitRequest::of(Enqueue::new("mails", "to: ada")).and(Produce::new("orders", "17"));
//! let done = client.commit(&commit)?;
//! assert!(matches!(done.replies[0], PartReply::Enqueued { .. }));
//! # Ok::<(), quire_client::ClientError>(())
//! ```
//!
//! # Path of a call
//! ```text
//! request ─▶ JSON, idempotency key ─▶ attempt ─▶ reply
//!                                      │   ▲
//!                                      ▼   │ the same body and key, after a pause
//!                                   no answer, 429, 503 ─▶ deadline exceeded ─▶ ClientError
//! ```

mod settings;

mod call;
mod client;
mod error;
mod pages;
mod pause;
mod reads;
mod replay;
#[cfg(feature = "tls")]
mod tls;
mod unix;

mod feed;
mod sse;

mod leader;
mod leases;
mod local;
mod work;
mod worker;

mod consumer;

pub use call::Call;
pub use client::Client;
pub use consumer::{ConsumerCommit, RemoteConsumer, RemoteDelivery, TopicWatch};
pub use error::{ClientError, FailureKind};
pub use feed::SubscriptionFeed;
pub use pages::PageItems;
pub use quire::jobs::{JobId, LeaseToken};
pub use quire::{HandlerError, Stopper, WorkSummary};
pub use quire_api::{Code, reply, request};
pub use settings::ClientBuilder;
pub use worker::{RemoteOutcome, RemoteWorker};
