//! Kafka's own Java client, Kafka Streams and the console tools, on a running server;
//! `tests/kafka/java` has their checks.
//!
//! Without Java, Maven or the jars the client is skipped, and a line reports it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::succeed;
use crate::maven;
use crate::workspace::Workspace;

const POM: &str = "tests/kafka/java/pom.xml";
const PROGRAMS: [&str; 3] =
    ["tests/kafka/java/Clients.java", "tests/kafka/java/Streams.java", "tests/kafka/java/Tools.java"];
const READER: &str = "tests/kafka/java/Read.java";
const SASL: &str = "tests/kafka/java/Sasl.java";
const ACLS: &str = "tests/kafka/java/Acls.java";

/// The directory of the client's jars; `None` when it is skipped.
pub(super) fn jars(workspace: &Workspace) -> Option<PathBuf> {
    let jars = maven::jars(workspace, POM, "kafka-java");
    jars.inspect_err(|why| println!("SKIPPED the Java client and the console tools: {why}")).ok()
}

/// Runs the client and the tools on the server at this address.
///
/// # Errors
/// When a check fails.
pub(super) fn run(workspace: &Workspace, jars: &Path, bootstrap: &str) -> Result<(), String> {
    PROGRAMS.into_iter().try_for_each(|program| {
        let mut java = Command::new("java");
        java.arg("-cp").arg(jars.join("*")).arg(program).arg(bootstrap);
        succeed(java.current_dir(&workspace.root))
    })
}

/// The command line, for a shell, that authenticates with the client.
pub(super) fn sasl(jars: &Path) -> String {
    format!("java -cp '{}' {SASL}", jars.join("*").display())
}

/// The command line, for a shell, that changes ACLs, passwords and quotas with Kafka's tools.
pub(super) fn acls(jars: &Path) -> String {
    format!("java -cp '{}' {ACLS}", jars.join("*").display())
}

/// The command line, for a shell, that reads a partition with the client.
pub(super) fn reader(jars: &Path) -> String {
    format!("java -cp '{}' {READER}", jars.join("*").display())
}
