//! The client against a server: its calls, subscriptions, workers and consumers, over restarts of
//! the server.

mod closing;
mod consumers;
mod reads;
mod served;
mod subscriptions;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod unix;
mod workers;
