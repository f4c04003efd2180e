//! Downloads jars with Maven into the target directory, once for a `pom.xml`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::test::succeed;
use crate::workspace::Workspace;

/// The directory with the jars of `pom`.
///
/// # Errors
/// When Java or Maven is missing, or the jars can't be downloaded.
pub(crate) fn jars(workspace: &Workspace, pom: &str, folder: &str) -> Result<PathBuf, String> {
    for program in ["java", "mvn"] {
        let probe = Command::new(program).arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        probe.map_err(|error| format!("can't run {program}: {error}"))?;
    }
    let folder = workspace.target.join(folder);
    let wanted =
        fs::read_to_string(workspace.root.join(pom)).map_err(|error| format!("could not read {pom}: {error}"))?;
    // Written last, so that an incomplete directory is not reused.
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
