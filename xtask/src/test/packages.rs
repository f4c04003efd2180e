//! The step `packages`: a release can be packaged, and its program runs where it is unpacked.

use std::path::Path;
use std::process::Command;

use super::succeed;
use crate::package::{self, Options};
use crate::units::Units;
use crate::workspace::Workspace;

/// Runs the step.
///
/// # Errors
/// When a package lacks a file, its checksum is wrong, or its program does not run.
pub(super) fn run(workspace: &Workspace) -> Result<(), String> {
    let program = Units::build(workspace)?.program("bin", "quire")?;
    let out = workspace.target.join("test-package");
    let made = package::run(workspace, Options::of(program, out.clone()))?;
    succeed(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&out))?;
    let unpacked = out.join("unpacked");
    std::fs::create_dir(&unpacked).map_err(|error| format!("could not make {}: {error}", unpacked.display()))?;
    for file in &made {
        let of = |extension: &str| file.to_string_lossy().ends_with(extension);
        if of(".tar.gz") {
            succeed(
                Command::new("tar").arg("--directory").arg(&unpacked).arg("--strip-components=1").arg("-xzf").arg(file),
            )?;
            check(&unpacked)?;
        } else if of(".deb") {
            let within = out.join("deb");
            match Command::new("dpkg-deb").arg("--version").output() {
                Ok(_) => succeed(Command::new("dpkg-deb").arg("--extract").arg(file).arg(&within))?,
                Err(error) => {
                    println!("SKIPPED the content of the .deb: can't run dpkg-deb: {error}");
                    continue;
                }
            }
            check(&within.join("usr"))?;
        }
    }
    Ok(())
}

/// Checks what a package has below `/usr`.
fn check(folder: &Path) -> Result<(), String> {
    let files = [
        "share/man/man1/quire.1",
        "share/bash-completion/completions/quire",
        "share/zsh/site-functions/_quire",
        "share/fish/vendor_completions.d/quire.fish",
        "lib/systemd/system/quire.service",
    ];
    if let Some(missing) = files.iter().find(|file| !folder.join(file).is_file()) {
        return Err(format!("{} has no {missing}", folder.display()));
    }
    succeed(Command::new(folder.join("bin/quire")).arg("--version"))
}
