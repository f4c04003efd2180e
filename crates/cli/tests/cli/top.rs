//! `quire top` on a terminal: a screen that fits and is redrawn, and a terminal that is as before
//! at the end.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::{Server, quire};

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

/// A terminal of 80 columns and 24 lines, with the command on it.
struct OnTerminal {
    /// The keyboard and the screen.
    terminal: File,
    /// The end of the command.
    device: File,
    child: Child,
    shown: String,
}

impl OnTerminal {
    fn start(arguments: &[&str]) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&terminal).expect("granted");
        unlockpt(&terminal).expect("unlocked");
        let name = ptsname(&terminal, Vec::new()).expect("a name").into_string().expect("text");
        let device = OpenOptions::new().read(true).write(true).open(name).expect("a device");
        tcsetwinsize(&device, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).expect("set");
        let stdio = || Stdio::from(device.try_clone().expect("a handle"));
        let child = quire().args(arguments).stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().expect("started");
        OnTerminal { terminal: terminal.into(), device, child, shown: String::new() }
    }

    /// Reads what the command shows.
    fn read(&mut self) {
        let mut bytes = [0; 4096];
        let read = self.terminal.read(&mut bytes).expect("it shows something");
        self.shown.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }

    /// The next frame, as lines without sequences.
    fn frame(&mut self) -> Vec<String> {
        loop {
            if let Some((before, rest)) = self.shown.split_once(FRAME_END) {
                let frame = before.split_once(FRAME_BEGIN).expect("a frame").1;
                let frame = frame.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[K", "");
                assert!(!frame.contains('\x1b'), "{frame:?}");
                self.shown = rest.to_owned();
                return frame.split("\r\n").map(str::to_owned).collect();
            }
            self.read();
        }
    }

    /// Waits until the terminal is restored and the command ends. Returns the status.
    fn end(mut self) -> Option<i32> {
        while !self.shown.contains(LEAVE) {
            self.read();
        }
        let status = self.child.wait().expect("it ends").code();
        assert!(is_canonical(&self.device));
        assert!(self.shown.ends_with(LEAVE), "{:?}", self.shown);
        status
    }
}

/// Whether the terminal reads lines and shows what is typed.
fn is_canonical(device: &File) -> bool {
    tcgetattr(device).expect("modes").local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
}

#[test]
fn top_redraws_a_screen_that_fits_and_q_restores_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    for _ in 0..3 {
        assert_eq!(server.ask("POST", "/v1/commit", OBJECTS).0, 200);
    }
    let url = format!("http://{}", server.http);
    let mut top = OnTerminal::start(&["top", "--http", &url, "--interval-ms", "10"]);
    for _ in 0..3 {
        let frame = top.frame();
        assert!(frame.len() <= 24 && frame.iter().all(|line| line.chars().count() <= 80), "{frame:#?}");
        for word in [&*url, "commits", "sync", "queues", "mails", "departures", "billing"] {
            assert!(frame.iter().any(|line| line.contains(word)), "{word} in {frame:#?}");
        }
    }
    assert!(!is_canonical(&top.device), "keys are read without Enter");
    top.terminal.write_all(b"xq").expect("typed");
    assert_eq!(top.end(), Some(0));
}

#[test]
fn a_signal_ends_top_and_restores_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let path = folder.path().to_str().expect("text");
    let url = format!("http://{}", server.http);
    for (place, word) in [(["--data", path], "commits"), (["--http", &url], "queues")] {
        let mut top = OnTerminal::start(&["top", place[0], place[1], "--interval-ms", "600000"]);
        assert!(top.frame().iter().any(|line| line.contains(word)));
        let id = rustix::process::Pid::from_child(&top.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it runs");
        assert_eq!(top.end(), Some(0));
    }
}

#[test]
fn top_shows_that_a_server_is_away_until_q_is_pressed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let url = format!("http://{}", server.http);
    let mut top = OnTerminal::start(&["top", "--http", &url, "--interval-ms", "10"]);
    top.frame();
    assert_eq!(server.stop_by("INT").0, Some(0));
    while !top.frame().iter().any(|line| line.contains("no figures now: can't ask the server")) {}
    top.terminal.write_all(b"q").expect("typed");
    assert_eq!(top.end(), Some(0));
}
