//! The settings of a server: from a file, the environment and flags, checked, printed and reloaded.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Ran, Server, quire, ran};

const PAGE: &str = include_str!("../../../../docs/settings.md");

/// A command with this file of settings, and without variables of the tests' environment.
fn with_file(subcommand: &[&str], file: &Path, text: &str) -> Command {
    fs::write(file, text).expect("a file");
    let mut command = quire();
    command.env_remove("QUIRE_LOG").args(subcommand).arg("--config").arg(file);
    command
}

fn output(command: &mut Command) -> Ran {
    ran(command.output().expect("the command can be started"))
}

/// The lines of `quire config print` that begin with a key, with single spaces.
fn line_of(printed: &str, key: &str) -> String {
    let line = printed.lines().find(|line| line.starts_with(&format!("{key} = ")));
    line.unwrap_or_else(|| panic!("no {key} in\n{printed}")).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_flag_wins_over_the_environment_and_the_environment_over_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("quire.toml");
    let text = "data = '/of/file'\nkafka_connections_max = 1\nkafka_frame_bytes_max = 1_048_576\nlog = 'warn'\n";
    let print = |variables: &[(&str, &str)], flags: &[&str]| {
        let mut command = with_file(&["config", "print"], &file, text);
        output(command.envs(variables.iter().copied()).args(flags)).succeeded()
    };
    let of_file = |line: usize| format!("# {}, line {line}", file.display());
    let printed = print(&[], &[]);
    assert_eq!(line_of(&printed, "data"), format!("data = \"/of/file\" {}", of_file(1)));
    assert_eq!(line_of(&printed, "kafka_connections_max"), format!("kafka_connections_max = 1 {}", of_file(2)));
    assert_eq!(line_of(&printed, "kafka_frame_bytes_max"), format!("kafka_frame_bytes_max = 1048576 {}", of_file(3)));
    assert_eq!(line_of(&printed, "durability"), "durability = \"sync\" # default");
    assert!(printed.lines().any(|line| line == "# log_bytes_max is not set"), "{printed}");

    let variables = [("QUIRE_SERVE_KAFKA_CONNECTIONS_MAX", "2"), ("QUIRE_LOG", "error")];
    let printed = print(&variables, &[]);
    let of_environment = "kafka_connections_max = 2 # environment QUIRE_SERVE_KAFKA_CONNECTIONS_MAX";
    assert_eq!(line_of(&printed, "kafka_connections_max"), of_environment);
    assert_eq!(line_of(&printed, "log"), "log = \"error\" # environment QUIRE_LOG");
    let printed = print(&variables, &["--kafka-connections-max", "3", "--data", "/of/flag"]);
    assert_eq!(line_of(&printed, "kafka_connections_max"), "kafka_connections_max = 3 # flag");
    assert_eq!(line_of(&printed, "data"), "data = \"/of/flag\" # flag");
}

#[test]
fn the_printed_settings_are_a_file_with_the_same_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("quire.toml");
    let text = "data = \"/with 'quotes' and \\\\ and \\n\"\npack_segments = true\nprofile = 'small-disk'\n";
    let printed = output(&mut with_file(&["config", "print"], &file, text)).succeeded();
    let again = output(&mut with_file(&["config", "print"], &file, &printed)).succeeded();
    let without_sources = |printed: &str| -> Vec<String> {
        printed
            .lines()
            .map(|line| line.rsplit_once("  # ").map_or(line, |(line, _)| line.trim_end()).to_owned())
            .collect()
    };
    assert_eq!(without_sources(&printed), without_sources(&again));
    let checked = output(&mut with_file(&["config", "check"], &file, &printed)).succeeded();
    assert!(checked.contains("settings are valid"), "{checked}");
}

#[test]
fn an_unknown_key_is_an_error_with_its_line_and_a_suggestion() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("quire.toml");
    for subcommand in [&["config", "check"][..], &["config", "print"], &["serve"]] {
        let text = "data = '/nowhere/at/all'\n\nkafka_conections_max = 5\nkafka_frame_bytes_max = 'many'\n";
        let ran = output(&mut with_file(subcommand, &file, text));
        ran.failed_with("line 3: unknown setting `kafka_conections_max`; did you mean `kafka_connections_max`?; line 4: invalid `kafka_frame_bytes_max`");
    }
    let missing = folder.path().join("missing.toml");
    output(quire().args(["config", "check", "--data", "d", "--config"]).arg(&missing))
        .failed_with("can't read the settings");
}

#[test]
fn a_check_reports_every_setting_that_is_out_of_range() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("quire.toml");
    let text = "data = 'd'\nsegment_bytes = 17\nkafka_session_timeout_ms_min = 9\nkafka_session_timeout_ms_max = 8\n";
    let ran = output(&mut with_file(&["config", "check"], &file, text));
    assert!(
        ran.stderr.contains("segment_bytes must be between") && ran.stderr.contains("session_timeout_ms_min must be"),
        "{ran:?}"
    );
    assert_eq!(ran.status, Some(1));
}

#[test]
fn a_server_takes_its_settings_from_a_file_and_the_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, log) = (folder.path().join("quire.toml"), folder.path().join("log"));
    let text = format!("data = '{}'\ndurability = 'os'\n", folder.path().join("data").display());
    let mut command = with_file(&["serve"], &file, &text);
    let server = Server::logging(command.env("QUIRE_SERVE_KAFKA_FRAME_BYTES_MAX", "1048576"), &log);
    assert!(server.report.contains("durability  os"), "{}", server.report);
    assert_eq!(server.stop_by("TERM").0, Some(0));
    let log = fs::read_to_string(log).expect("a log");
    for setting in
        ["durability = \\\"os\\\" (", "kafka_frame_bytes_max = 1048576 (environment QUIRE_SERVE_KAFKA_FRAME_BYTES_MAX)"]
    {
        assert!(log.contains(setting), "{setting} in {log}");
    }
}

#[test]
fn a_hangup_reloads_what_can_change_and_names_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, log) = (folder.path().join("quire.toml"), folder.path().join("log"));
    let settings = |more: &str| format!("data = '{}'\n{more}", folder.path().join("data").display());
    let server = Server::logging(&mut with_file(&["serve"], &file, &settings("")), &log);
    let wait_for = |text: &str| {
        while !fs::read_to_string(&log).expect("a log").contains(text) {
            std::thread::yield_now();
        }
    };
    server.ask("GET", "/v1/stats", "");
    let changed = "log = 'info,http=debug'\nkafka_connections_max = 1\nhttp_host = ['quire.example']\n\
        kafka_frame_bytes_max = 52428800\n";
    let asked = |host: &str| {
        let mut stream = TcpStream::connect(&server.http).expect("it listens");
        write!(stream, "GET /livez HTTP/1.0\r\nHost: {host}\r\n\r\n").expect("sent");
        std::io::read_to_string(stream).expect("answered")
    };
    assert!(asked("quire.example").starts_with("HTTP/1.0 421"), "{}", asked("quire.example"));
    fs::write(&file, settings(changed)).expect("a file");
    server.signal("HUP");
    let applied = "kafka_connections_max = 1, http_host = \\\"quire.example\\\", log = \\\"info,http=debug\\\"";
    wait_for(&format!("reloaded the settings changed=\"{applied}\""));
    wait_for("changed settings need a restart changed=\"kafka_frame_bytes_max = 52428800\"");
    assert!(asked("quire.example").starts_with("HTTP/1.0 200"), "{}", asked("quire.example"));
    let mut idle = TcpStream::connect(&server.kafka).expect("it listens");
    let _second = TcpStream::connect(&server.kafka).expect("it listens");
    // The idle connection gives its place to the second one: it is closed, or reset.
    let _ = std::io::copy(&mut idle, &mut std::io::sink());
    let cut_off = "cut off connections front_end=kafka reason=\"idle at the limit on connections\"";
    wait_for(&format!("WARN connection: {cut_off} count="));
    server.ask("GET", "/v1/queues", "");
    wait_for(" method=GET route=/v1/queues status=200 us=");
    fs::write(&file, settings("log = 'loud'\n")).expect("a file");
    server.signal("HUP");
    wait_for("ERROR server: can't reload the settings; nothing has changed error=");
    server.ask("GET", "/v1/groups", "");
    wait_for("method=GET route=/v1/groups");
    assert_eq!(server.stop_by("TERM").0, Some(0));
    assert!(!fs::read_to_string(log).expect("a log").contains("route=/v1/stats"), "debug came with the reload");
}

#[test]
fn a_hangup_during_the_start_is_outlived() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut command = quire();
    command.args(["serve", "--durability", "os"]).arg("--data").arg(&data);
    command.args(["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--kafka", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the command can be started");
    let process = child.id().to_string();
    let signal = |signal: &str| {
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", signal, &process]).status();
        assert!(sent.expect("a shell").success());
    };
    while !data.exists() {
        std::thread::yield_now();
    }
    signal("HUP");
    let mut printed = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let serves = printed.any(|line| line.expect("text") == "serving until Ctrl-C");
    assert!(serves, "it ended: {:?}", child.wait());
    signal("TERM");
    assert!(printed.all(|line| line.is_ok()));
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

#[test]
fn the_page_has_every_setting_with_its_names() {
    let printed = output(quire().env_remove("QUIRE_LOG").args(["config", "print", "--data", "d"])).succeeded();
    let key = |line: &str| line.trim_start_matches("# ").split(' ').next().map(str::to_owned).expect("a key");
    let row = |key: String| {
        let variable =
            if key == "log" { "QUIRE_LOG".to_owned() } else { format!("QUIRE_SERVE_{}", key.to_uppercase()) };
        format!("| `--{}` | `{variable}` | `{key}` |", key.replace('_', "-"))
    };
    let mut expected: Vec<String> = printed.lines().map(|line| row(key(line))).collect();
    let mut rows: Vec<String> = PAGE
        .lines()
        .filter(|line| line.starts_with("| `--") && !line.starts_with("| `--config`"))
        .filter(|line| cfg!(feature = "otlp") || !line.starts_with("| `--otlp-"))
        .map(|line| line.split('|').take(4).collect::<Vec<_>>().join("|") + "|")
        .collect();
    expected.sort();
    rows.sort();
    assert_eq!(rows, expected, "the page has on the left what the command has on the right");
}
