//! The loads of both brokers, in the order in which they run.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::broker::Broker;
use super::results::Measurement;
use super::{Durability, Programs, output};

/// A load.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) durability: Durability,
    by: By,
    /// How many operations a round has: for Quire, and for the other broker, whose rounds would
    /// otherwise take minutes.
    ops: [u64; 2],
}

/// The program that generates the load.
#[derive(Debug)]
enum By {
    /// The case of `quire-bench kafka` that has the load's name.
    Wire,
    /// A case of `librdkafka-load`, with the topic of the load of this name, which no other load of
    /// a round uses.
    Librdkafka(&'static str, &'static str),
}

/// All loads.
pub(super) const LOADS: &[Load] = &[
    wire("produce-128", Durability::Os, [100_000, 100_000]),
    wire("produce-1", Durability::Os, [20_000, 20_000]),
    wire("produce-ahead", Durability::Os, [20_000, 20_000]),
    wire("consume", Durability::Os, [2_000, 2_000]),
    wire("end-to-end", Durability::Os, [20_000, 20_000]),
    librdkafka("librdkafka-tasks-128", Durability::Os, "tasks-128", [200_000, 200_000]),
    librdkafka("librdkafka-open-loop", Durability::Os, "open-loop", [2_000_000, 2_000_000]),
    // Reads the messages of the previous load.
    Load {
        by: By::Librdkafka("consume", "librdkafka-open-loop"),
        ..librdkafka("librdkafka-open-loop-consume", Durability::Os, "consume", [2_000_000, 2_000_000])
    },
    librdkafka("librdkafka-end-to-end", Durability::Os, "end-to-end", [20_000, 20_000]),
    wire("produce-128", Durability::Sync, [100_000, 20_000]),
    librdkafka("librdkafka-tasks-128", Durability::Sync, "tasks-128", [200_000, 20_000]),
];

/// A load without a broker: the case of `quire-bench streams` with its name.
#[derive(Debug)]
pub(super) struct Embedded {
    pub(super) name: &'static str,
    pub(super) durability: Durability,
}

/// All of those.
pub(super) const EMBEDDED: &[Embedded] = &[
    Embedded { name: "process", durability: Durability::Os },
    Embedded { name: "handoff", durability: Durability::Os },
];

impl Embedded {
    /// Runs it.
    ///
    /// # Errors
    /// When it fails.
    pub(super) fn run(&self, quire: &Path) -> Result<Measurement, String> {
        let said = output(Command::new(quire).args(["streams", "--json", "--case", self.name]))
            .map_err(|error| format!("{}: {error}", self.name))?;
        measured(&said).ok_or_else(|| format!("{} said: {said}", self.name))
    }
}

const fn wire(name: &'static str, durability: Durability, ops: [u64; 2]) -> Load {
    Load { name, durability, by: By::Wire, ops }
}

const fn librdkafka(name: &'static str, durability: Durability, case: &'static str, ops: [u64; 2]) -> Load {
    Load { name, durability, by: By::Librdkafka(case, name), ops }
}

impl Load {
    /// The program that generates it; `None` when it could not be built.
    pub(super) fn program<'p>(&self, programs: &'p Programs) -> Option<&'p Path> {
        match self.by {
            By::Wire => Some(&programs.quire),
            By::Librdkafka(..) => programs.librdkafka.as_deref(),
        }
    }

    /// Loads a broker.
    ///
    /// # Errors
    /// When the load fails.
    pub(super) fn run(&self, program: &Path, broker: &Broker, round: usize) -> Result<Measurement, String> {
        let ops = self.ops[usize::from(broker.name() != "quire")].to_string();
        let mut command = Command::new(program);
        match self.by {
            By::Wire => {
                command.args(["kafka", "--json", "--case", self.name, "--ops", &ops]);
                command.args(["--bootstrap", &broker.bootstrap, "--durability", broker.durability.name()])
            }
            By::Librdkafka(case, topic) => command.args([&broker.bootstrap, case, &format!("{topic}-{round}"), &ops]),
        };
        let said = output(&mut command).map_err(|error| format!("{} on {}: {error}", self.name, broker.name()))?;
        measured(&said).ok_or_else(|| format!("{} on {} said: {said}", self.name, broker.name()))
    }
}

/// Parses the last line of a load's output.
pub(super) fn measured(said: &str) -> Option<Measurement> {
    let line: Value = serde_json::from_str(said.lines().last()?).ok()?;
    let micros = |name: &str| line[name].as_f64().filter(|ns| *ns > 0.0).map(|ns| ns / 1000.0);
    // An operation is a batch; its size is given where it is not one message.
    let messages = line["entries_per_op"].as_f64().unwrap_or(1.0);
    let rate = Some(line["ops_per_s"].as_f64()? * messages);
    let disk_bytes = line["also"]["disk_bytes_per_event"].as_f64();
    Some(Measurement { rate, p50_us: micros("p50_ns"), p99_us: micros("p99_ns"), disk_bytes, ..Measurement::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_load_is_parsed() {
        let said =
            "{\"cores\":2}\n{\"case\":\"x\",\"entries_per_op\":100,\"ops_per_s\":20.5,\"p50_ns\":1500,\"p99_ns\":0}\n";
        let found = measured(said).expect("a result");
        assert_eq!((found.rate, found.p50_us, found.p99_us), (Some(2050.0), Some(1.5), None));
        assert!(measured("nothing").is_none());
    }
}
