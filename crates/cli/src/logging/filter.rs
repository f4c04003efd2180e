//! The filter of the log: a level, and levels of single targets.

use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// The targets of events, and their contents.
pub(crate) const TARGETS: &[(&str, &str)] = &[
    ("quire::server", "start, recovery, listeners, reload, stop"),
    ("quire::duty", "changes of the state of a background duty, and of the database"),
    ("quire::damage", "damage of files"),
    ("quire::sync", "slow syncs"),
    ("quire::cluster", "elections, members, and connections between nodes"),
    ("quire::connection", "refused connections, and connections that were cut off"),
    ("quire::admin", "administrative acts"),
    ("quire::http", "one line for each HTTP request, at debug"),
    ("quire::grpc", "one line for each gRPC call, at debug"),
    ("quire::kafka", "one line for each Kafka request, at debug"),
];

/// The first part of every target.
const PREFIX: &str = "quire";

/// A filter: `info`, or `warn,http=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFilter {
    /// The level of targets that are not listed.
    other: LevelFilter,
    /// Levels of single targets, with their full names.
    single: Vec<(String, LevelFilter)>,
}

impl LogFilter {
    /// The filter as `tracing` has it. Every other target is off.
    pub(crate) fn targets(&self) -> Targets {
        let all = Targets::new().with_default(LevelFilter::OFF);
        let all = TARGETS.iter().fold(all, |all, (target, _)| all.with_target(*target, self.other));
        self.single.iter().fold(all, |all, (target, level)| all.with_target(target.as_str(), *level))
    }
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut filter = LogFilter { other: LevelFilter::INFO, single: Vec::new() };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                None => filter.other = level(part)?,
                Some((target, found)) => filter.single.push((full_name(target.trim())?, level(found.trim())?)),
            }
        }
        Ok(filter)
    }
}

fn level(text: &str) -> Result<LevelFilter, String> {
    // Numbers are levels of `tracing`, too, and nobody's words for them.
    let is_word = text.chars().all(|character| character.is_ascii_alphabetic());
    let parsed = text.parse().ok().filter(|_| is_word && !text.is_empty());
    parsed.ok_or_else(|| format!("unknown level {text:?}: one of error, warn, info, debug, trace, off"))
}

fn full_name(target: &str) -> Result<String, String> {
    let full = match target.strip_prefix(PREFIX) {
        Some(rest) if rest.starts_with("::") => target.to_owned(),
        _ => format!("{PREFIX}::{target}"),
    };
    if TARGETS.iter().any(|(known, _)| *known == full) {
        return Ok(full);
    }
    let known: Vec<_> = TARGETS.iter().map(|(known, _)| short(known)).collect();
    Err(format!("unknown target {target:?}: one of {}", known.join(", ")))
}

/// The target without the part that all targets have.
pub(super) fn short(target: &str) -> &str {
    target.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix("::")).unwrap_or(target)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn parsed(text: &str) -> LogFilter {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_level_holds_for_every_target_of_ours_and_for_no_other() {
        let targets = parsed("debug").targets();
        for (target, _) in TARGETS {
            assert!(targets.would_enable(target, &Level::DEBUG) && !targets.would_enable(target, &Level::TRACE));
        }
        for target in ["h2::codec", "hyper", "quire_http", "quire"] {
            assert!(!targets.would_enable(target, &Level::ERROR), "{target}");
        }
    }

    #[test]
    fn a_target_may_have_a_level_of_its_own() {
        for text in ["warn,http=debug", " http = debug , warn", "warn,quire::http=debug"] {
            let targets = parsed(text).targets();
            assert!(targets.would_enable("quire::http", &Level::DEBUG), "{text}");
            assert!(!targets.would_enable("quire::admin", &Level::INFO), "{text}");
        }
        assert!(!parsed("off").targets().would_enable("quire::damage", &Level::ERROR));
        assert!(parsed("http=debug").targets().would_enable("quire::server", &Level::INFO), "the default stays");
    }

    #[test]
    fn unknown_levels_and_targets_are_named() {
        for (text, expected) in [("loud", "unknown level \"loud\""), ("2", "unknown level"), ("http=", "unknown level")]
        {
            assert!(text.parse::<LogFilter>().expect_err("unknown").contains(expected), "{text}");
        }
        let unknown = "htp=debug".parse::<LogFilter>().expect_err("unknown");
        assert!(unknown.contains("unknown target \"htp\": one of server, duty,"), "{unknown}");
    }
}
