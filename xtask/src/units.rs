//! The workspace's test binaries, built as the step `test` builds them, so that later steps compile
//! nothing.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::test::{FEATURES, PROFILE, in_root};
use crate::workspace::Workspace;

/// Cargo's messages about built targets.
pub(crate) struct Units {
    messages: String,
}

impl Units {
    /// Builds programs, tests and examples of every crate at once: another selection would build
    /// dependencies with other features.
    ///
    /// # Errors
    /// When a target does not build, or cargo can't be started.
    pub(crate) fn build(workspace: &Workspace) -> Result<Self, String> {
        let units = ["build", "--workspace", "--bins", "--tests", "--examples", "--profile", PROFILE];
        let output = in_root(workspace, &units)
            .args(FEATURES)
            .args(["--message-format", "json-render-diagnostics"])
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("could not start cargo: {error}"))?;
        if !output.status.success() {
            return Err("the workspace does not build".to_owned());
        }
        Ok(Units { messages: String::from_utf8_lossy(&output.stdout).into_owned() })
    }

    /// The path of a program of this `kind`, `bin` or `example`.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn program(&self, kind: &str, name: &str) -> Result<PathBuf, String> {
        executable(&self.messages, kind, name).ok_or(format!("cargo built no {kind} `{name}`"))
    }
}

/// Finds the path of a binary or an example in cargo's messages.
fn executable(messages: &str, kind: &str, name: &str) -> Option<PathBuf> {
    let is_it = |message: &Value| {
        let is_program = message["target"]["kind"][0] == kind && message["profile"]["test"] == false;
        message["reason"] == "compiler-artifact" && message["target"]["name"] == name && is_program
    };
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.find(is_it)?["executable"].as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_found_among_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"quire","kind":["lib"]},"profile":{"test":false}}
{"reason":"compiler-artifact","target":{"name":"quire","kind":["bin"]},"profile":{"test":true},"executable":"/t/deps/quire-1"}
not json
{"reason":"compiler-artifact","target":{"name":"quire","kind":["bin"]},"profile":{"test":false},"executable":"/t/quire"}
"#;
        assert_eq!(executable(messages, "bin", "quire"), Some(PathBuf::from("/t/quire")));
        assert_eq!(executable(messages, "example", "quire"), None);
        assert_eq!(executable("{\"reason\":\"build-finished\"}", "bin", "quire"), None);
    }
}
