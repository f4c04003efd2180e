//! A pseudo terminal with a command on it. Each wait ends with an event, or fails after a while.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::PATIENCE;

/// A terminal of 80 columns and 24 lines, with a command on it. Dropping it kills the command.
pub(crate) struct OnTerminal {
    keyboard: File,
    /// The end of the command.
    device: File,
    process: Pid,
    child: Option<Child>,
    screen: Receiver<Vec<u8>>,
    /// The start of a character.
    incomplete: Vec<u8>,
    /// What the command showed, and the test did not take yet.
    pub(crate) shown: String,
}

impl OnTerminal {
    pub(crate) fn start(command: &mut Command) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&terminal).expect("granted");
        unlockpt(&terminal).expect("unlocked");
        let name = ptsname(&terminal, Vec::new()).expect("a name").into_string().expect("text");
        let device = OpenOptions::new().read(true).write(true).open(name).expect("a device");
        tcsetwinsize(&device, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).expect("set");
        let stdio = || Stdio::from(device.try_clone().expect("a handle"));
        let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().expect("started");
        let keyboard = File::from(terminal);
        let screen = chunks_of(keyboard.try_clone().expect("a handle"));
        let process = Pid::from_child(&child);
        let (child, incomplete, shown) = (Some(child), Vec::new(), String::new());
        OnTerminal { keyboard, device, process, child, screen, incomplete, shown }
    }

    /// Waits until the command shows something more.
    #[track_caller]
    pub(crate) fn read(&mut self) {
        let chunk = self.screen.recv_timeout(PATIENCE);
        self.incomplete.extend(chunk.unwrap_or_else(|_| panic!("it shows nothing after {:?}", self.shown)));
        let whole = match str::from_utf8(&self.incomplete) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let rest = self.incomplete.split_off(whole);
        self.shown += str::from_utf8(&self.incomplete).expect("it was checked");
        self.incomplete = rest;
    }

    /// Waits until the command shows a text. Takes it, and returns what was shown before it.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            if let Some((before, rest)) = self.shown.split_once(text) {
                let before = before.to_owned();
                self.shown = rest.to_owned();
                return before;
            }
            self.read();
        }
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("typed");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.process, signal).expect("it runs");
    }

    /// Whether the terminal reads lines and shows what is typed.
    pub(crate) fn is_canonical(&self) -> bool {
        let modes = tcgetattr(&self.device).expect("modes");
        modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Waits for the end of the command. Returns its status.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("it did not end yet");
        let (sender, end) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait()));
        match end.recv_timeout(PATIENCE) {
            Ok(status) => status.expect("it can be waited for").code(),
            Err(_) => {
                self.signal(Signal::KILL);
                panic!("it goes on after {:?}", self.shown);
            }
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn chunks_of(mut screen: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count) = screen.read(&mut bytes) {
            if count == 0 || sender.send(bytes[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}
