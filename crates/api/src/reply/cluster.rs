//! The JSON of a cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cluster, as one of its nodes sees it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ClusterReply {
    pub node: u64,
    pub role: String,
    pub term: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<u64>,
    pub appended: u64,
    pub durable: u64,
    pub published: u64,
    pub elections_won: u64,
    pub members: Vec<ClusterMemberReply>,
}

/// A member of a cluster.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ClusterMemberReply {
    pub node: u64,
    pub role: String,
    pub cluster: String,
    pub http: String,
    pub grpc: String,
    pub kafka: String,
    pub connected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<u64>,
}

/// A change of a cluster that was carried out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ClusterChangeReply {
    pub done: bool,
}
