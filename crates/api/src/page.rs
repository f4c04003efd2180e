//! The envelope of a list: its items, and where the next page begins.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PageOf{T}")]
pub struct ListPage<T, F = NoFacts> {
    /// The items.
    pub data: Vec<T>,
    /// The `cursor` of the next page; `null` on the last one.
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    pub has_more: bool,
    /// Facts about the page, such as the position that it was read at.
    #[serde(flatten)]
    pub facts: F,
}

/// A page without facts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NoFacts {}

impl<T> ListPage<T> {
    /// A whole list, on one page.
    pub fn whole(data: Vec<T>) -> Self {
        ListPage::of(data, None, NoFacts {})
    }
}

impl<T, F> ListPage<T, F> {
    /// A page with facts. The next page begins at `next`.
    pub fn of(data: Vec<T>, next: Option<String>, facts: F) -> Self {
        ListPage { data, has_more: next.is_some(), next_cursor: next, facts }
    }
}
