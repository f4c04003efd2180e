//! The commands of the tutorials and guides, run in one shell in the order of the page. Their
//! output must match the page, where `…` stands for any text.

use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::support::{Server, quire};

/// The directories of pages, in `docs`.
const DIRECTORIES: [&str; 2] = ["tutorials", "guides"];

/// The hosts whose ports are replaced.
const HOSTS: [&str; 3] = ["127.0.0.1:", "localhost:", "0.0.0.0:"];

/// A command of a page, with what it prints.
struct Step {
    /// The index of its block.
    block: usize,
    command: String,
    output: Vec<String>,
}

fn runs(program: &str, flag: &str) -> bool {
    Command::new(program).arg(flag).output().is_ok_and(|ran| ran.status.success())
}

/// The steps of the blocks `console` of a page, and its files: the blocks after lines that end with
/// "as `NAME`:".
fn parse(page: &str) -> (Vec<Step>, Vec<(String, String)>) {
    let (mut steps, mut files, mut blocks) = (Vec::<Step>::new(), Vec::new(), 0);
    let mut pieces = page.split("```");
    let mut before = pieces.next().expect("text");
    while let (Some(block), Some(after)) = (pieces.next(), pieces.next()) {
        let (language, text) = block.split_once('\n').expect("a block has lines");
        if language == "console" {
            blocks += 1;
            for line in text.lines() {
                match (line.strip_prefix("$ "), steps.last_mut()) {
                    (Some(command), _) => {
                        steps.push(Step { block: blocks, command: command.to_owned(), output: Vec::new() });
                    }
                    (None, Some(step)) if step.output.is_empty() && step.command.ends_with('\\') => {
                        step.command.push('\n');
                        step.command.push_str(line);
                    }
                    (None, Some(step)) => step.output.push(line.to_owned()),
                    (None, None) => panic!("a block begins with a command, not with {line}"),
                }
            }
        } else if let Some((_, name)) = before.rsplit_once("as `").filter(|_| before.trim_end().ends_with("`:")) {
            let (name, _) = name.split_once('`').expect("a quoted name");
            files.push((name.to_owned(), text.to_owned()));
        }
        before = after;
    }
    (steps, files)
}

/// Whether a line matches one of a page, where `…` stands for any text.
fn matches(page: &str, line: &str) -> bool {
    let Some((first, rest)) = page.split_once('…') else { return page == line };
    let Some(mut left) = line.strip_prefix(first) else { return false };
    let mut pieces = rest.split('…').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return left.ends_with(piece);
        }
        let Some((_, after)) = left.split_once(piece) else { return false };
        left = after;
    }
    unreachable!("there is a last piece")
}

/// Whether a line shows progress, as `import: 10 of 20`. On a terminal, a bar does.
fn is_progress(line: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.chars().all(|char| char.is_ascii_digit() || char == ',');
    let counts = line.rsplit_once(": ").and_then(|(_, counts)| counts.split_once(" of "));
    counts.is_some_and(|(done, of)| number(done) && number(of))
}

/// A port that no server uses. The system gives higher ones to servers that ask for any.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).expect("at most 9,999");
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The page with the addresses of the server, and with free ports for the other servers.
fn with_free_ports(page: &str, server: &Server) -> String {
    let port = |address: &str| address.rsplit(':').next().expect("a port").to_owned();
    let known = [("9092", &server.kafka), ("7070", &server.http), ("7071", &server.grpc)];
    let mut ports: HashMap<&str, String> = known.into_iter().map(|(page, address)| (page, port(address))).collect();
    let mut replaced = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((at, host)) = HOSTS.iter().filter_map(|host| Some((rest.find(host)?, host))).min() {
        let (before, after) = rest.split_at(at + host.len());
        let (number, after) = after.split_at(after.find(|char: char| !char.is_ascii_digit()).unwrap_or(after.len()));
        replaced.push_str(before);
        if !number.is_empty() {
            replaced.push_str(ports.entry(number).or_insert_with(|| free_port().to_string()));
        }
        rest = after;
    }
    replaced + rest
}

/// Follows a page, beside a server on the database `shop`.
#[track_caller]
fn follow(path: &str) {
    if !runs("curl", "--version") {
        eprintln!("SKIPPED {path}: there is no curl");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::spawn(quire().args(["serve", "--data"]).arg(folder.path().join("shop")));
    let page = fs::read_to_string(docs().join(path)).expect("a page");
    let (steps, files) = parse(&with_free_ports(&page, &server));
    assert!(!steps.is_empty(), "the page has commands");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("written");
    }
    let steps = without_missing_programs(path, steps);
    run(&steps, folder.path());
    for (index, Step { command, output, .. }) in steps.iter().enumerate() {
        let printed = fs::read_to_string(folder.path().join(format!("step-{index}"))).unwrap_or_default();
        let lines: Vec<&str> = printed.lines().filter(|line| !is_progress(line)).collect();
        let fits = lines.len() == output.len() && output.iter().zip(&lines).all(|(page, line)| matches(page, line));
        assert!(fits, "{path}: $ {command}\nprinted\n{printed}and not\n{}", output.join("\n"));
    }
    assert_eq!(server.stop_by("INT").0, Some(0));
}

/// The steps without the blocks that need a Kafka client which this machine does not have.
fn without_missing_programs(path: &str, mut steps: Vec<Step>) -> Vec<Step> {
    let blocks: Vec<usize> =
        steps.iter().filter(|step| step.command.starts_with("kcat ")).map(|step| step.block).collect();
    if !blocks.is_empty() && !runs("kcat", "-V") {
        eprintln!("SKIPPED the commands with kcat of {path}: there is no kcat (Debian and Ubuntu: apt install kcat)");
        steps.retain(|step| !blocks.contains(&step.block));
    }
    steps
}

/// Runs the steps in one shell. The output of each one is in the file `step-` and its index.
fn run(steps: &[Step], folder: &Path) {
    let script = steps
        .iter()
        .enumerate()
        .map(|(index, Step { command, .. })| format!("{{ {command}\n}} > step-{index} 2>&1 < /dev/null\n"));
    fs::write(folder.join("script"), script.collect::<String>()).expect("written");
    let programs = Path::new(env!("CARGO_BIN_EXE_quire")).parent().expect("a folder");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("timeout");
    command.args(["120", "sh", "script"]).current_dir(folder).env("PATH", path);
    let mut shell = command.process_group(0).stdout(Stdio::null()).spawn().expect("there is a shell");
    let status = shell.wait().expect("it ends");
    // Servers that the page started and did not stop are in the group of the shell.
    let group = format!("kill -9 -- -{} 2> /dev/null", shell.id());
    Command::new("sh").args(["-c", &group]).status().expect("there is a shell");
    assert_ne!(status.code(), Some(124), "the page takes more than 120 s");
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        /// The pages that are followed.
        const PAGES: &[&str] = &[$($path),*];

        $(
            #[test]
            fn $name() {
                follow($path);
            }
        )*
    };
}

pages! {
    the_first_order: "tutorials/first-order.md",
    a_unique_username: "tutorials/unique-username.md",
    an_exactly_once_consumer: "tutorials/exactly-once-consumer.md",
    a_code_graph: "tutorials/code-graph.md",
    three_nodes: "tutorials/three-nodes.md",
    retry_safely: "guides/retry-safely.md",
    read_a_store_from_kafka: "guides/read-a-store-from-kafka.md",
    erase_a_person: "guides/erase-a-person.md",
    back_up_and_restore: "guides/back-up-and-restore.md",
    full_disk: "guides/full-disk.md",
    monitor_and_alert: "guides/monitor-and-alert.md",
    run_as_a_service: "guides/run-as-a-service.md",
    upgrade: "guides/upgrade.md",
    secure_a_server: "guides/secure-a-server.md",
    migrate: "guides/migrate.md",
}

/// The examples are run by the steps `clients` and `python`, and by the tests of their crate.
#[test]
fn the_examples_for_assistants_are_the_files_that_are_run() {
    let page = fs::read_to_string(docs().join("assistants.md")).expect("a page");
    for (language, file) in [
        ("sh", "examples/orders/orders.sh"),
        ("python", "examples/orders/orders.py"),
        ("ts", "clients/typescript/examples/orders.ts"),
        ("go", "clients/go/examples/orders/main.go"),
        ("rust", "examples/orders/main.rs"),
    ] {
        let text = fs::read_to_string(docs().join("..").join(file)).expect("an example");
        assert!(
            page.contains(&format!("```{language}\n{text}```\n")),
            "docs/assistants.md does not have {file} as it is"
        );
    }
}

#[test]
fn every_tutorial_and_guide_is_followed() {
    for directory in DIRECTORIES {
        for entry in fs::read_dir(docs().join(directory)).expect("a directory") {
            let path = format!("{directory}/{}", entry.expect("a page").file_name().to_string_lossy());
            assert!(PAGES.contains(&&*path), "{path} is not in the list of pages that are followed");
        }
    }
}

#[test]
fn a_page_that_prints_something_else_does_not_match() {
    assert!(matches("0:0 … ada", "0:0   2026 ada"));
    assert!(matches("a … b … c", "a 1 b 2 c"));
    assert!(!matches("a … b … c", "a 1 c"));
    assert!(!matches("a … b", "a 1 c"));
    assert!(!matches("a", "a b"));
    assert!(is_progress("verify, bytes: 67,108,864 of 67,108,864"));
    assert!(!is_progress("name: 3 of a kind"));
    let (steps, files) = parse("Save this as `f`:\n\n```json\n{}\n```\n\n```console\n$ x\ny\n$ z \\\n  w\nv\n```\n");
    assert_eq!(files, [("f".to_owned(), "{}\n".to_owned())]);
    let steps: Vec<_> = steps.iter().map(|step| (&*step.command, step.output.len())).collect();
    assert_eq!(steps, [("x", 1), ("z \\\n  w", 1)]);
}
