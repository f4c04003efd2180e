//! gRPC in front of Quire: one service a model, commits over all models, SQL, health and
//! reflection.
//! The messages are in `proto/quire/v1`.
//!
//! It translates and decides nothing: a request becomes a [`quire::Commit`] or a read, and the
//! result becomes a message. Errors and refusals are statuses with a `google.rpc.ErrorInfo`. The
//! codes are in one table, which `docs/grpc.md` repeats.
//!
//! ```no_run
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let database = quire::Database::open("data")?;
//! let server = quire_grpc::Server::bind(database, "127.0.0.1:7071".parse()?).await?;
//! println!("listening on http://{}", server.address());
//! server.run(async { tokio::signal::ctrl_c().await.expect("signals can be caught") }).await?;
//! # Ok(()) }
//! ```
//!
//! # The path of a request
//! ```text
//! Server ─▶ tonic (HTTP/2, gRPC-Web) ─▶ sessions ─▶ metering ─▶ calls ─▶ tonic (protobuf) ─▶ commit, events, jobs, graph ─▶ Database ─▶ the answer, or a status (error)
//!                                                        ├───────▶ pages, each read aside, sent as the client takes them
//!                                                        └───────▶ work: a worker's stream, frames in, answers and jobs out
//! ```
//!
//! # What it is not
//! It keeps no users and no rules: they are in the database. While access control is disabled,
//! every client may do everything.

mod settings;

mod browsers;
mod calls;
mod connections;
mod counted;
mod forwarding;
mod linearizable;
mod local_read;
mod metering;
mod server;
mod sessions;

mod app;
mod services;

mod aside;
mod error;
mod idempotency;
mod pages;

mod events;
mod graph;
mod jobs;
mod sql;
mod streams;

mod commit;

mod worker;

#[rustfmt::skip]
#[path = "proto/v1.rs"]
pub mod proto;

pub use server::Server;
pub use settings::Settings;
/// The connection of a client: clients that are cloned share one.
pub use tonic::transport::Channel;
pub use worker::WorkerStream;
