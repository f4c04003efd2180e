//! `quire demo --cluster`: three nodes, the leader is killed under load, and nothing is lost.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quire_client::reply::{ClusterReply, StatsReply};
use quire_client::{Call, Client};
use serde_json::json;

use crate::failure::{CommandError, Result};
use crate::stop::StopSignal;
use crate::stopwatch::Stopwatch;
use crate::text::{counted, grouped};
use crate::with_parent::WithParent;

/// The clients of the load.
const CLIENTS: usize = 3;
/// The commits before and after the death of the leader.
const COMMITS: u64 = 1_000;
/// How long a client waits for one answer.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// How long the cluster may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);
const STORE: &str = "payments";

/// A node, as a child process. Dropping it kills it.
struct DemoNode {
    child: Child,
    number: usize,
    data: PathBuf,
    http: String,
    cluster: String,
}

impl DemoNode {
    /// Starts a node, and waits until it serves.
    fn start(data: &Path, number: usize, addresses: [&str; 2], flags: &[&str]) -> Result<Self> {
        let failed = |error| CommandError::at("start a node", error);
        let mut command = WithParent::command().map_err(failed)?;
        let [http, cluster] = addresses;
        let data = data.join(format!("node-{number}"));
        command.args(["serve", "--log", "error", "--kafka", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--http", http]);
        command.args(["--node", &number.to_string(), "--cluster-listen", cluster]).args(flags);
        command.arg("--data").arg(&data).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let mut node = DemoNode { child, number, data, http: String::new(), cluster: String::new() };
        for line in lines {
            let line = line.map_err(failed)?;
            match line.split_once(' ').map(|(label, value)| (label, value.trim())) {
                Some(("http", address)) => address.trim_start_matches("plain://").clone_into(&mut node.http),
                Some(("cluster", node_on)) => {
                    node_on.rsplit(' ').next().unwrap_or_default().clone_into(&mut node.cluster);
                }
                Some(("serving", _)) => return Ok(node),
                _ => {}
            }
        }
        Err(CommandError::new(format!("node {number} ended before it served")))
    }

    fn client(&self) -> Result<Client> {
        let client = Client::builder(format!("http://{}", self.http)).timeout(TIMEOUT).without_retries().build();
        client.map_err(|error| CommandError::new(error.to_string()))
    }
}

impl Drop for DemoNode {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the clients of the load have done.
#[derive(Debug, Default)]
struct PaymentLoad {
    acknowledged: AtomicU64,
    goal: AtomicU64,
    repeated: AtomicU64,
    /// The watch since the last acknowledged commit, and the longest time between two.
    gap: Mutex<Option<(Stopwatch, Duration)>>,
    failed: AtomicBool,
}

/// Tells the story.
///
/// # Errors
/// When a node can't be started, or the cluster does not keep its promises.
pub(super) fn tell(data: &Path, stop: &StopSignal, out: &mut dyn Write) -> Result {
    writeln!(out, "\n1. Three nodes serve one database")?;
    let free = ["127.0.0.1:0"; 2];
    let first = DemoNode::start(data, 1, free, &["--cluster-init"])?;
    let join = first.cluster.clone();
    let mut nodes = vec![first];
    for number in [2, 3] {
        nodes.push(DemoNode::start(data, number, free, &["--cluster-join", &join])?);
    }
    let leader = wait_until_level(&nodes, stop)?;
    for node in &nodes {
        let role = if node.number == leader { "leader" } else { "follower" };
        writeln!(out, "   node {}  http://{}  {role}", node.number, node.http)?;
    }
    out.flush()?;
    let clients = nodes.iter().map(DemoNode::client).collect::<Result<Vec<_>>>()?;
    let load = PaymentLoad::default();
    std::thread::scope(|scope| {
        load.goal.store(COMMITS, Ordering::Release);
        for number in 0..CLIENTS {
            let (clients, load) = (&clients, &load);
            scope.spawn(move || pay(number, clients, load));
        }
        let story = under_load(&mut nodes, leader, &load, stop, out);
        // Ends the clients, also after a failure.
        load.goal.store(0, Ordering::Release);
        story
    })?;
    wait_until_level(&nodes, stop)?;
    let acknowledged = load.acknowledged.load(Ordering::Acquire);
    writeln!(out, "\n4. Nothing was lost")?;
    let stats: StatsReply = clients[0]
        .get(&["events", STORE, "stats"], &[])
        .map_err(|error| CommandError::new(format!("can't count the payments: {error}")))?;
    let events = stats.head;
    if events != acknowledged {
        return Err(CommandError::new(format!("{acknowledged} payments were acknowledged, and {events} are there")));
    }
    let repeated = load.repeated.load(Ordering::Acquire);
    writeln!(out, "   {} were acknowledged, and each is there once", counted(acknowledged, "payment"))?;
    writeln!(out, "   {} sent again, with the same idempotency keys", counted(repeated, "request"))?;
    writeln!(out, "\nthe directories are in {}", data.display())?;
    Ok(())
}

fn under_load(
    nodes: &mut [DemoNode],
    leader: usize,
    load: &PaymentLoad,
    stop: &StopSignal,
    out: &mut dyn Write,
) -> Result {
    writeln!(out, "\n2. The leader is killed while {CLIENTS} clients take payments")?;
    wait(stop, || load.acknowledged.load(Ordering::Acquire) >= COMMITS / 2)?;
    *load.gap.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((Stopwatch::start(), Duration::ZERO));
    let killed = &mut nodes[leader - 1];
    // It may have ended by itself, which the next wait shows.
    let _ = killed.child.kill();
    let _ = killed.child.wait();
    writeln!(out, "   kill -9 of node {leader} after {} payments", grouped(load.acknowledged.load(Ordering::Acquire)))?;
    out.flush()?;
    let before = load.acknowledged.load(Ordering::Acquire);
    load.goal.store(before + COMMITS, Ordering::Release);
    wait(stop, || {
        load.failed.load(Ordering::Acquire) || load.acknowledged.load(Ordering::Acquire) >= before + COMMITS
    })?;
    if load.failed.load(Ordering::Acquire) {
        return Err(CommandError::new("a payment was not acknowledged in time"));
    }
    let gap = load.gap.lock().unwrap_or_else(std::sync::PoisonError::into_inner).map_or(Duration::ZERO, |(_, gap)| gap);
    writeln!(out, "   the longest time without an acknowledged payment: {} ms", gap.as_millis())?;
    writeln!(out, "\n3. The killed node returns, and gets what it missed")?;
    let killed = &nodes[leader - 1];
    let (data, http, cluster) = (killed.data.clone(), killed.http.clone(), killed.cluster.clone());
    let data = data.parent().map_or(data.clone(), Path::to_owned);
    nodes[leader - 1] = DemoNode::start(&data, leader, [&http, &cluster], &[])?;
    let next = wait_until_level(nodes, stop)?;
    writeln!(out, "   node {leader} follows node {next}")?;
    Ok(out.flush()?)
}

/// Takes payments until the goal is reached, each at one node after the other.
fn pay(number: usize, clients: &[Client], load: &PaymentLoad) {
    let mut at = number % clients.len();
    for payment in 0.. {
        loop {
            let goal = load.goal.load(Ordering::Acquire);
            if goal == 0 {
                return;
            }
            if load.acknowledged.load(Ordering::Acquire) < goal {
                break;
            }
            pause();
        }
        let id = format!("{number}-{payment}");
        let body =
            json!({ "parts": [{ "append": { "store": STORE, "events": [{ "type": "Paid", "data_text": id }] } }] });
        let watch = Stopwatch::start();
        loop {
            let sent =
                Call::post(&["commit"]).json(&body).and_then(|call| clients[at].send(&call.idempotency_key(&*id)));
            if sent.is_ok() {
                break;
            }
            if watch.elapsed() > PATIENCE {
                return load.failed.store(true, Ordering::Release);
            }
            load.repeated.fetch_add(1, Ordering::AcqRel);
            at = (at + 1) % clients.len();
            pause();
        }
        load.acknowledged.fetch_add(1, Ordering::AcqRel);
        if let Some((watch, longest)) = &mut *load.gap.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
            *longest = watch.lap().max(*longest);
        }
    }
}

/// Waits until three voters are connected with the leader and level. Returns the leader.
fn wait_until_level(nodes: &[DemoNode], stop: &StopSignal) -> Result<usize> {
    let clients = nodes.iter().map(DemoNode::client).collect::<Result<Vec<_>>>()?;
    let mut found = None;
    wait(stop, || {
        let statuses = clients.iter().filter_map(|client| client.get::<ClusterReply>(&["cluster"], &[]).ok());
        let leader = statuses.filter(|status| status.role == "leader").max_by_key(|status| status.term);
        found = leader.filter(|leader| {
            let is_level = |lag: Option<u64>| lag.is_some_and(|lag| lag < 100);
            let mut members = leader.members.iter();
            leader.members.len() == 3
                && members.all(|member| member.role == "voter" && member.connected && is_level(member.lag))
        });
        found.is_some()
    })?;
    let node = found.map_or(0, |leader| leader.node);
    usize::try_from(node).map_err(|_| CommandError::new("the number of a node is too large"))
}

fn wait(stop: &StopSignal, mut is_over: impl FnMut() -> bool) -> Result {
    let watch = Stopwatch::start();
    while !is_over() {
        if stop.is_asked() {
            return Err(CommandError::Interrupted);
        }
        if watch.elapsed() > PATIENCE {
            return Err(CommandError::new(format!("the cluster made no progress for {} s", PATIENCE.as_secs())));
        }
        pause();
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the demo looks again after a while; no result depends on it")]
fn pause() {
    std::thread::sleep(LOOK);
}
