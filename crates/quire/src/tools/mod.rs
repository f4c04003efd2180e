//! What can be done with the directory of a database without opening it: whoever else has it open goes on.
//!
//! Nothing here takes a lock or changes a file, unless its name says so.

mod shards;

pub use quire_log::{Histogram, Page};
pub use shards::{ShardPath, shards};
