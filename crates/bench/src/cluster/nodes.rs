//! The servers of a case: `quire serve`, alone or as the nodes of a cluster.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use quire_client::{Client, reply::ClusterReply};

use quire_cli::failure::{CommandError, Result};
use quire_cli::stopwatch::Stopwatch;
use quire_cli::with_parent::WithParent;

/// The longest wait for a leader with level followers.
const LEVEL_MAX: Duration = Duration::from_secs(60);

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A server. Dropping it kills it.
#[derive(Debug)]
pub(super) struct BenchNode {
    child: Child,
    cluster: String,
    pub(super) kafka: String,
    pub(super) http: String,
    pub(super) grpc: String,
}

impl BenchNode {
    fn start(data: &Path, flags: &[&str]) -> Result<Self> {
        let failed = |error| CommandError::at("start a node", error);
        let mut command = WithParent::command().map_err(failed)?;
        command.arg("serve").arg("--data").arg(data).args(["--durability", "sync", "--log", "error"]);
        for server in ["--kafka", "--http", "--grpc"] {
            command.args([server, "127.0.0.1:0"]);
        }
        let mut child = command.args(flags).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let none = String::new;
        let mut node = BenchNode { child, cluster: none(), kafka: none(), http: none(), grpc: none() };
        for line in lines {
            let line = line.map_err(failed)?;
            let Some((label, value)) = line.split_once(' ') else { continue };
            let address = value.rsplit(['/', ' ']).next().unwrap_or_default();
            match label {
                "kafka" => address.clone_into(&mut node.kafka),
                "http" => address.clone_into(&mut node.http),
                "grpc" => address.clone_into(&mut node.grpc),
                "cluster" => address.clone_into(&mut node.cluster),
                "serving" => return Ok(node),
                _ => {}
            }
        }
        Err(CommandError::new("a node ended before it served"))
    }

    fn client(&self) -> Result<Client> {
        let client = Client::builder(format!("http://{}", self.http)).timeout(Duration::from_secs(1)).build();
        client.map_err(|error| CommandError::new(error.to_string()))
    }

    /// The memory of the process without files. `None` when the system does not report it.
    fn memory_bytes(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024.0)
    }
}

impl Drop for BenchNode {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The servers of a case.
#[derive(Debug)]
pub(super) struct BenchCluster {
    nodes: Vec<BenchNode>,
    leader: usize,
}

impl BenchCluster {
    /// Starts `count` servers in a directory, and waits until all of them are voters. One server is
    /// no cluster.
    ///
    /// # Errors
    /// When one does not start, or does not become a voter.
    pub(super) fn start(directory: &Path, count: u32) -> Result<Self> {
        if count == 1 {
            return Ok(BenchCluster { nodes: vec![BenchNode::start(directory, &[])?], leader: 0 });
        }
        std::fs::create_dir_all(directory)
            .map_err(|error| CommandError::at("make the directory of a cluster", error))?;
        let mut nodes: Vec<BenchNode> = Vec::new();
        for number in 1..=count {
            let join = nodes.first().map(|first| first.cluster.clone());
            let member = number.to_string();
            let mut flags = vec!["--node", &member, "--cluster-listen", "127.0.0.1:0"];
            match &join {
                None => flags.push("--cluster-init"),
                Some(first) => flags.extend(["--cluster-join", first]),
            }
            nodes.push(BenchNode::start(&directory.join(format!("node-{number}")), &flags)?);
        }
        let leader = wait_until_level(&nodes)?;
        Ok(BenchCluster { nodes, leader })
    }

    /// The node that leads.
    pub(super) fn leader(&self) -> &BenchNode {
        &self.nodes[self.leader]
    }

    /// The memory of all nodes.
    pub(super) fn memory_bytes(&self) -> Option<f64> {
        self.nodes.iter().map(BenchNode::memory_bytes).sum()
    }
}

/// Waits until one node leads, and all others are connected voters that lack nothing. Returns the
/// index of the leader.
fn wait_until_level(nodes: &[BenchNode]) -> Result<usize> {
    let clients = nodes.iter().map(BenchNode::client).collect::<Result<Vec<_>>>()?;
    let watch = Stopwatch::start();
    loop {
        let statuses = clients.iter().enumerate().filter_map(|(index, client)| {
            let status = client.get::<ClusterReply>(&["cluster"], &[]).ok()?;
            (status.role == "leader").then_some((index, status))
        });
        let is_level = |status: &ClusterReply| {
            let mut members = status.members.iter();
            status.members.len() == nodes.len()
                && members.all(|member| member.role == "voter" && member.connected && member.lag == Some(0))
        };
        if let Some((leader, _)) = statuses.max_by_key(|(_, status)| status.term).filter(|(_, status)| is_level(status))
        {
            return Ok(leader);
        }
        if watch.elapsed() > LEVEL_MAX {
            return Err(CommandError::new(format!("the nodes were not level after {} s", LEVEL_MAX.as_secs())));
        }
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "the case looks again after a while; nothing is measured yet")]
fn pause() {
    std::thread::sleep(LOOK);
}
