//! The terminal of `quire top`: a second screen that is redrawn, and keys without Enter. The
//! terminal is as before when the value is dropped, also after a panic.
//!
//! The sequences are those of ECMA-48 and xterm, which every common terminal has.

use std::io::{self, IsTerminal, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::screen::ScreenLine;
use crate::stop::StopSignal;

/// Saves the cursor and shows the second screen, hides the cursor, and cuts long lines.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";

/// Undoes [`ENTER`].
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The size of a terminal that reports none.
const SIZE_DEFAULT: (usize, usize) = (80, 24);

/// A control character that no key has.
const DISABLED: u8 = 0;

/// The terminal while the screen is shown.
#[derive(Debug)]
pub(super) struct Terminal {
    /// The modes before, when keys are read.
    before: Option<Termios>,
}

impl Terminal {
    /// Takes over the terminal. `q` requests the stop when standard input is the terminal.
    ///
    /// # Errors
    /// When the modes can't be changed, or the output can't be written.
    pub(super) fn take(stop: &StopSignal) -> io::Result<Self> {
        let before = if io::stdin().is_terminal() { Some(tcgetattr(io::stdin())?) } else { None };
        let terminal = Terminal { before };
        if let Some(before) = &terminal.before {
            let mut modes = before.clone();
            // Ctrl-C stays a signal. A suspended process would leave its screen behind.
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            modes.special_codes[SpecialCodeIndex::VSUSP] = DISABLED;
            tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
            read_keys(stop.clone());
        }
        let mut out = io::stdout();
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        Ok(terminal)
    }

    /// The columns and lines.
    pub(super) fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(io::stdout()).map_or(SIZE_DEFAULT, |size| (size.ws_col.into(), size.ws_row.into()));
        if size.0 == 0 || size.1 == 0 { SIZE_DEFAULT } else { size }
    }

    /// Replaces the contents of the screen.
    ///
    /// # Errors
    /// When the output can't be written.
    pub(super) fn draw(&self, lines: &[ScreenLine]) -> io::Result<()> {
        // Each line is overwritten and then cleared to its end, so nothing flickers.
        let mut frame = "\x1b[H".to_owned();
        for (index, line) in lines.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            match line.is_heading {
                true => frame.push_str(&format!("{separator}\x1b[1m{}\x1b[0m\x1b[K", line.text)),
                false => frame.push_str(&format!("{separator}{}\x1b[K", line.text)),
            }
        }
        frame.push_str("\x1b[J");
        let mut out = io::stdout();
        out.write_all(frame.as_bytes())?;
        out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let mut out = io::stdout();
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Requests the stop when `q` is pressed. The thread ends with the process.
fn read_keys(stop: StopSignal) {
    std::thread::spawn(move || {
        let mut key = [0];
        let mut keys = io::stdin();
        while keys.read(&mut key).is_ok_and(|read| read > 0) {
            if matches!(key, [b'q' | b'Q']) {
                stop.ask();
                return;
            }
        }
    });
}
