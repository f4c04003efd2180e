//! Kafka's own Java client and console tools, on a server that runs already: what it does stands in `tests/kafka/java`.
//!
//! Maven puts its jars into the target folder, once for a `pom.xml`. Without Java, Maven or the jars the client is skipped, and
//! says so.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::succeed;
use crate::workspace::Workspace;

const POM: &str = "tests/kafka/java/pom.xml";
const PROGRAMS: [&str; 2] = ["tests/kafka/java/Clients.java", "tests/kafka/java/Tools.java"];

/// Tries the client and the tools on the server at this address.
///
/// # Errors
/// When one finds something wrong.
pub(super) fn run(workspace: &Workspace, bootstrap: &str) -> Result<(), String> {
    let jars = match jars(workspace) {
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

/// The folder of the jars.
fn jars(workspace: &Workspace) -> Result<PathBuf, String> {
    for program in ["java", "mvn"] {
        let probe = Command::new(program).arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        probe.map_err(|error| format!("there is no {program}: {error}"))?;
    }
    let folder = workspace.target.join("kafka-java");
    let wanted =
        fs::read_to_string(workspace.root.join(POM)).map_err(|error| format!("could not read {POM}: {error}"))?;
    // Written last, so that a folder that was not finished is not reused.
    let installed = folder.join("installed.xml");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(folder);
    }
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f", POM, "dependency:copy-dependencies"]);
    let mut output = std::ffi::OsString::from("-DoutputDirectory=");
    output.push(&folder);
    succeed(maven.arg(output).current_dir(&workspace.root))?;
    fs::write(&installed, wanted).map_err(|error| format!("could not write {}: {error}", installed.display()))?;
    Ok(folder)
}
