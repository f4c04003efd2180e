//! Which blocks of a graph are asked for, in the words of whoever asks: kinds, tags, and fields of metadata that is JSON.
//!
//! The graph itself takes metadata as bytes, and any test of a block. This is the one test that all front ends have.

use std::borrow::Cow;

use serde_json::Value;

use crate::graph::{Block, BlockFilter};

/// Blocks that match all that is said; of a filter that says nothing, all.
///
/// ```
/// use quire::graph::{ListCursor, ListPlan, PutBlock, Wants};
/// use quire::{Database, GraphFilter};
///
/// # let folder = tempfile::tempdir()?;
/// let database = Database::builder(folder.path()).create(true).open()?;
/// let airports = database.graph("air/routes");
/// let newark = PutBlock::new("air/routes", "EWR", "airport");
/// airports.put_block(PutBlock { metadata: br#"{"city": "Newark"}"#, ..newark })?;
///
/// let filter = GraphFilter { metadata: vec![("city".into(), "Newark".into())], ..GraphFilter::default() };
/// let mut names = Vec::new();
/// let snapshot = airports.snapshot()?.expect("it was just made");
/// filter.with(|filter| {
///     snapshot.list(&ListPlan { filter, ..ListPlan::default() }, ListCursor::START, None, |block| {
///         names.extend(block.name.map(str::to_owned));
///         Wants::Continue(())
///     })
/// })?;
/// assert_eq!(names, ["EWR"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphFilter {
    /// Of one of these kinds; none at all means of any.
    pub kinds: Vec<String>,
    /// With all of these tags.
    pub tags: Vec<String>,
    /// With metadata that is JSON and has all of these: a field and its value. The field is a name, or a pointer (RFC 6901) when it
    /// begins with `/`. The value is compared as the string that it is, or as JSON without spaces.
    pub metadata: Vec<(String, String)>,
}

impl GraphFilter {
    /// Gives it to whoever asks the graph.
    pub fn with<T>(&self, ask: impl FnOnce(BlockFilter<'_>) -> T) -> T {
        let kinds: Vec<&str> = self.kinds.iter().map(String::as_str).collect();
        let tags: Vec<&str> = self.tags.iter().map(String::as_str).collect();
        let test = |block: &Block<'_>| self.matches(block.metadata);
        let test: Option<&(dyn Fn(&Block<'_>) -> bool + Sync)> = Some(&test);
        ask(BlockFilter { kinds: &kinds, tags: &tags, test: test.filter(|_| !self.metadata.is_empty()) })
    }

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
            let asked = vec![(field.to_owned(), value.to_owned())];
            GraphFilter { metadata: asked, ..GraphFilter::default() }.matches(metadata.as_bytes())
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
