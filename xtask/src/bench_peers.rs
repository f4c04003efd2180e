//! `cargo xtask bench-peers kafka`: Quire next to Apache Kafka, on this machine.
//!
//! ```text
//! for each durability: start both ─▶ rounds: each load on one, then on the other, and next time the other way round ─▶ table
//! ```
//! Both brokers stay up through all rounds, so that Kafka's virtual machine is warm; only one has
//! work at a time. Loads are `quire-bench kafka --bootstrap` and librdkafka
//! (`xtask/peers/librdkafka`), the client that most programs use. A program that can't be installed
//! is reported, and its loads are skipped.
//!
//! Loads that only Quire supports run before both: a handler in its own process, and one in
//! another. The report is printed only. It marks results below Quire's targets.

mod broker;
pub(crate) mod cluster;
pub(crate) mod events;
pub(crate) mod graph;
pub(crate) mod jobs;
mod loads;
pub(crate) mod log;
mod marks;
mod options;
mod results;
mod servers;
mod suite;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::maven;
use crate::test::{in_root, succeed};
use crate::workspace::Workspace;

use broker::{Broker, Make};
use loads::{EMBEDDED, LOADS, Load};
use marks::Marks;
use options::Options;
use results::{Measurement, Results};

const POM: &str = "xtask/peers/kafka/pom.xml";
const LIBRDKAFKA: &str = "xtask/peers/librdkafka/Cargo.toml";

/// When an acknowledgement is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// From the page cache: Quire's `os`, and Kafka's default.
    Os,
    /// Once it is on disk: Quire's `sync`, and Kafka with a flush for each message.
    Sync,
}

impl Durability {
    fn name(self) -> &'static str {
        match self {
            Durability::Os => "os",
            Durability::Sync => "sync",
        }
    }
}

/// The programs that take part.
struct Programs {
    quire: PathBuf,
    /// The folder of Kafka's jars.
    kafka: Option<PathBuf>,
    librdkafka: Option<PathBuf>,
}

/// Runs the rounds, and prints the table.
///
/// # Errors
/// For an unknown flag, or when the flags leave no load; when Quire does not build, or a broker or
/// a load fails.
pub(crate) fn run(workspace: &Workspace, flags: &[String]) -> Result<(), String> {
    let all = LOADS.iter().map(|load| (load.name, load.durability));
    let all = all.chain(EMBEDDED.iter().map(|load| (load.name, load.durability)));
    let options = Options::parse("kafka", flags, all)?;
    let programs = programs(workspace)?;
    let folder = workspace.target.join("bench-peers");
    let mut results = Results::beside(["kafka"]);
    embedded(&programs.quire, &options, &mut results)?;
    for durability in [Durability::Os, Durability::Sync] {
        let loads: Vec<_> =
            LOADS.iter().filter(|load| load.durability == durability && options.wants(load.name, durability)).collect();
        if !loads.is_empty() {
            remove(&folder)?;
            side_by_side(&programs, &folder, durability, &loads, options.rounds, &mut results)?;
        }
    }
    remove(&folder)?;
    print!("\n{results}\n{}", Marks::of_kafka(&results));
    Ok(())
}

/// Rounds of loads without a broker.
fn embedded(quire: &Path, options: &Options, results: &mut Results) -> Result<(), String> {
    for round in 0..options.rounds {
        for load in EMBEDDED.iter().filter(|load| options.wants(load.name, load.durability)) {
            let measured = load.run(quire)?;
            println!("round {}: {:<22} {:<5} {:<6} {measured}", round + 1, load.name, load.durability.name(), "quire");
            results.add(load.name, load.durability, "quire", measured);
        }
    }
    Ok(())
}

fn programs(workspace: &Workspace) -> Result<Programs, String> {
    succeed(&mut in_root(workspace, &["build", "--profile", "dist", "-p", "quire-bench"]))?;
    let named =
        |what: &str, found: Result<PathBuf, String>| found.inspect_err(|why| println!("SKIPPED {what}: {why}")).ok();
    let target = workspace.target.join("librdkafka-load");
    let mut build = in_root(workspace, &["build", "--release", "--locked", "--manifest-path", LIBRDKAFKA]);
    let built = succeed(build.arg("--target-dir").arg(&target)).map(|()| target.join("release/librdkafka-load"));
    Ok(Programs {
        quire: workspace.target.join("dist/quire-bench"),
        kafka: named("Kafka", maven::jars(workspace, POM, "kafka-broker")),
        librdkafka: named("the loads by librdkafka", built),
    })
}

fn side_by_side(
    programs: &Programs,
    folder: &Path,
    durability: Durability,
    loads: &[&Load],
    rounds: usize,
    results: &mut Results,
) -> Result<(), String> {
    let makes = [Make::Quire(&programs.quire)].into_iter().chain(programs.kafka.as_deref().map(Make::Kafka));
    let mut brokers = Vec::new();
    for make in makes {
        let broker = Broker::start(make, &folder.join(make.name()), durability)?;
        if let Some(librdkafka) = &programs.librdkafka {
            let measured =
                Measurement { took_ms: Some(broker.first_message_ms(librdkafka)?), ..Measurement::default() };
            results.add("cold-start", durability, make.name(), measured);
        }
        brokers.push(broker);
    }
    for round in 0..rounds {
        for load in loads {
            let Some(program) = load.program(programs) else { continue };
            for broker in &brokers {
                let measured = load.run(program, broker, round)?;
                println!(
                    "round {}: {:<22} {:<5} {:<6} {measured}",
                    round + 1,
                    load.name,
                    durability.name(),
                    broker.name()
                );
                results.add(load.name, durability, broker.name(), measured);
            }
        }
        // The order alternates between rounds.
        brokers.reverse();
    }
    for broker in &brokers {
        let measured = Measurement { memory_bytes: broker.memory_bytes(), ..Measurement::default() };
        results.add("memory", durability, broker.name(), measured);
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("could not remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Returns the output of a program that succeeded.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("could not start {name}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
