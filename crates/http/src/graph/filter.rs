//! Which blocks a request asks for: the parameters `kind`, `tag` and `metadata`.

use std::borrow::Cow;

use quire::graph::{Block, BlockFilter};
use serde_json::Value;

use crate::error::Problem;
use crate::params::Params;

/// What the parameters say.
#[derive(Debug)]
pub(super) struct Filter {
    kinds: Vec<String>,
    tags: Vec<String>,
    /// Fields of the metadata, and what each has to be.
    metadata: Vec<(String, String)>,
}

impl Filter {
    /// Takes the parameters.
    pub(super) fn of(params: &mut Params) -> Result<Self, Problem> {
        let field = |given: String| match given.split_once('=') {
            Some((field, value)) if !field.is_empty() => Ok((field.to_owned(), value.to_owned())),
            _ => Err(Problem::invalid(format!("metadata is FIELD=VALUE, not {given:?}"))),
        };
        let metadata = params.all("metadata").into_iter().map(field).collect::<Result<_, _>>()?;
        Ok(Filter { kinds: params.all("kind"), tags: params.all("tag"), metadata })
    }

    /// Gives it to whoever asks the graph.
    pub(super) fn with<T>(&self, ask: impl FnOnce(BlockFilter<'_>) -> T) -> T {
        let kinds: Vec<&str> = self.kinds.iter().map(String::as_str).collect();
        let tags: Vec<&str> = self.tags.iter().map(String::as_str).collect();
        let test = |block: &Block<'_>| self.matches(block.metadata);
        let test: Option<&(dyn Fn(&Block<'_>) -> bool + Sync)> = Some(&test);
        let test = test.filter(|_| !self.metadata.is_empty());
        ask(BlockFilter { kinds: &kinds, tags: &tags, test })
    }

    /// Whether the metadata is JSON with all the fields. A field is a name, or a pointer (RFC 6901) when it begins with `/`;
    /// its value is compared as a string, or as the JSON that it is.
    fn matches(&self, metadata: &[u8]) -> bool {
        let Ok(metadata) = serde_json::from_slice::<Value>(metadata) else { return false };
        self.metadata.iter().all(|(field, asked)| {
            let found = if field.starts_with('/') { metadata.pointer(field) } else { metadata.get(field) };
            found.is_some_and(|found| {
                let text = found.as_str().map_or_else(|| Cow::Owned(found.to_string()), Cow::Borrowed);
                text == asked.as_str()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_compared_by_name_by_pointer_as_text_and_as_json() {
        let check = |field: &str, value: &str, metadata: &str| {
            let metadata_asked = vec![(field.to_owned(), value.to_owned())];
            Filter { kinds: Vec::new(), tags: Vec::new(), metadata: metadata_asked }.matches(metadata.as_bytes())
        };
        assert!(check("city", "New York", r#"{"city":"New York"}"#));
        assert!(!check("city", "New", r#"{"city":"New York"}"#));
        assert!(check("runways", "4", r#"{"runways":4}"#));
        assert!(check("open", "true", r#"{"open":true}"#));
        assert!(check("/at/0/lat", "1.5", r#"{"at":[{"lat":1.5}]}"#));
        assert!(!check("/at/1", "1", r#"{"at":[1]}"#));
        assert!(!check("city", "", "not JSON"));
        assert!(!check("city", "", ""));
    }
}
