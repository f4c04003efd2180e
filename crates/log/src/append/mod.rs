//! The path of a write. A [`Writer`](writer::Writer) takes the turn, a [`Draft`](draft::Draft)
//! collects the entries of one record, and the append moves the tail.
//!
//! Reading order:
//! * `writer`: the one appender.
//! * `active`: the segment to which it appends.
//! * `draft`: a record before its append.
//! * `sequences`: the numbers of tags.
//! * `backlog`: whether a record is written in place.
//! * `prepare`: the next segment's file, made in advance.
//! * `follow`: records that other processes appended.
//! * `copied`: records that another node of a cluster appended.
//! * `truncate`: the reverse path, which removes unpublished records.
//!
//! Nothing here publishes.

pub(crate) mod active;
pub(crate) mod backlog;
pub(crate) mod copied;
pub(crate) mod draft;
pub(crate) mod follow;
pub(crate) mod prepare;
pub(crate) mod sequences;
pub(crate) mod truncate;
pub(crate) mod writer;
