//! The client against a server: its calls, subscriptions and workers, over restarts of the server.

mod reads;
mod served;
mod subscriptions;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod unix;
mod workers;
