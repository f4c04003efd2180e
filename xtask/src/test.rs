//! `cargo xtask test`: every test of the project, in steps, cheapest first, until one fails.
//!
//! ```text
//! fmt ─▶ clippy ─▶ tidy ─▶ deny ─▶ test ─▶ otlp ─▶ loom ─▶ chaos ─▶ doc ─▶ kafka ─▶ clients ─▶ browser ─▶ dashboard ─▶
//! site ─▶ packages ─▶ attacks ─▶ openapi ─▶ python
//! ```
//!
//! Each step is one command that a person could type. What a step prints is passed through. All
//! building steps use the profile `test-fast`, so that dependencies are compiled once: optimised,
//! but with debug assertions and overflow checks. The last line is always `N passed, M failed`,
//! counting steps.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::chaos;
use crate::tidy;
use crate::workspace::{Workspace, cargo};

mod attacks;
mod bindings;
mod browser;
pub(crate) mod clients;
mod dashboard;
mod demo;
mod deny;
mod go;
mod java;
mod js;
mod kafka;
mod node;
mod openapi;
mod packages;
mod python;
mod site;

/// See the root manifest for its settings.
pub(crate) const PROFILE: &str = "test-fast";

/// What tests are built with: all features of the command line, so that the workspace is compiled
/// once for all steps. The step `clippy` checks the default features.
pub(crate) const FEATURES: [&str; 2] = ["--features", "quire-cli/otlp,quire-cli/parquet"];

struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Workspace) -> Result<(), String>,
}

const STEPS: [Step; 18] = [
    Step { name: "fmt", what: "the source is formatted", run: format },
    Step { name: "clippy", what: "the lints pass", run: clippy },
    Step {
        name: "tidy",
        what: "the source keeps the project's own rules",
        run: |workspace| tidy::run(workspace, false),
    },
    Step { name: "deny", what: "licences, sources and advisories of the dependencies", run: deny::run },
    Step { name: "test", what: "unit, property, integration, crash and doc tests", run: tests },
    Step {
        name: "otlp",
        what: "the features `otlp` and `parquet`: their lints, and no part of them in the default build",
        run: otlp,
    },
    Step { name: "loom", what: "the lock-free parts, in every order of their steps", run: loom },
    Step {
        name: "chaos",
        what: "real processes, killed, stopped and starved",
        run: |workspace| chaos::run(workspace, chaos::SECONDS),
    },
    Step { name: "doc", what: "the documentation builds, and its links resolve", run: document },
    Step {
        name: "kafka",
        what: "independent Kafka clients, on the demo, and on servers that are killed",
        run: kafka::run,
    },
    Step { name: "clients", what: "the clients in other languages, and their examples", run: clients::run },
    Step { name: "browser", what: "pages of other sites, in headless Chromium", run: browser::run },
    Step { name: "dashboard", what: "the dashboard: its bundle, and its pages in Chromium", run: dashboard::run },
    Step { name: "site", what: "the site of the documentation, and its links", run: site::run },
    Step { name: "packages", what: "the archive and the packages of a release", run: packages::run },
    Step { name: "attacks", what: "attacks on a server, while another client commits", run: attacks::run },
    Step { name: "openapi", what: "random requests from the description of the HTTP API", run: openapi::run },
    Step { name: "python", what: "the Python package: its lints, types and tests", run: bindings::run },
];

/// The steps that need Python.
const PYTHON_STEPS: [&str; 6] = ["kafka", "clients", "browser", "attacks", "openapi", "python"];

/// Which steps to run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    skip_python: bool,
    only: Vec<String>,
}

impl Options {
    /// Reads the flags of `cargo xtask test`.
    ///
    /// # Errors
    /// For an unknown flag or step, and when the flags leave no step.
    pub(crate) fn parse(flags: &[String]) -> Result<Self, String> {
        let mut options = Options::default();
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            match flag.as_str() {
                "--skip-python" => options.skip_python = true,
                "--only" => {
                    let names = STEPS.map(|step| step.name).join(", ");
                    let name = flags.next().ok_or(format!("--only needs a step: {names}"))?;
                    if STEPS.iter().all(|step| step.name != name) {
                        return Err(format!("unknown step `{name}`: use {names}"));
                    }
                    options.only.push(name.clone());
                }
                other => return Err(format!("`cargo xtask test` does not take `{other}`; see `cargo xtask help`")),
            }
        }
        if STEPS.iter().all(|step| !options.wants(step.name)) {
            return Err("these flags leave no step to run".to_owned());
        }
        Ok(options)
    }

    fn wants(&self, step: &str) -> bool {
        let is_named = self.only.is_empty() || self.only.iter().any(|name| name == step);
        is_named && !(self.skip_python && PYTHON_STEPS.contains(&step))
    }
}

/// Runs the steps of `options`, in order, also after one failed.
///
/// # Errors
/// When a step failed. The failure and the command to repeat it are printed by then; the error is
/// the summary.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), String> {
    if PYTHON_STEPS.into_iter().any(|step| options.wants(step)) {
        // Checked before the minutes of building.
        python::check_present()?;
    }
    let steps: Vec<_> = STEPS.iter().filter(|step| options.wants(step.name)).collect();
    let begun = now();
    let mut durations = Vec::new();
    let mut failed = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        println!("\n=== {}/{} {}: {}", index + 1, steps.len(), step.name, step.what);
        let begun = now();
        let result = (step.run)(workspace);
        durations.push((step.name, begun.elapsed()));
        if let Err(message) = result {
            eprintln!("\n{message}");
            eprintln!("=== {} FAILED after {}", step.name, seconds(begun.elapsed()));
            eprintln!("    this step alone: cargo xtask test --only {}", step.name);
            failed.push(step.name);
            continue;
        }
        println!("=== {} passed in {}", step.name, seconds(begun.elapsed()));
    }
    let skipped: Vec<_> = STEPS.iter().filter(|step| !options.wants(step.name)).map(|step| step.name).collect();
    let durations: Vec<_> = durations.iter().map(|(name, took)| format!("{name} {}", seconds(*took))).collect();
    println!("\nin {}: {}", seconds(begun.elapsed()), durations.join(", "));
    if !skipped.is_empty() {
        println!("skipped: {}", skipped.join(", "));
    }
    let passed = steps.len() - failed.len();
    if !failed.is_empty() {
        return Err(format!("{passed} passed, {} failed: {}", failed.len(), failed.join(", ")));
    }
    println!("{passed} passed, 0 failed");
    Ok(())
}

fn format(workspace: &Workspace) -> Result<(), String> {
    succeed(&mut in_root(workspace, &["fmt", "--all", "--check"]))
        .map_err(|error| format!("{error}\nto format: cargo fmt --all"))
}

fn clippy(workspace: &Workspace) -> Result<(), String> {
    let targets = ["clippy", "--workspace", "--all-targets", "--profile", PROFILE];
    succeed(in_root(workspace, &targets).args(["--", "-D", "warnings"]))
}

fn tests(workspace: &Workspace) -> Result<(), String> {
    succeed(in_root(workspace, &["test", "--workspace", "--no-fail-fast", "--profile", PROFILE]).args(FEATURES))
}

/// Checks the lints of the features that the default build lacks, and that the default build lacks
/// their dependencies. The step `test` runs their tests.
fn otlp(workspace: &Workspace) -> Result<(), String> {
    let dependencies = ["tree", "--package", "quire-cli", "--edges", "normal", "--prefix", "none"];
    let output = in_root(workspace, &dependencies).output().map_err(|error| format!("`cargo tree`: {error}"))?;
    let found = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || ["opentelemetry", "parquet"].iter().any(|name| found.contains(name)) {
        let message = "the default build must depend neither on OpenTelemetry nor on Parquet";
        return Err(format!("{message}; see `cargo tree -p quire-cli`"));
    }
    let targets = ["clippy", "--workspace", "--lib", "--bins", "--profile", PROFILE];
    succeed(in_root(workspace, &targets).args(FEATURES).args(["--", "-D", "warnings"]))
}

/// Runs the tests of the model checker, in a build of their own: see `crates/threads`.
fn loom(workspace: &Workspace) -> Result<(), String> {
    let mut command =
        in_root(workspace, &["test", "-p", "quire-threads", "-p", "quire-log", "--lib", "--profile", PROFILE]);
    command.env("CARGO_TARGET_DIR", workspace.target.join("loom"));
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{flags} --cfg loom -D warnings"));
    // A failing test may end the process before its output was passed on.
    succeed(command.args(["--", "explored::", "--nocapture"]))
}

/// Documents the libraries. The binary has the same name as the library `quire`, and so the same
/// page.
fn document(workspace: &Workspace) -> Result<(), String> {
    let mut command = in_root(workspace, &["doc", "--workspace", "--no-deps", "--lib", "--profile", PROFILE]);
    succeed(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// A cargo command in the root of the checkout.
pub(crate) fn in_root(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo());
    forget_package(&mut command);
    command.current_dir(&workspace.root).args(arguments);
    command
}

/// Removes the variables that describe the package `xtask` from the environment of a command that
/// compiles. With them the build script of `ring` would run again, and `ring` and its dependents
/// would be compiled again after each cargo command of a person.
pub(crate) fn forget_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

/// Runs a command to its end, with its output passed through.
pub(crate) fn succeed(command: &mut Command) -> Result<(), String> {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    let line = [program].into_iter().chain(arguments).collect::<Vec<_>>().join(" ");
    println!("$ {line}");
    let status = command.status().map_err(|error| format!("could not start `{line}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed: {status}")) }
}

#[expect(clippy::disallowed_methods, reason = "durations for a person, and deadlines of a child process")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(flags: &[&str]) -> Result<Vec<&'static str>, String> {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let options = Options::parse(&flags)?;
        Ok(STEPS.iter().map(|step| step.name).filter(|name| options.wants(name)).collect())
    }

    #[test]
    fn flags_choose_the_steps() {
        assert_eq!(
            wanted(&[]),
            Ok(vec![
                "fmt",
                "clippy",
                "tidy",
                "deny",
                "test",
                "otlp",
                "loom",
                "chaos",
                "doc",
                "kafka",
                "clients",
                "browser",
                "dashboard",
                "site",
                "packages",
                "attacks",
                "openapi",
                "python"
            ])
        );
        assert_eq!(
            wanted(&["--skip-python"]),
            Ok(vec![
                "fmt",
                "clippy",
                "tidy",
                "deny",
                "test",
                "otlp",
                "loom",
                "chaos",
                "doc",
                "dashboard",
                "site",
                "packages"
            ])
        );
        assert_eq!(wanted(&["--only", "tidy", "--only", "fmt"]), Ok(vec!["fmt", "tidy"]));
    }

    #[test]
    fn flags_that_make_no_sense_are_refused() {
        assert!(wanted(&["--only", "lint"]).unwrap_err().contains("use fmt, clippy"));
        assert!(wanted(&["--only"]).unwrap_err().contains("needs a step"));
        assert!(wanted(&["--fast"]).unwrap_err().contains("--fast"));
        assert!(wanted(&["--only", "kafka", "--skip-python"]).unwrap_err().contains("no step"));
    }

    #[test]
    fn a_failed_command_is_printed_in_full() {
        assert_eq!(succeed(Command::new("sh").args(["-c", "exit 0"])), Ok(()));
        let error = succeed(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error, "`sh -c exit 3` failed: exit status: 3");
    }
}
