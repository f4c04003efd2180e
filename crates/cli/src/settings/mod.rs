//! The settings of `quire serve`: from a file, the environment and flags.
//!
//! ```text
//! quire.toml ─▶ defaults of the flags ─┐
//! environment QUIRE_SERVE_… ───────────┼─▶ clap ─▶ Serve
//! flags ───────────────────────────────┘
//! ```
//!
//! The flags are the only description. A key of the file is the name of a flag with underscores,
//! and a variable of the environment is the same name in capitals. So a new flag is a new setting
//! in all three places. A flag wins over the environment, and the environment wins over the file.

mod file;
mod list;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};

use crate::Quire;
use crate::failure::{CommandError, Result};
use file::SettingsFile;
pub(crate) use list::{ServerSetting, SettingSource};

/// The file that is read without `--config`, when it exists.
const DEFAULT_FILE: &str = "/etc/quire/quire.toml";

/// The first part of the variables.
const PREFIX: &str = "QUIRE_SERVE_";

/// Variables with a name of their own, by the id of the flag.
const NAMED: [(&str, &str); 1] = [("log", "QUIRE_LOG")];

/// The commands with these settings.
const COMMANDS: [&[&str]; 3] = [&["serve"], &["config", "check"], &["config", "print"]];

/// The arguments of a command, and the settings that it got.
#[derive(Debug)]
pub(crate) struct ParsedArguments {
    pub(crate) quire: Quire,
    /// The settings in the order of the help; empty for commands without a file.
    pub(crate) settings: Vec<ServerSetting>,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
}

/// Parses the arguments of this process. Prints help and errors of arguments, and ends the process
/// then.
///
/// # Errors
/// When the file can't be read, or has invalid settings. The message names each one.
pub(crate) fn parse() -> Result<ParsedArguments> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match parse_from(&arguments)? {
        Ok(parsed) => Ok(parsed),
        Err(error) => error.exit(),
    }
}

/// Parses the arguments of this process again, with the present file and environment.
///
/// # Errors
/// As [`parse`], and when the arguments are invalid.
pub(crate) fn parse_again() -> Result<ParsedArguments> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    parse_from(&arguments)?.map_err(|error| CommandError::new(error.to_string().trim_end().to_owned()))
}

/// Whether a text is a valid file of settings. Asserts that each problem names a line of the text.
pub(crate) fn is_file(text: &str) -> bool {
    match file::parse(text, serve_of(&Quire::command())) {
        Ok(_) => true,
        Err(problems) => {
            let lines = text.matches('\n').count() + 1;
            assert!(
                !problems.is_empty() && problems.iter().all(|(line, _)| (1..=lines).contains(line)),
                "{problems:?}"
            );
            false
        }
    }
}

fn parse_from(arguments: &[OsString]) -> Result<Result<ParsedArguments, clap::Error>> {
    let with_environment = with_settings(Quire::command(), &|command| add_environment(command));
    let file = match file_of(&with_environment, arguments) {
        Some(path) => Some(SettingsFile::read(&path, serve_of(&Quire::command()))?),
        None => None,
    };
    let command = match &file {
        Some(file) => with_settings(with_environment, &|command| file.add_defaults(command)),
        None => with_environment,
    };
    let matches = match command.clone().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return Ok(Err(error)),
    };
    let settings = match of_settings(&matches) {
        Some(matches) => list::all(serve_of(&command), matches, file.as_ref()),
        None => Vec::new(),
    };
    let quire = Quire::from_arg_matches(&matches);
    Ok(quire.map(|quire| ParsedArguments { quire, settings, file: file.map(SettingsFile::into_path) }))
}

/// Changes each command that has the settings.
fn with_settings(command: Command, change: &dyn Fn(Command) -> Command) -> Command {
    COMMANDS.into_iter().fold(command, |command, path| at(command, path, change))
}

fn at(command: Command, path: &[&str], change: &dyn Fn(Command) -> Command) -> Command {
    match path {
        [] => change(command),
        [name, rest @ ..] => command.mut_subcommand(*name, |command| at(command, rest, change)),
    }
}

fn serve_of(command: &Command) -> &Command {
    command.find_subcommand("serve").expect("the command exists")
}

/// The arguments of a command with settings; `None` for any other command.
fn of_settings(matches: &ArgMatches) -> Option<&ArgMatches> {
    let inner = |path: &[&str]| {
        path.iter().try_fold(matches, |matches, name| {
            matches.subcommand().filter(|(given, _)| given == name).map(|(_, matches)| matches)
        })
    };
    COMMANDS.into_iter().find_map(inner)
}

/// The variable of a setting.
pub(crate) fn variable(id: &str) -> String {
    let named = NAMED.into_iter().find(|(flag, _)| *flag == id);
    named.map_or_else(|| PREFIX.to_owned() + &id.to_uppercase().replace('-', "_"), |(_, name)| name.to_owned())
}

/// The key of a setting in the file.
pub(crate) fn key(flag: &str) -> String {
    flag.replace('-', "_")
}

fn add_environment(command: Command) -> Command {
    command.mut_args(|arg| match arg.get_long().map(variable) {
        // clap keeps names for the life of the process. There is a bounded number of them.
        Some(name) => arg.env(name.leak() as &'static str).hide_env(true),
        None => arg,
    })
}

/// The path of the file that these arguments name, or the default.
fn file_of(command: &Command, arguments: &[OsString]) -> Option<PathBuf> {
    // Other errors are reported when the arguments are parsed with the file.
    let matches = command.clone().ignore_errors(true).try_get_matches_from(arguments).ok()?;
    let given = of_settings(&matches)?.try_get_one::<PathBuf>("config").ok().flatten().cloned();
    given.or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|path| Path::exists(path)))
}
