//! Kafka's own Java client and console tools, on a server that runs already: what it does stands in `tests/kafka/java`.
//!
//! Without Java, Maven or the jars the client is skipped, and says so.

use std::process::Command;

use super::succeed;
use crate::maven;
use crate::workspace::Workspace;

const POM: &str = "tests/kafka/java/pom.xml";
const PROGRAMS: [&str; 2] = ["tests/kafka/java/Clients.java", "tests/kafka/java/Tools.java"];

/// Tries the client and the tools on the server at this address.
///
/// # Errors
/// When one finds something wrong.
pub(super) fn run(workspace: &Workspace, bootstrap: &str) -> Result<(), String> {
    let jars = match maven::jars(workspace, POM, "kafka-java") {
        Ok(jars) => jars,
        Err(why) => {
            println!("SKIPPED the Java client and the console tools: {why}");
            return Ok(());
        }
    };
    PROGRAMS.into_iter().try_for_each(|program| {
        let mut java = Command::new("java");
        java.arg("-cp").arg(jars.join("*")).arg(program).arg(bootstrap);
        succeed(java.current_dir(&workspace.root))
    })
}
