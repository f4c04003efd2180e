//! Records the commit and the profile that the program is built from.

use std::path::Path;
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
    let profile = profile();
    println!("cargo::rustc-env=QUIRE_PROFILE={}", profile.as_deref().unwrap_or("unknown"));
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if is_linux && profile.as_deref() == Some("release") {
        // Cargo 1.95 strips only debug information from a package that a profile has settings for.
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}

/// The directory of the profile. Cargo has no variable for its name: `OUT_DIR` is
/// `PROFILE/build/quire-cli-HASH/out`.
fn profile() -> Option<String> {
    let out = std::env::var_os("OUT_DIR")?;
    Some(Path::new(&out).ancestors().nth(3)?.file_name()?.to_str()?.to_owned())
}

/// What git says; nothing outside of a clone.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
