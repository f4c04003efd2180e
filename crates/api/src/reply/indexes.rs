//! Text indexes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A text index over an event store.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TextIndexReply {
    /// The name.
    pub name: String,
    /// The event store.
    pub store: String,
    /// The JSON paths of the indexed text in the data of events.
    pub text: Vec<String>,
    /// The last position of the store that the index covers.
    pub covered: u64,
    /// The last position of the store.
    pub head: u64,
    /// The number of events with text.
    pub documents: u64,
    /// The size of the file, in bytes.
    pub bytes: u64,
}
