//! `quire top` on a terminal: a screen that fits and is redrawn, and a terminal that is as before
//! at the end.

use crate::support::{Server, quire};
use crate::terminal::OnTerminal;

const OBJECTS: &str = r#"{"parts": [
    {"enqueue": {"queue": "mails", "payload_text": "1"}},
    {"produce": {"topic": "departures", "partition": 0, "value": "x"}},
    {"commit_offset": {"group": "billing", "topic": "departures", "partition": 0, "offset": 0}}
]}"#;

/// What begins a frame, and what ends it (ECMA-48: CUP, ED).
const FRAME_BEGIN: &str = "\x1b[H";
const FRAME_END: &str = "\x1b[J";

/// Lines wrap, the cursor is shown, and the first screen is back.
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The next frame, as lines without sequences.
#[track_caller]
fn frame(top: &mut OnTerminal) -> Vec<String> {
    let shown = top.until(FRAME_END);
    let frame = shown.split_once(FRAME_BEGIN).expect("a frame").1;
    let frame = frame.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[K", "");
    assert!(!frame.contains('\x1b'), "{frame:?}");
    frame.split("\r\n").map(str::to_owned).collect()
}

/// Waits until the terminal is restored and the command ends. Returns the status.
#[track_caller]
fn end(mut top: OnTerminal) -> Option<i32> {
    top.until(LEAVE);
    let status = top.ended();
    assert!(top.is_canonical());
    assert_eq!(top.shown, "");
    status
}

#[test]
fn top_redraws_a_screen_that_fits_and_q_restores_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    for _ in 0..3 {
        assert_eq!(server.ask("POST", "/v1/commit", OBJECTS).0, 200);
    }
    let url = format!("http://{}", server.http);
    let mut top = OnTerminal::start(quire().args(["top", "--http", &url, "--interval-ms", "10"]));
    for _ in 0..3 {
        let frame = frame(&mut top);
        assert!(frame.len() <= 24 && frame.iter().all(|line| line.chars().count() <= 80), "{frame:#?}");
        for word in [&*url, "commits", "sync", "queues", "mails", "departures", "billing"] {
            assert!(frame.iter().any(|line| line.contains(word)), "{word} in {frame:#?}");
        }
    }
    assert!(!top.is_canonical(), "keys are read without Enter");
    top.type_keys("xq");
    assert_eq!(end(top), Some(0));
}

#[test]
fn a_signal_ends_top_and_restores_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let path = folder.path().to_str().expect("text");
    let url = format!("http://{}", server.http);
    for (place, word) in [(["--data", path], "commits"), (["--http", &url], "queues")] {
        let mut top = OnTerminal::start(quire().args(["top", place[0], place[1], "--interval-ms", "600000"]));
        assert!(frame(&mut top).iter().any(|line| line.contains(word)));
        top.signal(rustix::process::Signal::INT);
        assert_eq!(end(top), Some(0));
    }
}

#[test]
fn top_shows_that_a_server_is_away_until_q_is_pressed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let url = format!("http://{}", server.http);
    let mut top = OnTerminal::start(quire().args(["top", "--http", &url, "--interval-ms", "10"]));
    frame(&mut top);
    assert_eq!(server.stop_by("INT").0, Some(0));
    while !frame(&mut top).iter().any(|line| line.contains("no figures now: can't ask the server")) {}
    top.type_keys("q");
    assert_eq!(end(top), Some(0));
}
