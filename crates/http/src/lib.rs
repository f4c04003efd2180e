//! HTTP and JSON in front of Quire: commits across all models, reads of each, health and metrics.
//!
//! It translates and decides nothing: a request becomes a [`quire::Commit`] or a read, and the
//! result becomes JSON. Errors and refusals are problem details (RFC 9457) with a code and
//! facts. The codes are those of the table in `quire-api`.
//!
//! ```no_run
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let database = quire::Database::open("data")?;
//! let server = quire_http::Server::bind(database, "127.0.0.1:7070".parse()?).await?;
//! println!("listening on http://{}", server.address());
//! server.run(async { tokio::signal::ctrl_c().await.expect("signals can be caught") }).await?;
//! # Ok(()) }
//! ```
//!
//! # The path of a request
//! ```text
//! Server ─▶ connection ─▶ gate ─▶ routes ─▶ commit/request ─▶ Database ─▶ commit/reply, error
//!                                      ├───▶ events · topics · queues · jobs · graph (reads)
//!                                      ├───▶ stats · health · metrics
//!                                      └───▶ dashboard
//! ```
//!
//! # What it is not
//! There is no HTTP/2. TLS and sessions are those of `quire-access`: a server has TLS after
//! `Server::with_tls`, and checks its clients while access control is enabled. Without access
//! control, bind it to loopback. Pages of other sites are refused (`rules`).

mod settings;

mod server;

mod arriving;
mod connection;
mod gate;
mod request_id;
mod rules;
mod sse;

mod app;
mod memory;
mod requests;
mod route_kinds;
mod routes;
mod slashes;

mod body;
mod bytes;
mod given;
mod json;
mod params;
mod presentation;

mod error;
mod response;

mod openapi;

mod commit;
mod commits;
mod idempotency;
mod indexes;

mod dashboard;

mod access;
mod bulk;
mod events;
mod graph;
mod groups;
mod jobs;
mod life;
mod linearizable;
mod local_read;
mod queues;
mod records;
mod refusals;
mod topics;

mod sql;

mod backup;
mod cluster;
mod compact;
mod exposition;
mod finished;
mod forwarding;
mod health;
mod history;
mod metrics;
mod process;
mod stats;

pub use exposition::{MetricFamily, MetricKind, MetricSample, SampleValue};
pub use metrics::MetricsSource;
pub use server::{HttpSettingsHandle, Server};
pub use settings::{DashboardMode, Settings};
