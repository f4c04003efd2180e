//! Progress on standard error: a bar on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::aside;
use crate::text::grouped;

/// Shows how far something has come.
#[derive(Debug)]
pub(crate) enum Progress {
    /// On a terminal.
    Bar(ProgressBar),
    /// Elsewhere: a line each tenth of the way.
    Lines {
        /// What is being done.
        what: &'static str,
        done: u64,
        of: u64,
    },
}

impl Progress {
    /// Nothing done yet of so much.
    pub(crate) fn new(what: &'static str, of: u64) -> Self {
        if !io::stderr().is_terminal() {
            return Progress::Lines { what, done: 0, of };
        }
        let style = ProgressStyle::with_template("{msg:<20} {wide_bar} {human_pos} of {human_len}")
            .expect("the template is valid");
        Progress::Bar(ProgressBar::new(of).with_style(style).with_message(what))
    }

    /// So much more is done.
    pub(crate) fn add(&mut self, more: u64) {
        match self {
            Progress::Bar(bar) => bar.inc(more),
            Progress::Lines { what, done, of } => {
                let tenth = |done: u64| done * 10 / (*of).max(1);
                let before = tenth(*done);
                *done += more;
                if tenth(*done) > before {
                    aside(format_args!("{what}: {} of {}", grouped(*done), grouped(*of)));
                }
            }
        }
    }

    /// It is over; the bar makes room for the report.
    pub(crate) fn finish(self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
