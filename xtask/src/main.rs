//! The project's chores: `cargo xtask test`, `tidy`, `soak`, `chaos`, `kills`, `gate`, `nightly`,
//! `canaries`, `bench-peers`, `package` and `proto`.
//!
//! This file only parses the command line. `test` is what a contributor and continuous integration
//! run. `tidy` is one of its steps: the rules about the source that no compiler checks. `proto`
//! generates code. Except `proto` and `canaries`, a chore changes no tracked file unless its flag
//! says so (`tidy --bless`, `gate --bless`).

use std::env;
use std::process::ExitCode;

mod bench_peers;
mod canaries;
mod chaos;
mod gate;
mod kills;
mod maven;
mod package;
mod proto;
mod salvage;
mod soak;
mod statements;
mod test;
mod tidy;
mod units;
mod workspace;

use workspace::Workspace;

const HELP: &str = "\
The chores of Quire.

Usage: cargo xtask <CHORE>

  test [--skip-python] [--only STEP]...   run every test; STEP is one of: fmt, clippy, tidy, deny, test, loom, chaos, doc,
                                          otlp, kafka, clients, browser, dashboard, site, packages, attacks, openapi,
                                          python
  tidy [--bless]                          check the rules about the source that no compiler checks;
                                          --bless: the format page was reviewed and matches the code
  tidy --voice UNIT                       list the wording that the rule `voice` counts in UNIT: a crate (crates/log, xtask)
                                          or a page (docs/http.md)
  package [--program FILE] [--out DIR]    make the files of a release: the archive, .deb and .rpm, checksums, notes;
                                          --program: package FILE, and do not build
  proto                                   generate the gRPC messages and services from the files in proto/
  canaries [NAME]...                     insert deliberate defects, which the tests must notice
  bench-peers kafka [--rounds N] [--case NAME]... [--durability os|sync]
                                          Quire next to Apache Kafka: the same loads in alternating rounds, and their ratios
  bench-peers log|events|jobs|graph|cluster [--rounds N] [--case NAME]... [--durability os|sync]
                                          the same next to other logs (Chronicle Queue, fjall, redb, SQLite), event stores
                                          (UmaDB), job systems (River, asynq, NATS JetStream), graphs in SQLite, and clusters (etcd,
                                          NATS JetStream) of three members
  chaos [SECONDS]                         attack real processes on a real disk for SECONDS, and check their answers against it
  gate [--bless]                          compare cases of `quire-bench` with xtask/baseline.jsonl: fails when one became slower;
                                          --bless: replace the baseline
  soak MINUTES                            run the simulation for MINUTES, with new seeds
  kills COUNT                             kill COUNT writing processes, and check the records that they acknowledged
  nightly MINUTES                         soak for MINUTES, chaos for MINUTES, 1,000 kills, 200 kills of a server under
                                          clients, a salvage after each flipped byte, 100,000 SQL statements, and then
                                          the gate
  help                                    print this
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let Some((chore, flags)) = arguments.split_first() else {
        return Err(HELP.to_owned());
    };
    match chore.as_str() {
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        "test" => test::run(&Workspace::find()?, &test::Options::parse(flags)?),
        "tidy" => match flags {
            [] => tidy::run(&Workspace::find()?, false),
            [flag] if flag == "--bless" => tidy::run(&Workspace::find()?, true),
            [flag, unit] if flag == "--voice" => tidy::voice(&Workspace::find()?, unit),
            _ => Err(format!("`tidy` takes --bless or --voice UNIT, not {}\n\n{HELP}", flags.join(" "))),
        },
        "package" => package::run(&Workspace::find()?, package::Options::parse(flags)?).map(drop),
        "proto" if flags.is_empty() => proto::run(&Workspace::find()?),
        "proto" => Err(format!("`proto` takes no {}\n\n{HELP}", flags.join(" "))),
        "canaries" => canaries::run(&Workspace::find()?, flags),
        "bench-peers" => match flags.split_first() {
            Some((peer, flags)) if peer == "kafka" => bench_peers::run(&Workspace::find()?, flags),
            Some((peer, flags)) if peer == "events" => bench_peers::events::run(&Workspace::find()?, flags),
            Some((peer, flags)) if peer == "jobs" => bench_peers::jobs::run(&Workspace::find()?, flags),
            Some((peer, flags)) if peer == "graph" => bench_peers::graph::run(&Workspace::find()?, flags),
            Some((peer, flags)) if peer == "log" => bench_peers::log::run(&Workspace::find()?, flags),
            Some((peer, flags)) if peer == "cluster" => bench_peers::cluster::run(&Workspace::find()?, flags),
            _ => Err(format!("`bench-peers` needs a comparison: kafka, log, events, jobs, graph or cluster\n\n{HELP}")),
        },
        "chaos" => match flags {
            [] => chaos::run(&Workspace::find()?, chaos::SECONDS),
            [seconds] if seconds.parse::<u64>().is_ok() => {
                chaos::run(&Workspace::find()?, seconds.parse().expect("the argument was checked"))
            }
            _ => Err(format!("`chaos` takes a number of seconds\n\n{HELP}")),
        },
        "soak" => match flags {
            [minutes] if minutes.parse::<u64>().is_ok() => {
                soak::run(&Workspace::find()?, minutes.parse().expect("the argument was checked"))
            }
            _ => Err(format!("`soak` takes a number of minutes\n\n{HELP}")),
        },
        "gate" => match flags {
            [] => gate::run(&Workspace::find()?, false),
            [flag] if flag == "--bless" => gate::run(&Workspace::find()?, true),
            _ => Err(format!("`gate` takes only --bless\n\n{HELP}")),
        },
        "kills" => match flags {
            [count] if count.parse::<u64>().is_ok() => {
                kills::run(&Workspace::find()?, count.parse().expect("the argument was checked"))
            }
            _ => Err(format!("`kills` takes a number\n\n{HELP}")),
        },
        "nightly" => match flags {
            [minutes] if minutes.parse::<u64>().is_ok() => {
                let (workspace, minutes) =
                    (Workspace::find()?, minutes.parse::<u64>().expect("the argument was checked"));
                // A failed stage does not prevent the others.
                let stages = [
                    soak::run(&workspace, minutes),
                    chaos::run(&workspace, minutes * 60),
                    kills::run(&workspace, kills::OF_A_NIGHT),
                    kills::of_servers(&workspace, kills::OF_SERVERS),
                    salvage::run(&workspace),
                    statements::run(&workspace, statements::OF_A_NIGHT),
                    gate::run(&workspace, false),
                ];
                let failures: Vec<String> = stages.into_iter().filter_map(Result::err).collect();
                if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
            }
            _ => Err(format!("`nightly` takes a number of minutes\n\n{HELP}")),
        },
        other => Err(format!("unknown chore `{other}`\n\n{HELP}")),
    }
}
