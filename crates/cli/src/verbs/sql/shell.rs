//! The interactive shell of `quire sql`.
//!
//! ```text
//! terminal ─▶ rustyline: lines, history, completion ─▶ statements ─▶ result ─▶ rows
//!                                                  └─▶ commands: .tables, .mode …
//! ```

use std::io::Write;

use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{CompletionType, Config, Editor};
use serde_json::{Value, json};

use super::commands::{ShellCommand, help};
use super::completion::SqlCompletion;
use super::history::HistoryFile;
use super::interrupt::Interrupts;
use super::result;
use super::rows::RowForm;
use super::statements::SqlText;
use crate::failure::{CommandError, Result, aside};
use crate::verbs::client::HttpClient;

const PROMPT: &str = "quire> ";

/// A shell on the terminal of the process.
pub(super) struct SqlShell {
    client: HttpClient,
    form: RowForm,
    as_of: Option<u64>,
    editor: Editor<SqlCompletion, MemHistory>,
    /// `None` without a file, or after it failed.
    history: Option<HistoryFile>,
    interrupts: Interrupts,
}

impl SqlShell {
    /// Prepares a shell over a database.
    ///
    /// # Errors
    /// When the database can't be reached, or the terminal can't be used.
    pub(super) fn start(client: &HttpClient, form: RowForm, as_of: Option<u64>) -> Result<Self> {
        let completion = SqlCompletion::read(client)?;
        let config = Config::builder().completion_type(CompletionType::List).history_ignore_space(true).build();
        let mut editor =
            Editor::with_history(config.clone(), MemHistory::with_config(&config)).map_err(terminal_failed)?;
        editor.set_helper(Some(completion));
        let mut shell =
            SqlShell { client: client.clone(), form, as_of, editor, history: None, interrupts: Interrupts::receive()? };
        shell.read_history();
        Ok(shell)
    }

    /// Reads statements and answers them, until the user leaves.
    ///
    /// # Errors
    /// When the terminal fails. A failed statement is reported, and the shell continues.
    pub(super) fn run(mut self, out: &mut dyn Write) -> Result {
        aside(format_args!("A statement ends with a semicolon. Enter .help for the commands, and .quit to leave."));
        loop {
            out.flush()?;
            // An interrupt between the line and its statement counts.
            self.interrupts.reset();
            let text = match self.editor.readline(PROMPT) {
                Ok(text) => text,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(terminal_failed(error)),
            };
            self.remember(&text)?;
            let text = text.trim();
            if text.starts_with('.') {
                match ShellCommand::parse(text) {
                    Ok(ShellCommand::Quit) => return Ok(()),
                    Ok(command) => self.answer_command(&command, out)?,
                    Err(message) => aside(format_args!("{message}")),
                }
            } else {
                for statement in SqlText::parse(text).statements() {
                    if !self.answer(&result::request(statement, &[], self.as_of), self.form, out)? {
                        break;
                    }
                }
            }
        }
    }

    fn answer_command(&mut self, command: &ShellCommand<'_>, out: &mut dyn Write) -> Result {
        match command {
            ShellCommand::Help => out.write_all(help().as_bytes())?,
            ShellCommand::Mode(form) => self.form = *form,
            ShellCommand::Tables => {
                let tables = result::request("SELECT name, about FROM quire_tables", &[], None);
                self.answer(&tables, RowForm::Table, out)?;
            }
            ShellCommand::Schema(table) => {
                let has_table = self.editor.helper().is_some_and(|completion| completion.has_table(table));
                if has_table {
                    let columns = "SELECT name, type, narrows, about FROM quire_columns WHERE table_name = ?1";
                    self.answer(&result::request(columns, &[json!(table)], None), RowForm::Table, out)?;
                } else {
                    aside(format_args!("unknown table {table}: .tables shows the tables"));
                }
            }
            ShellCommand::Quit => {}
        }
        Ok(())
    }

    /// Prints the result of a statement, and what it read. Returns whether it was answered: it is
    /// not after an error, which is reported, and after Ctrl-C.
    fn answer(&mut self, statement: &Value, form: RowForm, out: &mut dyn Write) -> Result<bool> {
        let done = self.interrupts.during(&self.client, || result::print(&self.client, statement, form, out));
        match done {
            Ok(Some(summary)) => {
                aside(format_args!("{summary}"));
                Ok(true)
            }
            Ok(None) => {
                aside(format_args!("interrupted"));
                self.client = self.client.renewed()?;
                Ok(false)
            }
            Err(CommandError::Message(message)) => {
                aside(format_args!("{message}"));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn read_history(&mut self) {
        let Some(path) = HistoryFile::of_user() else { return };
        match HistoryFile::open(path.clone()) {
            Ok((history, statements)) => {
                for statement in statements {
                    // Memory takes every statement.
                    let _ = self.editor.add_history_entry(statement);
                }
                self.history = Some(history);
            }
            Err(error) => aside(format_args!("the history is not kept: can't use {}: {error}", path.display())),
        }
    }

    /// Adds an input to the history, unless it is empty, begins with a space or repeats the last
    /// one.
    fn remember(&mut self, text: &str) -> Result {
        let text = text.trim_end();
        if text.is_empty() || !self.editor.add_history_entry(text).map_err(terminal_failed)? {
            return Ok(());
        }
        if let Some(Err(error)) = self.history.as_mut().map(|history| history.add(text)) {
            aside(format_args!("the history is no longer kept: {error}"));
            self.history = None;
        }
        Ok(())
    }
}

fn terminal_failed(error: ReadlineError) -> CommandError {
    CommandError::at("use the terminal", error)
}
