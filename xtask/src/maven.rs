//! Jars by Maven: put together in the target folder, once for a `pom.xml`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::test::succeed;
use crate::workspace::Workspace;

/// The folder in the target folder with the jars that `pom` names.
///
/// # Errors
/// When there is no Java or Maven, or the jars can't be had.
pub(crate) fn jars(workspace: &Workspace, pom: &str, folder: &str) -> Result<PathBuf, String> {
    for program in ["java", "mvn"] {
        let probe = Command::new(program).arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        probe.map_err(|error| format!("there is no {program}: {error}"))?;
    }
    let folder = workspace.target.join(folder);
    let wanted =
        fs::read_to_string(workspace.root.join(pom)).map_err(|error| format!("could not read {pom}: {error}"))?;
    // Written last, so that a folder that was not finished is not reused.
    let installed = folder.join("installed.xml");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(folder);
    }
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f", pom, "dependency:copy-dependencies"]);
    let mut output = std::ffi::OsString::from("-DoutputDirectory=");
    output.push(&folder);
    succeed(maven.arg(output).current_dir(&workspace.root))?;
    fs::write(&installed, wanted).map_err(|error| format!("could not write {}: {error}", installed.display()))?;
    Ok(folder)
}
