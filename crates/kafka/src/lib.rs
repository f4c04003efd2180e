//! The Kafka protocol in front of Quire: ordinary Kafka clients produce to topics and read them, and read event stores.
//!
//! ```text
//! TcpStream ──frame──▶ bytes ──request──▶ schema checked, decoded ──api/<one file an API>──▶ quire::Database
//!     ▲                                                                                            │
//!     └──────────── response ◀── errors: our words as Kafka's codes ◀──────────────────────────────┘
//! ```
//!
//! * [`Server`]: listens, and serves each connection in a task of its own. [`Settings`]: what can be chosen.
//! * [`Counters`] and [`Statistics`]: what went on, and why connections were closed.
//!
//! A connection's requests are answered in their order. Produce requests are committed as they come in and answered as
//! they become durable; everything else waits until the requests before it are answered.
//!
//! Consumer groups are kept by a task each (`groups`): who is a member is soft state, what fences is in the log.
//! An event store is a read-only topic: `air/flights` is `air.flights`. Not here: transactions,
//! authentication and TLS, or any decision; what is not offered is absent from the answer to ApiVersions. What is served
//! today is listed in `docs/kafka.md`.

mod server;
mod settings;
mod statistics;

mod broker;
mod connection;
mod frame;
mod memory;
mod pace;

mod request;
mod schema;

mod api;

mod groups;

mod sessions;
mod unpacking;
mod waiting;

mod by_time;
mod configs;
mod event_topics;
mod job_topics;
mod partition;
mod topics;
mod twice;

mod errors;
mod read_only;
mod response;

pub use server::Server;
pub use settings::{Advertised, Settings};
pub use statistics::{Counters, Statistics};
