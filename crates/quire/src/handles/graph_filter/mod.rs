//! A filter for a graph's blocks, as clients state it: kinds, tags, and fields of JSON metadata.
//!
//! The graph itself takes metadata as bytes, and accepts any test of a block. All front ends use
//! this one test.

mod metadata;

use serde_json::value::RawValue;

use crate::graph::{Block, BlockFilter};
use metadata::RequestedValue;

/// A filter that blocks match when they match all its fields. An empty filter matches all blocks.
///
/// ```
/// use quire::graph::{ListCursor, ListPlan, Wants};
/// use quire::{Database, GraphFilter, NewBlock};
///
/// # let folder = tempfile::tempdir()?;
/// let database = Database::builder(folder.path()).create(true).open()?;
/// let airports = database.graph("air/routes");
/// airports.put_block(NewBlock::new("EWR", "airport").metadata(r#"{"city": "Newark"}"#))?;
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
    /// The block's kind is one of these; an empty list means any kind.
    pub kinds: Vec<String>,
    /// The block has all of these tags.
    pub tags: Vec<String>,
    /// The block's metadata is JSON and has all of these pairs of a field and its value. The field
    /// is a name, or a pointer (RFC 6901) when it begins with `/`. For a repeated name, the last
    /// value counts.
    ///
    /// * A string's value is its text without quotes. `true`, `false` and `null` are written as
    ///   such.
    /// * Numbers are compared by value, with all digits: `1e2`, `100` and `100.0` are equal. The
    ///   string `"1"` and the number 1 both have the value `1`.
    /// * Objects and arrays are compared as JSON. Spaces and the order of fields make no
    ///   difference, and numbers in them are compared by value.
    pub metadata: Vec<(String, String)>,
}

impl GraphFilter {
    /// Passes the filter to a read of the graph.
    pub fn with<T>(&self, ask: impl FnOnce(BlockFilter<'_>) -> T) -> T {
        let kinds: Vec<&str> = self.kinds.iter().map(String::as_str).collect();
        let tags: Vec<&str> = self.tags.iter().map(String::as_str).collect();
        let asked: Vec<(&str, RequestedValue<'_>)> =
            self.metadata.iter().map(|(field, value)| (field.as_str(), RequestedValue::new(value))).collect();
        let test = |block: &Block<'_>| matches(&asked, block.metadata);
        let test: Option<&(dyn Fn(&Block<'_>) -> bool + Sync)> = Some(&test);
        let (test, test_parses) = (test.filter(|_| !self.metadata.is_empty()), self.metadata.len() as u64);
        ask(BlockFilter { kinds: &kinds, tags: &tags, test, test_parses })
    }

    /// Returns a field that begins with `/` and is an invalid pointer, or `None`. A `~` in it is
    /// not followed by `0` or `1`. No block matches such a field.
    pub fn invalid_pointer(&self) -> Option<&str> {
        let fields = self.metadata.iter().map(|(field, _)| field.as_str());
        fields.filter(|field| field.starts_with('/')).find(|field| !metadata::is_pointer(field))
    }
}

fn matches(asked: &[(&str, RequestedValue<'_>)], metadata: &[u8]) -> bool {
    let Ok(metadata) = serde_json::from_slice::<&RawValue>(metadata) else { return false };
    asked.iter().all(|(field, asked)| metadata::find(metadata, field).is_some_and(|found| asked.is(found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_compared_by_name_by_pointer_as_text_and_as_json() {
        let check = |field: &str, value: &str, metadata: &str| {
            matches(&[(field, RequestedValue::new(value))], metadata.as_bytes())
        };
        assert!(check("city", "New York", r#"{"city":"New York"}"#));
        assert!(!check("city", "New", r#"{"city":"New York"}"#));
        assert!(check("runways", "4", r#"{"runways":4}"#));
        assert!(check("open", "true", r#"{"open":true}"#));
        assert!(check("/at/0/lat", "1.5", r#"{"at":[{"lat":1.5}]}"#));
        assert!(check("/a~1b/~0", "x", r#"{"a/b":{"~":"x"}}"#));
        assert!(!check("/at/00", "1", r#"{"at":[1]}"#));
        assert!(!check("/at/1", "1", r#"{"at":[1]}"#));
        assert!(!check("city", "", "not JSON"));
        assert!(!check("city", "", ""));
    }

    #[test]
    fn an_invalid_pointer_is_reported() {
        let asked = |field: &str| {
            let metadata = vec![("a".to_owned(), String::new()), (field.to_owned(), String::new())];
            GraphFilter { metadata, ..GraphFilter::default() }.invalid_pointer().map(str::to_owned)
        };
        assert_eq!(asked("/a~2"), Some("/a~2".to_owned()));
        assert_eq!(asked("/a~"), Some("/a~".to_owned()));
        assert_eq!(asked("/~0~1/~01"), None);
        assert_eq!(asked("~2"), None, "a name is no pointer");
    }
}
