//! A failure in a response: problem details (RFC 9457).

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Code;

/// The name of a code, for the description.
#[derive(Debug)]
pub enum CodeName {}

impl JsonSchema for CodeName {
    fn schema_name() -> Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
        json_schema!({"type": "string", "enum": names})
    }
}

/// A problem in a response.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProblemReply<'p> {
    #[serde(rename = "type")]
    pub kind: String,
    pub title: Cow<'static, str>,
    pub status: u16,
    pub detail: Cow<'p, str>,
    #[schemars(with = "CodeName")]
    pub code: Cow<'static, str>,
    #[serde(flatten)]
    pub facts: Cow<'p, Map<String, Value>>,
    /// Absent in a problem within a response, which has the id in its header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}
