//! The commands of the tutorials, run in a shell in the order of the page. What they print must
//! match the page, where `…` stands for any text.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::Server;

/// A command of a page, with what it prints.
struct Step {
    command: String,
    output: Vec<String>,
}

/// The steps of the blocks `console` of a page, and its files: the blocks after lines that end with
/// "as `NAME`:".
fn parse(page: &str) -> (Vec<Step>, Vec<(String, String)>) {
    let (mut steps, mut files) = (Vec::<Step>::new(), Vec::new());
    let mut pieces = page.split("```");
    let mut before = pieces.next().expect("text");
    while let (Some(block), Some(after)) = (pieces.next(), pieces.next()) {
        let (language, text) = block.split_once('\n').expect("a block has lines");
        if language == "console" {
            for line in text.lines() {
                match (line.strip_prefix("$ "), steps.last_mut()) {
                    (Some(command), _) => steps.push(Step { command: command.to_owned(), output: Vec::new() }),
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

#[track_caller]
fn follow(page: &str, folder: &Path, server: &Server) {
    let (steps, files) = parse(page);
    assert!(!steps.is_empty(), "the page has commands");
    for (name, text) in files {
        fs::write(folder.join(name), text).expect("written");
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_quire")).parent().expect("a folder");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut exports = String::new();
    for Step { command, output } in steps {
        let command = command.replace("127.0.0.1:7070", &server.http);
        if command.starts_with("export ") {
            exports = format!("{exports}{command}\n");
            continue;
        }
        let script = format!("{exports}{{ {command}\n}} 2>&1");
        let ran = Command::new("sh").args(["-c", &script]).current_dir(folder).env("PATH", &path).output();
        let printed = String::from_utf8(ran.expect("there is a shell").stdout).expect("UTF-8");
        let lines: Vec<&str> = printed.lines().collect();
        let fits = lines.len() == output.len() && output.iter().zip(&lines).all(|(page, line)| matches(page, line));
        assert!(fits, "$ {command}\nprinted\n{printed}and not\n{}", output.join("\n"));
    }
}

#[test]
fn the_first_order() {
    if !Command::new("curl").arg("--version").output().is_ok_and(|ran| ran.status.success()) {
        eprintln!("SKIPPED: there is no curl");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("shop"));
    follow(include_str!("../../../../docs/tutorials/first-order.md"), folder.path(), &server);
    assert_eq!(server.stop_by("INT").0, Some(0));
}

#[test]
fn a_page_that_prints_something_else_does_not_match() {
    assert!(matches("0:0 … ada", "0:0   2026 ada"));
    assert!(matches("a … b … c", "a 1 b 2 c"));
    assert!(!matches("a … b … c", "a 1 c"));
    assert!(!matches("a … b", "a 1 c"));
    assert!(!matches("a", "a b"));
    let (steps, files) = parse("Save this as `f`:\n\n```json\n{}\n```\n\n```console\n$ x\ny\n$ z\n```\n");
    assert_eq!(files, [("f".to_owned(), "{}\n".to_owned())]);
    assert_eq!(steps.iter().map(|step| (&*step.command, step.output.len())).collect::<Vec<_>>(), [("x", 1), ("z", 0)]);
}
