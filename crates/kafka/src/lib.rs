//! The Kafka protocol in front of Quire: ordinary Kafka clients produce to topics and read them,
//! and read event stores.
//!
//! ```text
//! TcpStream ──frame──▶ bytes ──request──▶ schema checked, decoded ──api/<one file an API>──▶ quire::Database
//!     ▲                                                                                            │
//!     └──────────── response ◀── errors: our words as Kafka's codes ◀──────────────────────────────┘
//! ```
//!
//! * [`Server`]: listens, and serves each connection in a task of its own. [`Settings`]: its
//!   configuration.
//! * [`Counters`] and [`Statistics`]: counts of requests, and of closed connections by reason.
//!
//! A connection's requests are answered in their order. Produce requests are committed as they
//! arrive and answered as they become durable. Every other request waits until the requests before
//! it are answered.
//!
//! Each consumer group has a task (`groups`). Its members are soft state; the generation that
//! fences them is in the log. An event store is a read-only topic: `air/flights` is `air.flights`.
//!
//! While access control is enabled, a client authenticates before any other request
//! (`authentication`), and each request needs Kafka's permissions (`permissions`).
//!
//! Transactions are not supported, and no decisions are made here. TLS is that of `quire-access`,
//! below the protocol. The response to ApiVersions lists the supported APIs, as does
//! `docs/kafka.md`.

mod server;
mod settings;
mod statistics;

mod authentication;
mod auto_creation;
mod broker;
mod brokers;
mod client;
mod close_reason;
mod connection;
mod endpoints;
mod forward;
mod frame;
mod memory;
mod pace;
mod quotas;

mod items;
mod request;
mod request_timer;
mod schema;

mod api;

mod groups;

mod decompression;
mod pause;
mod sessions;
mod waiting;

mod by_time;
mod configs;
mod duplicates;
mod event_topics;
mod job_topics;
mod partition;
mod topic_list;
mod topics;

mod acls;
mod administration;

mod errors;
mod permissions;
mod read_only;
mod response;

pub use server::{KafkaSettingsHandle, Server};
pub use settings::{AdvertisedAddress, Settings};
pub use statistics::{Counters, Statistics};
