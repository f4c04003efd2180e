//! `cargo xtask canaries`: deliberate defects, each of which the simulation or a named test must
//! notice.
//!
//! ```text
//! the source ─▶ a copy in the target folder, with every defect behind a number ─▶ built once ─▶ let out one by one
//! ```
//!
//! The source contains none of the defects, so no build of it can. The copy is built once; the
//! variable `QUIRE_CANARY` selects the defect of a run. A defect that no run notices within the
//! given seeds is a gap in the tests.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

mod table;

use crate::test::{PROFILE, now, succeed};
use crate::workspace::{Workspace, cargo};
use table::{CANARIES, Canary, Test};

/// The crates that are copied.
const CRATES: [&str; 19] = [
    "threads", "mapped", "model", "log", "streams", "events", "jobs", "graph", "system", "shard", "quire", "sim",
    "access", "api", "kafka", "cluster", "vtab", "sql", "http",
];
/// The crates that have the switch. The others use that of the first.
const SWITCHED: [&str; 4] = ["model", "access", "kafka", "http"];
/// Each defect must be noticed within this number of runs.
const SEEDS: u64 = 4000;
/// The number of runs at a time; they take a few seconds.
const SEEDS_AT_ONCE: u64 = 200;
/// A defect that makes a run hang is noticed after this time.
const HANGS: Duration = Duration::from_secs(120);
/// The target of a unit test.
const LIB: &str = "lib";
/// The target of a unit test of the model checker.
const LOOM: &str = "loom";
/// The page with the table.
const PAGE: &str = "docs/canaries.md";
/// The selected defect, by its place in the table from 1; 0 for none.
const SWITCH: &str = "\
//! The selected deliberate defect.

extern crate std;

static OUT: std::sync::OnceLock<u32> = std::sync::OnceLock::new();

/// Whether this defect is selected.
pub fn is_out(number: u32) -> bool {
    let out = || std::env::var(\"QUIRE_CANARY\").ok().and_then(|out| out.parse().ok()).unwrap_or(0);
    *OUT.get_or_init(out) == number
}
";

/// Tests every defect, or those of these names.
///
/// # Errors
/// When a defect is not noticed, or the sound source does not pass.
pub(crate) fn run(workspace: &Workspace, names: &[String]) -> Result<(), String> {
    if let Some(unknown) = names.iter().find(|name| CANARIES.iter().all(|canary| canary.name != **name)) {
        return Err(format!("unknown canary `{unknown}`"));
    }
    let is_wanted = |canary: &Canary| names.is_empty() || names.iter().any(|name| name == canary.name);
    let wanted: Vec<_> = (1..).zip(CANARIES).filter(|(_, canary)| is_wanted(canary)).collect();
    let copy = workspace.target.join("canaries");
    copy_source(&workspace.root, &copy)?;
    succeed(&mut in_copy(&copy, &["build", "-p", "quire-sim"]))?;
    let program = copy.join("target").join(PROFILE).join("quire-sim");
    if let Some(failure) = in_seeds(&program, 0, SEEDS)? {
        return Err(format!("with no canary out: {failure}"));
    }
    let (mut noticed, mut unnoticed) = (Vec::new(), Vec::new());
    for (place, (number, canary)) in (1..).zip(&wanted) {
        let by = match canary.test {
            None => in_seeds(&program, *number, SEEDS)?,
            Some(test) => in_test(&copy, *number, test)?,
        };
        println!("{place}/{} {:22} {}", wanted.len(), canary.name, by.as_deref().unwrap_or("NOT NOTICED"));
        match by {
            Some(by) => noticed.push((*canary, by)),
            None => unnoticed.push(canary.name),
        }
    }
    if !unnoticed.is_empty() {
        return Err(format!("nobody noticed: {}", unnoticed.join(", ")));
    }
    if !names.is_empty() {
        return Ok(());
    }
    let path = workspace.root.join(PAGE);
    fs::write(&path, page(&noticed)).map_err(|error| format!("could not write {}: {error}", path.display()))
}

/// A cargo command in the copy, which has its own target directory.
fn in_copy(copy: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo());
    command.current_dir(copy).args(arguments).args(["--offline", "--quiet", "--profile", PROFILE]);
    command.env("CARGO_TARGET_DIR", copy.join("target")).env("RUSTFLAGS", "--cap-lints allow");
    command
}

/// Runs a test, which must fail with the defect and pass without.
fn in_test(copy: &Path, number: u32, Test { package, target, name }: Test) -> Result<Option<String>, String> {
    let run = |number: u32| -> Result<Output, String> {
        let mut command = match target {
            LIB | LOOM => in_copy(copy, &["test", "-p", package, "--lib"]),
            _ => in_copy(copy, &["test", "-p", package, "--test", target]),
        };
        if target == LOOM {
            command.env("RUSTFLAGS", "--cap-lints allow --cfg loom");
        }
        command.env("QUIRE_CANARY", number.to_string()).args(["--", "--exact", name]);
        command.output().map_err(|error| format!("could not run cargo: {error}"))
    };
    let sound = run(0)?;
    if !sound.status.success() || !String::from_utf8_lossy(&sound.stdout).contains("1 passed") {
        let (stdout, stderr) = (String::from_utf8_lossy(&sound.stdout), String::from_utf8_lossy(&sound.stderr));
        return Err(format!("the test {name} of {package} fails without a canary:\n{stdout}{stderr}"));
    }
    Ok((!run(number)?.status.success()).then(|| format!("the test `{name}` of `{package}`")))
}

/// Runs seeds with the defect; returns the first failure.
fn in_seeds(program: &Path, number: u32, seeds: u64) -> Result<Option<String>, String> {
    for from in (0..seeds).step_by(usize::try_from(SEEDS_AT_ONCE).expect("small")) {
        if let Some(noticed) = in_range(program, number, from, from + SEEDS_AT_ONCE)? {
            return Ok(Some(noticed));
        }
    }
    Ok(None)
}

fn in_range(program: &Path, number: u32, from: u64, to: u64) -> Result<Option<String>, String> {
    let mut command = Command::new(program);
    command.args(["--brief", "--seeds", &format!("{from}..{to}")]).env("QUIRE_CANARY", number.to_string());
    let failed = |error| format!("could not run {}: {error}", program.display());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(failed)?;
    let begun = now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if begun.elapsed() >= HANGS {
            child.kill().map_err(failed)?;
            child.wait().map_err(failed)?;
            return Ok(Some(format!("one of the seeds {from} to {to} hangs")));
        }
        pause();
    };
    let mut line = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().expect("it is piped"), &mut line).map_err(failed)?;
    let line = line.lines().next().unwrap_or_default();
    let short: String = match line {
        "" => format!("one of the seeds {from} to {to} panics"),
        line => line.replacen(" fails:", ",", 1).chars().take(120).collect(),
    };
    Ok((!status.success()).then_some(short))
}

#[expect(clippy::disallowed_methods, reason = "waits for another process, for which there is no condition to wait on")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// Copies the source of the simulation, and inserts the defects.
fn copy_source(root: &Path, copy: &Path) -> Result<(), String> {
    let crates = copy.join("crates");
    let failed = |path: &Path, error: std::io::Error| format!("could not write {}: {error}", path.display());
    if crates.exists() {
        fs::remove_dir_all(&crates).map_err(|error| failed(&crates, error))?;
    }
    for name in CRATES {
        copy_folder(&root.join("crates").join(name), &crates.join(name))?;
    }
    // Some tests compare a page with the code.
    copy_folder(&root.join("docs"), &copy.join("docs"))?;
    for (number, canary) in (1..).zip(CANARIES) {
        change(&crates.join(canary.file), |text| defective(&text, canary, number))?;
    }
    for name in SWITCHED {
        let source = crates.join(name).join("src");
        change(&source.join("lib.rs"), |text| Ok(format!("{text}\npub mod canary;\n")))?;
        let switch = source.join("canary.rs");
        fs::write(&switch, SWITCH).map_err(|error| failed(&switch, error))?;
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).map_err(|error| failed(root, error))?;
    let mut lines: Vec<_> = manifest.lines().filter(|line| !line.starts_with("default-members")).collect();
    let members = lines.iter().position(|line| line.starts_with("members")).ok_or("the manifest must have members")?;
    lines[members] = "members = [\"crates/*\"]";
    let path = copy.join("Cargo.toml");
    fs::write(&path, lines.join("\n")).map_err(|error| failed(&path, error))?;
    let path = copy.join("Cargo.lock");
    fs::copy(root.join("Cargo.lock"), &path).map(|_| ()).map_err(|error| failed(&path, error))
}

/// The text with a defect in it, guarded by its number.
fn defective(text: &str, canary: &Canary, number: u32) -> Result<String, String> {
    if text.matches(canary.from).count() != 1 {
        return Err(format!(
            "canary `{}`: crates/{} must contain this exactly once: {}\ncorrect the table in xtask/src/canaries/table.rs",
            canary.name, canary.file, canary.from
        ));
    }
    let is_switched = SWITCHED.iter().any(|name| Path::new(canary.file).starts_with(name));
    let home = if is_switched { "crate" } else { "quire_model" };
    Ok(text.replacen(canary.from, &canary.to.replace("ON", &format!("{home}::canary::is_out({number})")), 1))
}

fn change(path: &Path, change: impl FnOnce(String) -> Result<String, String>) -> Result<(), String> {
    let failed = |error| format!("could not change {}: {error}", path.display());
    let changed = change(fs::read_to_string(path).map_err(failed)?)?;
    fs::write(path, changed).map_err(failed)
}

/// Copies a directory; unchanged files keep their time, so that they are not built again.
fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error| format!("could not copy {}: {error}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(failed)?.is_dir() {
            copy_folder(&path, &copy)?;
        } else {
            fs::copy(&path, &copy).map_err(failed)?;
        }
    }
    Ok(())
}

/// The page with the table, and what noticed each defect.
fn page(noticed: &[(&Canary, String)]) -> String {
    let mut page = format!(
        "# Canaries\n\n\
         The table lists {} deliberate defects. `cargo xtask canaries` puts them into a copy of the source and runs the tests with one\n\
         defect at a time. The command writes this page when a test notices every defect:\n\n\
         * the [simulation](simulation.md) within {SEEDS} runs, or\n\
         * the named test.\n\n\
         Canaries show that the other tests can fail. The defects are in [`table.rs`](../xtask/src/canaries/table.rs), and in no\n\
         build of the source. For example, `cargo xtask canaries sync-skipped` runs one defect.\n\n\
         | canary | defect | where | noticed by |\n|---|---|---|---|\n",
        noticed.len()
    );
    for (canary, by) in noticed {
        page += &format!("{} {} |\n", row(canary), by.replace('|', "\\|"));
    }
    page
}

/// The columns of a row that are known before the run.
fn row(Canary { name, defect, file, .. }: &Canary) -> String {
    format!("| `{name}` | {defect} | [{file}](../crates/{file}) |")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

    #[test]
    fn all_canaries_find_their_places_in_one_copy_of_the_source() {
        let mut files: BTreeMap<&str, String> = BTreeMap::new();
        for (number, canary) in (1..).zip(CANARIES) {
            let path = Path::new(ROOT).join("crates").join(canary.file);
            let is_copied = CRATES.iter().any(|name| Path::new(canary.file).starts_with(name));
            assert!(is_copied, "{} is in a crate that is not copied", canary.name);
            let text = files.entry(canary.file).or_insert_with(|| fs::read_to_string(path).unwrap());
            *text = defective(text, canary, number).unwrap();
            assert!(text.contains(&format!("canary::is_out({number})")), "{}", canary.name);
        }
    }

    #[test]
    fn no_canary_is_in_the_source() {
        for name in CRATES {
            assert!(!Path::new(ROOT).join("crates").join(name).join("src/canary.rs").exists());
        }
    }

    #[test]
    fn the_page_is_of_this_table_once_it_was_written() {
        if let Ok(written) = fs::read_to_string(Path::new(ROOT).join(PAGE)) {
            let rows = written.lines().filter(|line| line.starts_with("| `"));
            assert_eq!(rows.count(), CANARIES.len(), "run cargo xtask canaries");
            for canary in CANARIES {
                assert!(written.contains(&row(canary)), "{}: run cargo xtask canaries", canary.name);
            }
        }
    }

    #[test]
    fn no_two_canaries_have_a_name() {
        let mut names: Vec<_> = CANARIES.iter().map(|canary| canary.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CANARIES.len());
    }
}
