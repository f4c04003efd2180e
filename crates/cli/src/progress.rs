//! Progress on standard error: a bar on a terminal, a line for each tenth elsewhere.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::aside;
use crate::text::grouped;

/// Shows the progress of a long operation.
#[derive(Debug)]
pub(crate) enum ProgressDisplay {
    /// On a terminal.
    Bar(ProgressBar),
    /// Elsewhere: a line for each tenth.
    Lines {
        /// The operation.
        what: &'static str,
        done: u64,
        of: u64,
    },
}

impl ProgressDisplay {
    /// Starts at zero of `of` steps.
    pub(crate) fn new(what: &'static str, of: u64) -> Self {
        if !io::stderr().is_terminal() {
            return ProgressDisplay::Lines { what, done: 0, of };
        }
        let style = ProgressStyle::with_template("{msg:<20} {wide_bar} {human_pos} of {human_len}")
            .expect("the template is valid");
        ProgressDisplay::Bar(ProgressBar::new(of).with_style(style).with_message(what))
    }

    /// Counts `more` steps as done.
    pub(crate) fn add(&mut self, more: u64) {
        match self {
            ProgressDisplay::Bar(bar) => bar.inc(more),
            ProgressDisplay::Lines { what, done, of } => {
                let tenth = |done: u64| done * 10 / (*of).max(1);
                let before = tenth(*done);
                *done += more;
                if tenth(*done) > before {
                    aside(format_args!("{what}: {} of {}", grouped(*done), grouped(*of)));
                }
            }
        }
    }

    /// Ends the progress. The bar disappears before the report.
    pub(crate) fn finish(self) {
        if let ProgressDisplay::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
