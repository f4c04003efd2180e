//! The commands of the shell: lines that begin with a dot.

use super::rows::RowForm;

/// A command and its help.
#[derive(Debug)]
pub(super) struct CommandHelp {
    pub(super) name: &'static str,
    pub(super) usage: &'static str,
    pub(super) about: &'static str,
}

pub(super) const COMMANDS: &[CommandHelp] = &[
    CommandHelp { name: ".help", usage: ".help", about: "Show this list" },
    CommandHelp { name: ".mode", usage: ".mode table|json|csv", about: "Set the form of results" },
    CommandHelp { name: ".quit", usage: ".quit", about: "Leave the shell; Ctrl-D does too" },
    CommandHelp { name: ".schema", usage: ".schema TABLE", about: "Show the columns of a table" },
    CommandHelp { name: ".tables", usage: ".tables", about: "Show the tables" },
];

/// A command with its argument.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ShellCommand<'t> {
    Help,
    Mode(RowForm),
    Quit,
    Schema(&'t str),
    Tables,
}

impl<'t> ShellCommand<'t> {
    /// Parses a line that begins with a dot.
    ///
    /// # Errors
    /// When it is no command: a message for the user.
    pub(super) fn parse(line: &'t str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let command = COMMANDS.iter().find(|command| command.name == name);
        let command = command.ok_or_else(|| format!("unknown command {name}: .help lists the commands"))?;
        let parsed = match (name, words.next()) {
            (".help", None) => ShellCommand::Help,
            (".mode", Some("table")) => ShellCommand::Mode(RowForm::Table),
            (".mode", Some("json")) => ShellCommand::Mode(RowForm::Json),
            (".mode", Some("csv")) => ShellCommand::Mode(RowForm::Csv),
            (".quit", None) => ShellCommand::Quit,
            (".schema", Some(table)) => ShellCommand::Schema(table.trim_end_matches(';')),
            (".tables", None) => ShellCommand::Tables,
            _ => return Err(format!("expected {}", command.usage)),
        };
        match words.next() {
            None => Ok(parsed),
            Some(_) => Err(format!("expected {}", command.usage)),
        }
    }
}

/// The text of `.help`.
pub(super) fn help() -> String {
    let mut text =
        String::from("A statement ends with ; and may have several lines. Ctrl-C ends a running statement.\n");
    for command in COMMANDS {
        text += &format!("  {:<22}{}\n", command.usage, command.about);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_exactly_its_argument() {
        assert_eq!(ShellCommand::parse(".mode  csv "), Ok(ShellCommand::Mode(RowForm::Csv)));
        assert_eq!(ShellCommand::parse(".schema events;"), Ok(ShellCommand::Schema("events")));
        for (line, message) in [
            (".mode", "expected .mode table|json|csv"),
            (".mode xml", "expected .mode table|json|csv"),
            (".quit now", "expected .quit"),
            (".schema a b", "expected .schema TABLE"),
            (".exit", "unknown command .exit: .help lists the commands"),
        ] {
            assert_eq!(ShellCommand::parse(line), Err(message.to_owned()));
        }
    }

    #[test]
    fn each_command_can_be_parsed() {
        for CommandHelp { name, usage, .. } in COMMANDS {
            let line = usage.split('|').next().expect("a line");
            assert!(line.starts_with(name) && ShellCommand::parse(line).is_ok(), "{usage}");
        }
    }
}
