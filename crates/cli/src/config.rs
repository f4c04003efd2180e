//! `quire config`: the settings that `quire serve` would have.

use std::io::Write;
use std::path::Path;

use clap::Subcommand;

use crate::failure::Result;
use crate::serve::Serve;
use crate::settings::ServerSetting;
use crate::text::{counted, without_controls};

/// Subcommands of `quire config`. They take the flags of `quire serve`.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Check the settings of `quire serve`; the exit status is 1 when one is invalid
    Check(Box<Serve>),
    /// Print each setting of `quire serve`, and where it comes from
    Print(Box<Serve>),
}

impl Config {
    /// Runs the subcommand on the settings of these arguments.
    ///
    /// # Errors
    /// When a setting is invalid. The message names each one.
    pub(crate) fn run(self, settings: &[ServerSetting], file: Option<&Path>, out: &mut dyn Write) -> Result {
        match self {
            Config::Check(serve) => {
                serve.check()?;
                let from = file.map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
                Ok(writeln!(out, "{} are valid ({})", counted(settings.len() as u64, "setting"), shown(&from))?)
            }
            Config::Print(_) => {
                let lines: Vec<String> = settings.iter().map(|setting| shown(&setting.line())).collect();
                let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0).min(WIDTH_MAX);
                for (line, setting) in lines.iter().zip(settings) {
                    match setting.values.is_empty() {
                        true => writeln!(out, "{line}")?,
                        false => writeln!(out, "{line:<width$}  # {}", shown(&setting.source.to_string()))?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// The widest line that keeps the column of sources aligned.
const WIDTH_MAX: usize = 60;

/// A text on one line of the terminal.
fn shown(text: &str) -> String {
    without_controls(text).replace(['\n', '\t'], " ")
}
