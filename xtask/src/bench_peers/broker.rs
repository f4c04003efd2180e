//! A broker as a child process, with its own directory: Quire, or Apache Kafka as one node that is
//! its own controller.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::{Durability, output};
use crate::test::now;

/// The broker's kind, and the path of its programs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Make<'p> {
    Quire(&'p Path),
    /// The directory of its jars.
    Kafka(&'p Path),
}

impl Make<'_> {
    pub(super) fn name(self) -> &'static str {
        match self {
            Make::Quire(_) => "quire",
            Make::Kafka(_) => "kafka",
        }
    }
}

/// A running broker; dropping it kills it.
#[derive(Debug)]
pub(super) struct Broker {
    name: &'static str,
    /// The address for clients, once it listens.
    pub(super) bootstrap: String,
    pub(super) durability: Durability,
    started: Instant,
    child: Child,
}

/// The options of Kafka's own start script.
const JAVA: [&str; 7] = [
    "-server",
    "-Xms1G",
    "-Xmx1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
];

impl Broker {
    /// Starts a broker on an empty directory.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start(make: Make<'_>, folder: &Path, durability: Durability) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| format!("could not make {}: {error}", folder.display()))?;
        match make {
            Make::Quire(program) => quire(program, folder, durability),
            Make::Kafka(jars) => kafka(jars, folder, durability),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// How many milliseconds after its start the first message was acknowledged. The client retries
    /// continuously.
    ///
    /// # Errors
    /// When no message was acknowledged.
    pub(super) fn first_message_ms(&self, librdkafka: &Path) -> Result<f64, String> {
        let mut client = Command::new(librdkafka);
        client.args([&self.bootstrap, "first", "first", "1"]);
        let failed = |error: std::io::Error| format!("could not run {}: {error}", librdkafka.display());
        let mut client = client.stdout(Stdio::piped()).spawn().map_err(failed)?;
        let mut line = String::new();
        // It prints the time at once, and takes longer to exit.
        BufReader::new(client.stdout.take().expect("it is piped")).read_line(&mut line).map_err(failed)?;
        let took_ms = self.started.elapsed().as_secs_f64() * 1000.0;
        let ended = client.wait().map_err(failed)?;
        if ended.success() { Ok(took_ms) } else { Err(format!("the first message to {}: {ended}", self.name)) }
    }

    /// Its anonymous memory; `None` when the system does not report it.
    pub(super) fn memory_bytes(&self) -> Option<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024.0)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Both fail only when it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn quire(program: &Path, folder: &Path, durability: Durability) -> Result<Broker, String> {
    let mut command = Command::new(program);
    command.arg("serve").arg("--data").arg(folder.join("data")).args(["--durability", durability.name()]);
    for server in ["--kafka", "--http", "--grpc"] {
        command.args([server, "127.0.0.1:0"]);
    }
    let started = now();
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("could not start {}: {error}", program.display()))?;
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut broker = Broker { name: "quire", bootstrap: String::new(), durability, started, child };
    for line in lines.map_while(Result::ok) {
        if let Some(address) = line.strip_prefix("kafka ") {
            address.trim().clone_into(&mut broker.bootstrap);
        }
        // Its last output before it is ended, so its standard output may close.
        if line.starts_with("serving") {
            return Ok(broker);
        }
    }
    Err("quire ended before it served".to_owned())
}

fn kafka(jars: &Path, folder: &Path, durability: Durability) -> Result<Broker, String> {
    let (port, controller) = free_ports()?;
    let mut properties = format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n\
         offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\nlog.dirs={}\n",
        folder.join("data").display()
    );
    if durability == Durability::Sync {
        properties.push_str("log.flush.interval.messages=1\n");
    }
    let failed = |error: std::io::Error| format!("could not start Kafka: {error}");
    let settings = folder.join("server.properties");
    fs::write(&settings, properties).map_err(failed)?;
    let java = |main: &str| {
        let mut command = Command::new("java");
        command.args(JAVA).arg("-cp").arg(jars.join("*")).arg(main);
        command
    };
    // Any cluster id will do.
    let format = ["format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--config"];
    output(java("kafka.tools.StorageTool").args(format).arg(&settings))?;
    let log = File::create(folder.join("kafka.log")).map_err(failed)?;
    let started = now();
    let mut command = java("kafka.Kafka");
    let child = command.arg(&settings).stdout(log.try_clone().map_err(failed)?).stderr(log).spawn().map_err(failed)?;
    Ok(Broker { name: "kafka", bootstrap: format!("127.0.0.1:{port}"), durability, started, child })
}

/// Finds two free ports. Another process may take one before Kafka does; Kafka then reports it.
fn free_ports() -> Result<(u16, u16), String> {
    let bind = || TcpListener::bind(("127.0.0.1", 0));
    let ports = bind().and_then(|one| bind().and_then(|two| Ok((one.local_addr()?.port(), two.local_addr()?.port()))));
    ports.map_err(|error| format!("could not find a free port: {error}"))
}
