//! The server as its clients meet it: over a connection, with the generated clients.

mod access;
mod answers;
mod commits;
mod connections;
mod events;
mod graph;
mod idempotency;
mod jobs;
mod local_reads;
mod queues;
mod served;
mod server;
mod server_reads;
mod sql;
mod streams;
mod web;
