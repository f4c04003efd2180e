//! `quire serve` as the node of a cluster: its settings, its start and its stop.

mod node;
mod plan;

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;

pub(crate) use node::ServedNode;
pub(crate) use plan::NodePlan;

/// The flags. With `--cluster-listen`, the server is a node of a cluster.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClusterArgs {
    /// Number of this node in its cluster, from 1 on; no two nodes ever have the same
    #[arg(long, value_name = "NUMBER")]
    node: Option<NonZeroU64>,
    /// Address for the other nodes; makes the server a node of a cluster; port 0 chooses a free
    /// port
    #[arg(long, value_name = "ADDR")]
    cluster_listen: Option<SocketAddr>,
    /// Host by which nodes and clients reach this node [default: that of --cluster-listen]
    #[arg(long, value_name = "HOST")]
    cluster_advertised: Option<String>,
    /// Make the database the first node of a new cluster
    #[arg(long)]
    cluster_init: bool,
    /// Addresses of nodes whose cluster this one joins; can be repeated
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    cluster_join: Vec<String>,
    /// Milliseconds between heartbeats; an election begins after 8 to 16 of them without a leader
    #[arg(long, value_name = "MS", default_value_t = 50)]
    cluster_heartbeat_ms: u64,
    /// File of the certificates that sign those of nodes, in PEM; needed to listen beyond loopback
    #[arg(long, value_name = "FILE")]
    cluster_roots: Option<PathBuf>,
}
