//! The result of an SQL statement.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SqlReply {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows: each is an array with a value for each column.
    #[schemars(with = "Vec<Vec<serde_json::Value>>")]
    pub rows: Vec<Box<RawValue>>,
    /// The position as of which the log was read.
    pub as_of: u64,
    /// The number of rows that scans of tables read.
    pub scanned: u64,
}

/// The last line of a result that is streamed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SqlEnd {
    pub as_of: u64,
    pub scanned: u64,
    pub rows: u64,
}
