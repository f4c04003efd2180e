//! The Helm chart: the settings that its pods write are valid, and make one cluster.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::quire;

const TEMPLATE: &str = include_str!("../../../../deploy/helm/templates/settings.yaml");

/// The expressions of the template, with their values for the release `quire` in `data`.
const VALUES: [(&str, &str); 6] = [
    ("{{ $domain }}", "quire-nodes.data.svc.cluster.local"),
    ("{{ .Release.Name }}", "quire"),
    ("{{ .Release.Namespace }}", "data"),
    ("{{ sub (int .Values.nodes) 1 }}", "2"),
    ("{{ .Values.bootstrap }}", "true"),
    ("{{ .Values.insecureListen }}", "false"),
];

/// A file of the template, with the default values of the chart. By default, no pod has a number of
/// its own, and there are no further settings.
fn rendered(name: &str) -> String {
    let (_, after) = TEMPLATE.split_once(&format!("  {name}: |\n")).expect("the template has the file");
    let lines = after.lines().map_while(|line| line.strip_prefix("    "));
    let lines = lines.filter(|line| !line.trim_start().starts_with("{{-") && !line.contains("{{ $number }}"));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let text = VALUES.iter().fold(text, |text, (expression, value)| text.replace(expression, value));
    assert!(!text.contains("{{"), "an expression has no value here: {text}");
    text
}

/// Writes the settings of a pod, as its init container does. `reaches_others` says whether other
/// pods accept connections.
fn write(folder: &Path, ordinal: u32, reaches_others: bool) -> Output {
    let nc = if reaches_others { "#!/bin/sh\nexit 0\n" } else { "#!/bin/sh\nexit 1\n" };
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).expect("a directory");
    fs::write(programs.join("nc"), nc).expect("written");
    let executable = Command::new("chmod").arg("+x").arg(programs.join("nc")).status();
    assert!(executable.expect("there is chmod").success());
    for name in ["quire.toml", "node.sh"] {
        fs::write(folder.join(name), rendered(name)).expect("written");
    }
    fs::create_dir_all(folder.join("node")).expect("a directory");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.arg(folder.join("node.sh")).env("PATH", path).env("HOSTNAME", format!("quire-{ordinal}"));
    command.env("SETTINGS", folder).env("DATA", folder.join("db")).env("NODE", folder.join("node"));
    command.output().expect("there is a shell")
}

/// The settings that a pod wrote, after the program has checked them.
#[track_caller]
fn settings(folder: &Path, ordinal: u32, reaches_others: bool) -> String {
    let written = write(folder, ordinal, reaches_others);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let file = folder.join("node/quire.toml");
    let checked = quire().args(["config", "check", "--config"]).arg(&file).output().expect("it runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    fs::read_to_string(file).expect("written")
}

#[test]
fn the_first_pod_makes_the_cluster_once_and_the_others_join_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = settings(folder.path(), 0, false);
    assert!(first.contains("node = 1\n") && first.contains("cluster_init = true\n"), "{first}");
    assert!(!first.contains("cluster_join"), "{first}");

    let third = settings(folder.path(), 2, true);
    let peers = "cluster_join = [\"quire-0.quire-nodes.data.svc.cluster.local:7072\", \
                 \"quire-1.quire-nodes.data.svc.cluster.local:7072\"]\n";
    assert!(third.contains("node = 3\n") && third.contains(peers), "{third}");
    assert!(third.contains("insecure_listen = true\n") && !third.contains("cluster_init"), "{third}");

    fs::create_dir(folder.path().join("db")).expect("a directory");
    fs::write(folder.path().join("db/quire.node"), "").expect("written");
    for ordinal in [0, 2] {
        let restarted = settings(folder.path(), ordinal, true);
        assert!(!restarted.contains("cluster_init") && !restarted.contains("cluster_join"), "{restarted}");
        assert!(restarted.contains("insecure_listen = false\n"), "{restarted}");
    }
}

#[test]
fn a_first_pod_with_an_empty_disk_makes_no_second_cluster() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = write(folder.path(), 0, true);
    assert_eq!(refused.status.code(), Some(1));
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(message.contains("the directory is empty, but quire-2."), "{message}");
}

#[test]
fn helm_renders_the_chart() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm");
    let helm = |arguments: &[&str]| Command::new("helm").args(arguments).arg(&chart).output();
    let Ok(linted) = helm(&["lint", "--set", "tls.secretName=quire-tls"]) else {
        eprintln!("SKIPPED: there is no helm");
        return;
    };
    assert!(linted.status.success(), "{}", String::from_utf8_lossy(&linted.stdout));
    let named =
        helm(&["template", "--namespace", "data", "--set", "tls.secretName=quire-tls", "quire"]).expect("it runs");
    assert!(named.status.success(), "{}", String::from_utf8_lossy(&named.stderr));
    let refused = helm(&["template", "quire"]).expect("it runs");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("tls.secretName is missing"));
}
