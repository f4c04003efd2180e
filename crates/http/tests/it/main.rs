//! What a client sees of the server, over a real socket.

mod access;
mod administration;
mod backup;
mod browsers;
mod commits;
mod connections;
mod dashboard;
mod described;
mod events;
mod full;
mod graphs;
mod idempotency;
mod imports;
mod life;
mod log;
mod names;
mod page;
mod reads;
mod records;
mod room;
mod served;
mod server;
mod sessions;
mod sql;
mod walks;
mod workers;
