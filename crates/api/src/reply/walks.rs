//! Walks of graphs, paths, orders and components.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WalkReply {
    pub visits: Vec<VisitReply>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edges: Option<Vec<WalkedEdgeReply>>,
    /// The limit that ended the walk; `null` when it is complete.
    pub bound: Option<Cow<'static, str>>,
    pub position: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WalkCount {
    /// The number of visits.
    pub count: usize,
    /// The number of edges between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edges: Option<usize>,
    pub bound: Option<Cow<'static, str>>,
    pub position: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct VisitReply {
    pub id: String,
    pub name: Option<String>,
    pub depth: usize,
    /// The id of the previous block on the path.
    pub from: Option<String>,
    /// The edge from there.
    #[serde(rename = "type")]
    pub edge_type: Option<String>,
    /// Which end of that edge it is.
    pub end: Option<Cow<'static, str>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WalkedEdgeReply {
    pub source: String,
    #[serde(rename = "type")]
    pub edge_type: String,
    pub target: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PathsReply {
    pub paths: Vec<Vec<VisitReply>>,
    pub bound: Option<Cow<'static, str>>,
    pub position: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OrderReply {
    pub order: Vec<NamedBlock>,
    pub cycles: Vec<Vec<NamedBlock>>,
    /// Blocks after a cycle that are on no cycle.
    pub behind: Vec<NamedBlock>,
    pub bound: Option<Cow<'static, str>>,
    pub position: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ComponentsReply {
    pub components: Vec<Vec<NamedBlock>>,
    pub bound: Option<Cow<'static, str>>,
    pub position: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NamedBlock {
    pub id: String,
    pub name: Option<String>,
}
