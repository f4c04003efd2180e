//! The read path: a [`Reader`](reader::Reader) sees a fixed list of segments up to one position.
//!
//! Reading order:
//!
//! - `reader`: lookups by place and along tags
//! - `scan`: many entries in log order
//! - `filtered`: the filters of many segments, checked together
//! - `segments`: the immutable list of segments
//! - `newest`: the list and the published position, taken together
//! - `spans`: which sealed segments hold a tag

pub(crate) mod filtered;
pub(crate) mod newest;
pub(crate) mod reader;
mod scan;
pub(crate) mod segments;
pub(crate) mod spans;
