//! The settings with their values, and where each value comes from.

use std::fmt;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::file::SettingsFile;
use super::{key, variable};

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerSetting {
    /// The name of the flag.
    pub(crate) flag: String,
    /// The values, as a flag has them. Empty when there is neither a value nor a default.
    pub(crate) values: Vec<String>,
    pub(crate) source: SettingSource,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingSource {
    Default,
    File { path: String, line: usize },
    Environment { variable: String },
    Flag,
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingSource::Default => f.write_str("default"),
            SettingSource::File { path, line } => write!(f, "{path}, line {line}"),
            SettingSource::Environment { variable } => write!(f, "environment {variable}"),
            SettingSource::Flag => f.write_str("flag"),
        }
    }
}

impl ServerSetting {
    /// The setting as a line of a file of settings.
    pub(crate) fn line(&self) -> String {
        let value = |value: &String| match value.parse::<i64>().is_ok() || value.parse::<bool>().is_ok() {
            true => value.clone(),
            // A text of JSON is a text of TOML.
            false => serde_json::to_string(value).expect("a text is JSON"),
        };
        let name = key(&self.flag);
        match &self.values[..] {
            [] => format!("# {name} is not set"),
            [only] => format!("{name} = {}", value(only)),
            many => format!("{name} = [{}]", many.iter().map(value).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// The settings of a command, in the order of its help.
pub(super) fn all(serve: &Command, matches: &ArgMatches, file: Option<&SettingsFile>) -> Vec<ServerSetting> {
    let setting = |arg: &clap::Arg| {
        let (id, flag) = (arg.get_id().as_str(), arg.get_long()?);
        let values = matches.try_get_raw(id).ok()?.into_iter().flatten();
        let values: Vec<String> = values.map(|value| value.to_string_lossy().into_owned()).collect();
        let of_file = file.and_then(|file| Some((file.path().display().to_string(), file.line_of(flag)?)));
        let source = match (matches.value_source(id), of_file) {
            (Some(ValueSource::CommandLine), _) => SettingSource::Flag,
            (Some(ValueSource::EnvVariable), _) => SettingSource::Environment { variable: variable(flag) },
            (_, Some((path, line))) => SettingSource::File { path, line },
            (_, None) => SettingSource::Default,
        };
        Some(ServerSetting { flag: flag.to_owned(), values, source })
    };
    serve.get_arguments().filter(|arg| arg.get_long() != Some("config")).filter_map(setting).collect()
}
