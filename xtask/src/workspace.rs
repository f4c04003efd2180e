//! The checkout: its root, its cargo metadata, and its text files.
//!
//! Files are found by walking the directories, so that a chore also sees uncommitted files, and
//! runs in an export without `.git`. Hidden directories, except `.ci`, and build output are not
//! part of the source.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The checkout.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The directory of the root manifest.
    pub(crate) root: PathBuf,
    /// Cargo's target directory.
    pub(crate) target: PathBuf,
    /// The output of `cargo metadata --no-deps`.
    pub(crate) metadata: Value,
}

/// A text file of the checkout.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Its path from the root, with `/` between the names.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

impl Workspace {
    /// Finds the workspace that this program was built from.
    pub(crate) fn find() -> Result<Self, String> {
        let output = Command::new(cargo())
            .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
            .output()
            .map_err(|error| format!("could not start cargo: {error}"))?;
        if !output.status.success() {
            return Err(format!("`cargo metadata` failed:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("invalid JSON from `cargo metadata`: {error}"))?;
        let folder = |key: &str| {
            metadata[key].as_str().map(PathBuf::from).ok_or_else(|| format!("`cargo metadata` has no `{key}`"))
        };
        Ok(Workspace { root: folder("workspace_root")?, target: folder("target_directory")?, metadata })
    }

    /// Returns every file of the source, ordered by path. The text of a picture is empty.
    pub(crate) fn files(&self) -> Result<Vec<SourceFile>, String> {
        let mut files = Vec::new();
        self.walk(&self.root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    fn walk(&self, folder: &Path, files: &mut Vec<SourceFile>) -> Result<(), String> {
        let unreadable = |error| format!("could not read {}: {error}", folder.display());
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if entry.file_type().map_err(unreadable)?.is_dir() {
                let is_made = ["target", "__pycache__", "node_modules"].contains(&&*name);
                let is_source = name == ".ci" || !(name.starts_with('.') || is_made);
                if is_source && path != self.target {
                    self.walk(&path, files)?;
                }
            } else if let Some(text) = text_of(&path) {
                let path = path.strip_prefix(&self.root).expect("the walk began at the root");
                let names: Vec<_> = path.iter().map(|name| name.to_string_lossy()).collect();
                files.push(SourceFile { path: names.join("/"), text });
            }
        }
        Ok(())
    }
}

/// The text of a file; `None` for bytes that are no picture.
fn text_of(path: &Path) -> Option<String> {
    let is_picture = path.extension().is_some_and(|extension| extension == "png");
    if is_picture { Some(String::new()) } else { fs::read_to_string(path).ok() }
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}
