//! Which blocks a request asks for.

use std::borrow::Cow;

use quire::graph::{Block, BlockFilter};
use serde_json::Value;

use crate::proto::{GraphBlockFilter, MetadataField};

/// Gives the filter to whoever asks the graph.
pub(super) fn with<T>(filter: &GraphBlockFilter, ask: impl FnOnce(BlockFilter<'_>) -> T) -> T {
    let kinds: Vec<&str> = filter.kinds.iter().map(String::as_str).collect();
    let tags: Vec<&str> = filter.tags.iter().map(String::as_str).collect();
    let test = |block: &Block<'_>| matches(&filter.metadata, block.metadata);
    let test: Option<&(dyn Fn(&Block<'_>) -> bool + Sync)> = Some(&test);
    ask(BlockFilter { kinds: &kinds, tags: &tags, test: test.filter(|_| !filter.metadata.is_empty()) })
}

/// Whether metadata is JSON with all the fields.
fn matches(asked: &[MetadataField], metadata: &[u8]) -> bool {
    let Ok(metadata) = serde_json::from_slice::<Value>(metadata) else { return false };
    asked.iter().all(|MetadataField { field, value }| {
        let found = if field.starts_with('/') { metadata.pointer(field) } else { metadata.get(field) };
        found.is_some_and(|found| {
            let text = found.as_str().map_or_else(|| Cow::Owned(found.to_string()), Cow::Borrowed);
            text == value.as_str()
        })
    })
}
