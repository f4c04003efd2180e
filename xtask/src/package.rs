//! `cargo xtask package`: what a release consists of.
//!
//! ```text
//! program ─▶ tree (program, man pages, completions, unit, licences) ─▶ .tar.gz, .deb, .rpm ─▶ SHA256SUMS
//! ```
//! The archive of a program is the same, byte for byte, whoever makes it. The packages need nfpm,
//! and the list of components (SBOM) needs cargo-cyclonedx. Without them, a line says so.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::test::{in_root, succeed};
use crate::workspace::{Workspace, cargo};

/// The files of the packages.
const SOURCES: &str = "deploy/packages";

/// The time of all files of the archive: 1980-01-01, which every format can hold.
const FILE_TIME: &str = "@315532800";

/// Files of the project that a package has as documentation.
const DOCUMENTS: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"];

/// What to package, and where to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The program; `None` to build it with the profile `dist`.
    program: Option<PathBuf>,
    /// The directory of the results; `None` for `package` in the target directory.
    out: Option<PathBuf>,
}

impl Options {
    /// Reads the flags.
    ///
    /// # Errors
    /// When a flag is unknown or lacks its value.
    pub(crate) fn parse(flags: &[String]) -> Result<Self, String> {
        let (mut options, mut flags) = (Options::default(), flags.iter());
        while let Some(flag) = flags.next() {
            let mut value = || flags.next().map(PathBuf::from).ok_or(format!("`{flag}` needs a path"));
            match flag.as_str() {
                "--program" => options.program = Some(value()?),
                "--out" => options.out = Some(value()?),
                _ => return Err(format!("`package` takes --program FILE and --out DIR, not {flag}")),
            }
        }
        Ok(options)
    }

    /// The package of this program.
    pub(crate) fn of(program: PathBuf, out: PathBuf) -> Self {
        Options { program: Some(program), out: Some(out) }
    }
}

/// Makes the packages; returns their files.
///
/// # Errors
/// When a command fails, or a file can't be written.
pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<Vec<PathBuf>, String> {
    let out = options.out.unwrap_or_else(|| workspace.target.join("package"));
    let program = options.program.map_or_else(|| build(workspace), Ok)?;
    let version = version(workspace)?;
    let name = format!("quire-{version}-{ARCH}-linux");
    let tree = out.join(&name);
    recreate(&out)?;
    fill(workspace, &program, &tree)?;
    let mut made = vec![archive(&out, &name)?];
    made.extend(packages(workspace, &out, &tree, &version)?);
    made.extend(components(workspace, &out)?);
    let notes = out.join("RELEASE_NOTES.md");
    let changelog = read(&workspace.root.join("CHANGELOG.md"))?;
    write(&notes, &section(&changelog, &version)?)?;
    made.push(notes);
    checksums(&out, &mut made)?;
    made.iter().for_each(|file| println!("{}", file.display()));
    Ok(made)
}

/// Builds the program of a release.
fn build(workspace: &Workspace) -> Result<PathBuf, String> {
    let flags = ["build", "--locked", "--profile", "dist", "--package", "quire-cli", "--bin", "quire"];
    succeed(in_root(workspace, &flags).args(["--features", "quire-cli/parquet"]))?;
    Ok(workspace.target.join("dist/quire"))
}

/// The version of the workspace.
fn version(workspace: &Workspace) -> Result<String, String> {
    let mut packages = workspace.metadata["packages"].as_array().into_iter().flatten();
    let program = packages.find(|package| package["name"] == "quire-cli");
    let version = program.and_then(|package| package["version"].as_str());
    version.map(str::to_owned).ok_or("`cargo metadata` has no version of quire-cli".to_owned())
}

/// Writes the files of a package, as they are below `/usr`.
fn fill(workspace: &Workspace, program: &Path, tree: &Path) -> Result<(), String> {
    let own = tree.join("bin/quire");
    copy(program, &own)?;
    succeed(Command::new("strip").arg("--strip-unneeded").arg(&own))?;
    succeed(Command::new(&own).args(["man", "--out"]).arg(tree.join("share/man/man1")))?;
    let completions = [
        ("bash", "share/bash-completion/completions/quire"),
        ("zsh", "share/zsh/site-functions/_quire"),
        ("fish", "share/fish/vendor_completions.d/quire.fish"),
    ];
    for (shell, path) in completions {
        let output = Command::new(&own).args(["completions", shell]).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("could not start {}: {error}", own.display()))?;
        if !output.status.success() {
            return Err(format!("`quire completions {shell}` failed: {}", output.status));
        }
        write(&tree.join(path), &String::from_utf8_lossy(&output.stdout))?;
    }
    copy(&workspace.root.join("deploy/systemd/quire.service"), &tree.join("lib/systemd/system/quire.service"))?;
    copy(&workspace.root.join(SOURCES).join("quire.toml"), &tree.join("etc/quire/quire.toml"))?;
    DOCUMENTS.iter().try_for_each(|name| copy(&workspace.root.join(name), &tree.join("doc").join(name)))
}

/// Makes the archive of the tree.
fn archive(out: &Path, name: &str) -> Result<PathBuf, String> {
    let archive = out.join(format!("{name}.tar"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+rwX,go+rX,go-w", "--format=ustar"]);
    tar.arg(format!("--mtime={FILE_TIME}")).arg("--directory").arg(out).arg("--create").arg("--file").arg(&archive);
    succeed(tar.arg(name))?;
    // Without the name and the time of the archive.
    succeed(Command::new("gzip").args(["--no-name", "--best", "--force"]).arg(&archive))?;
    Ok(archive.with_extension("tar.gz"))
}

/// Makes the packages of Linux distributions.
fn packages(workspace: &Workspace, out: &Path, tree: &Path, version: &str) -> Result<Vec<PathBuf>, String> {
    if !is_there("nfpm", "--version") {
        println!(
            "SKIPPED the packages .deb and .rpm: no nfpm (go install github.com/goreleaser/nfpm/v2/cmd/nfpm@latest)"
        );
        return Ok(Vec::new());
    }
    // nfpm has the names of Go.
    let arch = if ARCH == "aarch64" { "arm64" } else { "amd64" };
    let sources = workspace.root.join(SOURCES);
    let mut made = Vec::new();
    for (packager, file) in
        [("deb", format!("quire_{version}_{arch}.deb")), ("rpm", format!("quire-{version}.{ARCH}.rpm"))]
    {
        let file = out.join(file);
        let mut nfpm = Command::new("nfpm");
        nfpm.args(["package", "--packager", packager, "--config", "nfpm.yaml", "--target"]).arg(&file);
        nfpm.env("QUIRE_VERSION", version).env("QUIRE_ARCH", arch).env("QUIRE_STAGE", tree);
        succeed(nfpm.current_dir(&sources))?;
        made.push(file);
    }
    Ok(made)
}

/// Writes the list of components in the format of CycloneDX.
fn components(workspace: &Workspace, out: &Path) -> Result<Option<PathBuf>, String> {
    if !is_there("cargo-cyclonedx", "--version") {
        println!("SKIPPED the list of components: no cargo-cyclonedx (cargo install cargo-cyclonedx)");
        return Ok(None);
    }
    let manifest = workspace.root.join("crates/cli/Cargo.toml");
    let name = "quire.cdx";
    let mut list = Command::new(cargo());
    list.args(["cyclonedx", "--format", "json", "--override-filename", name, "--manifest-path"]).arg(manifest);
    succeed(&mut list)?;
    let (made, kept) =
        (workspace.root.join("crates/cli").join(format!("{name}.json")), out.join(format!("{name}.json")));
    copy(&made, &kept)?;
    fs::remove_file(&made).map_err(|error| format!("could not remove {}: {error}", made.display()))?;
    Ok(Some(kept))
}

/// Writes the checksums of the files, and adds their file to them.
fn checksums(out: &Path, made: &mut Vec<PathBuf>) -> Result<(), String> {
    let names = made.iter().filter_map(|file| file.file_name());
    let output = Command::new("sha256sum").args(names).current_dir(out).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("could not start sha256sum: {error}"))?;
    if !output.status.success() {
        return Err(format!("`sha256sum` failed: {}", output.status));
    }
    let sums = out.join("SHA256SUMS");
    write(&sums, &String::from_utf8_lossy(&output.stdout))?;
    made.push(sums);
    Ok(())
}

/// The section of a version in a changelog; that of unreleased changes when the version has none.
fn section(changelog: &str, version: &str) -> Result<String, String> {
    let body = |title: &str| {
        let (_, rest) = changelog.split_once(&format!("\n## {title}"))?;
        let (_, body) = rest.split_once('\n')?;
        let end = body.find("\n## ").unwrap_or(body.len());
        Some(body[..end].trim().to_owned() + "\n")
    };
    let found = body(&format!("[{version}]")).or_else(|| body(version)).or_else(|| body("Unreleased"));
    found.ok_or(format!("CHANGELOG.md has neither a section {version} nor a section Unreleased"))
}

fn is_there(program: &str, probe: &str) -> bool {
    Command::new(program).arg(probe).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Empties a directory that an earlier run made.
fn recreate(folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("could not empty {}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("could not read {}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("could not write {}: {error}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(from, to));
    copied.map(drop).map_err(|error| format!("could not copy {} to {}: {error}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notes_are_the_section_of_the_version() {
        let changelog =
            "# Changelog\n\n## Unreleased\n\nsoon\n\n## [0.2.0] - 2027-01-01\n\n* two\n\n## 0.1.0\n\n* one\n";
        assert_eq!(section(changelog, "0.2.0"), Ok("* two\n".to_owned()));
        assert_eq!(section(changelog, "0.1.0"), Ok("* one\n".to_owned()));
        assert_eq!(section(changelog, "0.3.0"), Ok("soon\n".to_owned()));
        assert!(section("# Changelog\n", "0.1.0").is_err());
    }

    #[test]
    fn flags_name_the_program_and_the_directory() {
        let flags = |flags: &[&str]| Options::parse(&flags.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(flags(&[]), Ok(Options::default()));
        let expected = Options::of("a".into(), "b".into());
        assert_eq!(flags(&["--program", "a", "--out", "b"]), Ok(expected));
        assert!(flags(&["--out"]).unwrap_err().contains("needs a path"));
        assert!(flags(&["--fast"]).unwrap_err().contains("--fast"));
    }
}
