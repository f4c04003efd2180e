//! The query string of a request: named values, each used or refused.
//!
//! An unknown parameter is refused by name, so that a misspelt filter never widens a read.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use crate::error::Problem;
use crate::presentation::{PARAMETER, is_form_chosen};

/// The default number of items of a read.
pub(crate) const LIMIT_DEFAULT: usize = 100;

/// The maximum number of items of a read.
pub(crate) const LIMIT_MAX: usize = 10_000;

/// The parameters of a request that were not used yet.
#[derive(Debug)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Every value of a parameter that may be repeated.
    pub(crate) fn all(&mut self, name: &str) -> Vec<String> {
        self.0.extract_if(.., |(known, _)| known == name).map(|(_, value)| value).collect()
    }

    /// The value of a parameter.
    pub(crate) fn one<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Option<T>, Problem> {
        let mut values = self.all(name);
        if values.len() > 1 {
            return Err(Problem::invalid(format!("{name} occurs {} times: give it once", values.len())));
        }
        values.pop().map(|value| parse(name, &value)).transpose()
    }

    /// The value of a parameter that is one of these words.
    pub(crate) fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, Problem> {
        let Some(given) = self.one::<String>(name)? else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == given) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => {
                let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                Err(Problem::invalid(format!("{name} must be one of {}, got {given:?}", words.join(", "))))
            }
        }
    }

    /// Where a page begins: the parameter `cursor`, the `next_cursor` of the page before, or the
    /// parameter `name`.
    pub(crate) fn cursor<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Option<T>, Problem> {
        match (self.one("cursor")?, self.one(name)?) {
            (Some(_), Some(_)) => Err(Problem::invalid(format!("give cursor or {name}, not both"))),
            (cursor, given) => Ok(cursor.or(given)),
        }
    }

    /// The parameter `limit`: the maximum number of items.
    pub(crate) fn limit(&mut self) -> Result<usize, Problem> {
        limit(self.one("limit")?)
    }

    /// Checks that every parameter was used.
    pub(crate) fn end(self) -> Result<(), Problem> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(Problem::invalid(format!("unknown parameter {name:?}"))),
        }
    }
}

/// The number of items.
pub(crate) fn limit(asked: Option<usize>) -> Result<usize, Problem> {
    within("limit", asked.unwrap_or(LIMIT_DEFAULT), 1..=LIMIT_MAX)
}

/// A number within its range.
pub(crate) fn within<N: PartialOrd + Display>(name: &str, given: N, range: RangeInclusive<N>) -> Result<N, Problem> {
    if range.contains(&given) {
        return Ok(given);
    }
    Err(Problem::invalid(format!("{name} must be {} to {}, got {given}", range.start(), range.end())))
}

/// Parses a text of the request.
pub(crate) fn parse<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error| Problem::invalid(format!("invalid {name} {text:?}: {error}")))
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        if percent_decode_str(parts.uri.query().unwrap_or_default()).decode_utf8().is_err() {
            return Err(Problem::invalid("a parameter is not UTF-8: send bytes in the body of a request"));
        }
        match Query::<Vec<(String, String)>>::try_from_uri(&parts.uri) {
            Ok(Query(mut pairs)) => {
                // It holds for the whole response.
                if is_form_chosen(&parts.uri) {
                    pairs.retain(|(name, _)| name != PARAMETER);
                }
                Ok(Params(pairs))
            }
            Err(error) => Err(Problem::invalid(error.body_text())),
        }
    }
}

/// The names in a path, percent-decoded.
#[derive(Debug)]
pub(crate) struct PathNames<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathNames<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(PathNames(names)),
            Err(error) => Err(Problem::invalid(error.body_text())),
        }
    }
}
