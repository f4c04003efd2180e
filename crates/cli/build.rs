//! Tells the program which commit it was built from, for the reports of `quire bench`.

use std::process::Command;

fn main() {
    // Whatever is compiled into the program, a commit that changes nothing else, and this file.
    for path in ["..", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
    println!("cargo::rustc-env=QUIRE_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// What git says; nothing outside of a clone.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
