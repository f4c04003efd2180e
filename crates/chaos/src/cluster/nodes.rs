//! The servers of the cluster, and what their directories hold at the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use quire::events::{Query, ReadOptions};
use quire::{Database, Sequence};
use quire_client::{Client, reply::ClusterReply};
use rustix::process::Signal;

use super::clients::{ClusterLedger, STORE, TOPIC};
use crate::place::RoundPlace;
use crate::processes::RunProcess;
use crate::round::{free_address, now};

/// The longest time until the nodes are level.
const LEVEL_MAX: Duration = Duration::from_secs(60);

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// How long a node may take for its state.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The largest read of a topic.
const READ_BYTES: usize = 16 << 20;

struct AttackedNode {
    process: Option<RunProcess>,
    data: PathBuf,
    cluster: String,
    http: String,
    kafka: String,
    client: Client,
    is_stopped: bool,
}

/// See the module.
pub(super) struct ServedCluster {
    program: PathBuf,
    nodes: Vec<AttackedNode>,
    place: Option<RoundPlace>,
}

impl ServedCluster {
    /// Starts three nodes: the first makes the cluster, and the others join it.
    pub(super) fn start(program: &Path) -> Result<Self, String> {
        if !program.is_file() {
            return Err(format!("missing program {}", program.display()));
        }
        let place = RoundPlace::on_disk()?;
        let node = |number: usize| {
            let http = free_address()?;
            let builder = Client::builder(format!("http://{http}")).timeout(TIMEOUT).without_retries();
            Ok(AttackedNode {
                process: None,
                data: place.data().with_file_name(format!("d{number}")),
                cluster: free_address()?,
                kafka: free_address()?,
                client: builder.build().map_err(|error| error.to_string())?,
                http,
                is_stopped: false,
            })
        };
        let nodes = (1..=3).map(node).collect::<Result<Vec<_>, String>>()?;
        let mut cluster = ServedCluster { program: program.to_owned(), nodes, place: Some(place) };
        cluster.begin(0, &["--cluster-init"])?;
        let first = cluster.nodes[0].cluster.clone();
        cluster.begin(1, &["--cluster-join", &first])?;
        cluster.begin(2, &["--cluster-join", &first])?;
        Ok(cluster)
    }

    fn command(&self, node: usize, flags: &[&str]) -> Command {
        let AttackedNode { data, cluster, http, kafka, .. } = &self.nodes[node];
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("--data").arg(data).args(["--node", &(node + 1).to_string()]);
        command.args(["--cluster-listen", cluster, "--http", http, "--kafka", kafka, "--grpc", "127.0.0.1:0"]);
        command.args(["--segment-bytes", "4194304"]).args(flags);
        command
    }

    fn begin(&mut self, node: usize, flags: &[&str]) -> Result<(), String> {
        let process = RunProcess::of(&format!("node {}", node + 1), &self.command(node, flags))?;
        self.nodes[node].process = Some(process);
        Ok(())
    }

    pub(super) fn http(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.http.clone()).collect()
    }

    fn take(&mut self, node: usize) -> Result<RunProcess, String> {
        self.nodes[node].process.take().ok_or_else(|| format!("node {} does not run", node + 1))
    }

    pub(super) fn kill(&mut self, node: usize) -> Result<(), String> {
        self.take(node)?.kill()
    }

    pub(super) fn stop(&mut self, node: usize) -> Result<(), String> {
        self.take(node)?.stop()
    }

    pub(super) fn restart(&mut self, node: usize) -> Result<(), String> {
        self.begin(node, &[])
    }

    pub(super) fn signal(&mut self, node: usize, signal: Signal) -> Result<(), String> {
        self.nodes[node].is_stopped = signal == Signal::STOP;
        self.nodes[node].process.as_ref().map_or(Ok(()), |process| process.signal(signal))
    }

    /// Starts a node on an empty directory under its old number. The others must refuse it. Then it
    /// continues on its own directory.
    pub(super) fn refuse_replaced(&mut self, node: usize) -> Result<(), String> {
        self.stop(node)?;
        let data = self.nodes[node].data.clone();
        let kept = data.with_extension("kept");
        let failed = |error: std::io::Error| format!("can't rename {}: {error}", data.display());
        fs::rename(&data, &kept).map_err(failed)?;
        let other = self.nodes[(node + 1) % 3].cluster.clone();
        let output = self.command(node, &["--cluster-join", &other]).output();
        let output = output.map_err(|error| format!("can't start a node: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() || !said.contains("has another data directory than the member") {
            return Err(format!("a replaced node was not refused: {} {said}", output.status));
        }
        if data.exists() {
            return Err("a node that was refused made a directory".to_owned());
        }
        fs::rename(&kept, &data).map_err(failed)?;
        self.restart(node)
    }

    fn status(&self, node: usize) -> Option<ClusterReply> {
        self.nodes[node].client.get(&["cluster"], &[]).ok()
    }

    /// The node that leads, as it says itself.
    pub(super) fn leader(&mut self) -> Result<usize, String> {
        self.wait("leader", |cluster| {
            let statuses = (0..3).filter_map(|node| Some((node, cluster.status(node)?)));
            let leading = statuses.filter(|(_, status)| status.role == "leader");
            // A leader that was stopped may not know yet that another one has a later term.
            leading.max_by_key(|(_, status)| status.term).map(|(node, _)| node)
        })
    }

    /// Waits until three voters are connected and lack little.
    pub(super) fn wait_until_level(&mut self) -> Result<(), String> {
        self.wait("three level voters", |cluster| {
            let leaders = (0..3).filter_map(|node| cluster.status(node)).filter(|status| status.role == "leader");
            let leader = leaders.max_by_key(|status| status.term)?;
            let is_level = |member: &quire_client::reply::ClusterMemberReply| {
                let lag = member.lag.unwrap_or(u64::MAX);
                member.role == "voter" && member.connected && lag < 1_000
            };
            (leader.members.len() == 3 && leader.members.iter().all(is_level)).then_some(())
        })
    }

    fn wait<T>(&mut self, what: &str, look: impl Fn(&Self) -> Option<T>) -> Result<T, String> {
        let (end, (_never, pause)) = (now() + LEVEL_MAX, channel::<()>());
        loop {
            if let Some(found) = look(self) {
                return Ok(found);
            }
            for node in self.nodes.iter_mut().filter(|node| !node.is_stopped) {
                let Some(process) = &mut node.process else { continue };
                if let Some(status) = process.ended()? {
                    return Err(process.obituary(status));
                }
            }
            if now() >= end {
                let statuses: Vec<_> = (0..3).map(|node| self.status(node)).collect();
                return Err(format!("no {what} within {} s: {statuses:?}", LEVEL_MAX.as_secs()));
            }
            let _ = pause.recv_timeout(LOOK);
        }
    }

    /// Stops all nodes once each has each record. Returns the number of records.
    pub(super) fn stop_all(&mut self) -> Result<u64, String> {
        let records = self.wait("equal nodes", |cluster| {
            let statuses: Vec<_> = (0..3).filter_map(|node| cluster.status(node)).collect();
            let ends: Vec<_> = statuses.iter().map(|status| (status.appended, status.published)).collect();
            let is_equal = ends.len() == 3 && ends.iter().all(|end| *end == (ends[0].0, ends[0].0));
            is_equal.then(|| ends[0].0)
        })?;
        // Together: none of them begins a term after the others have gone.
        for node in &self.nodes {
            node.process.iter().try_for_each(|process| process.signal(Signal::KILL))?;
        }
        for node in &mut self.nodes {
            node.process.take();
        }
        Ok(records)
    }

    /// Compares the nodes with each other and with the answers of the clients.
    pub(super) fn compare(&self, ledger: &ClusterLedger) -> Result<(), String> {
        let mut first: Option<Vec<String>> = None;
        for (number, node) in self.nodes.iter().enumerate() {
            let (number, failed) =
                (number + 1, |error: quire::Error| format!("node {} can't be read: {error}", number + 1));
            let database = Database::builder(&node.data).read_only(true).open().map_err(failed)?;
            let read = database.events(STORE).read(&Query::all(), ReadOptions::default()).map_err(failed)?;
            let made: Vec<String> =
                read.events.iter().map(|event| String::from_utf8_lossy(&event.data).into_owned()).collect();
            let messages = messages(&database).map_err(failed)?;
            if messages != made {
                return Err(format!("node {number} has {} events and {} messages", made.len(), messages.len()));
            }
            let mut found = BTreeMap::new();
            for id in &made {
                *found.entry(id.clone()).or_insert(0_u64) += 1;
            }
            if let Some((id, count)) = found.iter().find(|(_, count)| **count > 1) {
                return Err(format!("node {number} has {id} {count} times"));
            }
            for (client, last) in &ledger.last {
                let lost = (1..=*last).map(|value| format!("{client}.{value}")).find(|id| !found.contains_key(id));
                if let Some(id) = lost {
                    return Err(format!("node {number} lost {id}, which was acknowledged"));
                }
            }
            match &first {
                Some(first) if *first != made => return Err(format!("node {number} has another order than node 1")),
                Some(_) => {}
                None => first = Some(made),
            }
        }
        Ok(())
    }

    /// Ends all nodes after a failure, and keeps their directories. Returns what they reported.
    pub(super) fn end_in_error(&mut self) -> String {
        let mut report = String::new();
        for node in &mut self.nodes {
            if let Some(mut process) = node.process.take() {
                let _ = process.signal(Signal::KILL);
                report.push_str(&process.last_words());
            }
        }
        let place = self.place.take().map(RoundPlace::keep);
        place.map_or(report.clone(), |kept| format!("{report}the files are in {}", kept.display()))
    }
}

fn messages(database: &Database) -> quire::Result<Vec<String>> {
    let topic = database.topic(TOPIC);
    let (mut messages, mut next) = (Vec::new(), Sequence::new(0));
    loop {
        let read = topic.fetch(0, next, READ_BYTES)?;
        if read.records.is_empty() {
            return Ok(messages);
        }
        let values = read.records.iter().map(|record| record.value.as_deref().unwrap_or_default());
        messages.extend(values.map(|value| String::from_utf8_lossy(value).into_owned()));
        next = read.next_offset;
    }
}
