//! `cargo xtask gate`: detects performance regressions, relative to the speed of the machine.
//!
//! `quire-bench compare` compares a report of some cases with `xtask/baseline.jsonl`. Each median
//! and mean is relative to the speed of the machine right before and after the case. That speed
//! comes from small records hashed, looked up and copied, a write with its sync, and a round trip
//! on loopback. So another machine, or a slow day of this one, does not fail the gate.
//!
//! A case that is slower while other processes use more than a fifth of the processors is reported
//! and not judged. A single slow run may be a disturbance: only a case that is slower each of
//! [`TRIES`] times is a regression. It measures, so it is not part of `cargo xtask test`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::test::{in_root, succeed};
use crate::workspace::Workspace;

const BASELINE: &str = "xtask/baseline.jsonl";

/// How often a case must be slower to count.
const TRIES: usize = 3;

/// The text of `quire-bench compare` for a missing case.
const MISSING: &[u8] = b"or done with another payload";

/// How many times as long a median may take, relative to its machine. A mean may take twice that.
const AT_MOST: &str = "2";

/// The measured cases: the basic ones of each suite, in about a minute.
const CASES: [&str; 17] = [
    "append-single",
    "append-batch-100",
    "read-back",
    "tail-read",
    "random-read-1m",
    "group-ack",
    "append-threads-2",
    "grpc-append-clients-1",
    "grpc-append-if-clients-16",
    "life",
    "fetch-ack",
    "grpc-enqueue",
    "block-put-1k",
    "edge-lookup-1k",
    "hop-1k",
    "walk-depth-5",
    "produce-128",
];

/// Compares with the baseline; with `bless`, replaces it.
///
/// # Errors
/// When a case has become slower, or can't be measured.
pub(crate) fn run(workspace: &Workspace, bless: bool) -> Result<(), String> {
    succeed(&mut in_root(workspace, &["build", "--profile", "dist", "-p", "quire-bench"]))?;
    let program = workspace.target.join("dist/quire-bench");
    let baseline = workspace.root.join(BASELINE);
    let report = workspace.target.join("gate.jsonl");
    if bless {
        measure(&program, &report)?;
        // A report that does not pass a comparison with itself is no baseline: other processes were
        // running.
        succeed(Command::new(&program).args(["compare"]).arg(&report).arg(&report))?;
        return fs::copy(&report, &baseline)
            .map(|_| ())
            .map_err(|error| format!("could not write {}: {error}", baseline.display()));
    }
    let mut slower: Option<BTreeMap<String, bool>> = None;
    for attempt in 1..=TRIES {
        measure(&program, &report)?;
        let mut compare = Command::new(&program);
        compare.args(["compare", "--at-most", AT_MOST]).arg(&baseline).arg(&report);
        let output = compare.output().map_err(|error| format!("could not start {}: {error}", program.display()))?;
        let told = String::from_utf8_lossy(&output.stdout);
        print!("{told}{}", String::from_utf8_lossy(&output.stderr));
        let found = marked(&told);
        let is_slower = found.values().any(|is_judged| *is_judged);
        // A missing case is not noise, whatever else is slower.
        if !output.status.success() && (!is_slower || output.stderr.windows(MISSING.len()).any(|it| it == MISSING)) {
            return Err("the report can't be compared with the baseline".to_owned());
        }
        let still = slower.take().map_or_else(|| found.clone(), |before| in_both(before, &found));
        if still.is_empty() {
            return Ok(());
        }
        println!("time {attempt} of {TRIES}: {} each time so far", names(still.keys()));
        slower = Some(still);
    }
    let slower = slower.unwrap_or_default();
    if slower.values().any(|is_judged| *is_judged) {
        return Err(format!("slower each time: {}", names(slower.keys())));
    }
    if slower.len() >= CASES.len() {
        return Err(
            "nothing could be judged, because other processes were running each time: run it again on an idle machine"
                .to_owned(),
        );
    }
    println!(
        "NOT JUDGED, because other processes were running each time: {}: run it again on an idle machine",
        names(slower.keys())
    );
    Ok(())
}

/// The marked cases of a comparison: `true` for slower ones, `false` for those not judged.
fn marked(told: &str) -> BTreeMap<String, bool> {
    let case = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    let is_judged = |line: &&str| line.ends_with("  slower");
    let marked = told.lines().filter(|line| is_judged(line) || line.ends_with("  not judged"));
    marked.map(|line| (case(line), is_judged(&line))).collect()
}

/// The cases that are slower in both; judged if they were in one.
fn in_both(before: BTreeMap<String, bool>, now: &BTreeMap<String, bool>) -> BTreeMap<String, bool> {
    let both = before.into_iter().filter_map(|(case, was)| now.get(&case).map(|is| (case, was || *is)));
    both.collect()
}

fn names<'n>(cases: impl Iterator<Item = &'n String>) -> String {
    cases.map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn measure(program: &Path, report: &Path) -> Result<(), String> {
    let mut bench = Command::new(program);
    bench.args(["all", "--json"]);
    CASES.iter().for_each(|case| {
        bench.args(["--case", case]);
    });
    println!("$ quire-bench all --json --case ... > {}", report.display());
    let output = bench.output().map_err(|error| format!("could not start {}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("quire-bench failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    fs::write(report, output.stdout).map_err(|error| format!("could not write {}: {error}", report.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_slower_only_if_every_comparison_marks_it() {
        let told = |lines: &[(&str, &str)]| {
            let line = |(case, mark): &(&str, &str)| {
                format!("{case:<40} 290 ns     410 ns    1.41  4.44   1.86   3.42{mark}\n")
            };
            marked(&lines.iter().map(line).collect::<String>())
        };
        let once =
            told(&[("log a os", "  slower"), ("log b os", "  not judged"), ("log c os", ""), ("log d os", "  slower")]);
        assert_eq!(
            once.iter().map(|(case, is)| (case.as_str(), *is)).collect::<Vec<_>>(),
            [("log a os", true), ("log b os", false), ("log d os", true)]
        );
        let again = told(&[("log a os", "  not judged"), ("log b os", "  not judged"), ("log c os", "  slower")]);
        let both = in_both(once, &again);
        assert_eq!(both, told(&[("log a os", "  slower"), ("log b os", "  not judged")]));
    }
}
