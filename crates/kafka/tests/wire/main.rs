//! The protocol as a client sees it: a small client made of the same schema structs, against a
//! server on a real socket.

mod support;

mod acls;
mod admin;
mod bad_input;
mod bombs;
mod compacted;
mod corpus;
mod damage;
mod deleted_meanwhile;
mod event_topics;
mod fetch;
mod full;
mod groups;
mod hidden;
mod idempotence;
mod job_topics;
mod long_lists;
mod many_items;
mod metadata;
mod offsets;
mod old_commits;
mod one_broker;
mod packed;
mod permissions;
mod produce;
mod quotas;
mod read_only;
mod sasl;
mod server;
mod sessions;
mod settings;
mod short_of_memory;
mod tenants;
mod tokens;
mod versions;
