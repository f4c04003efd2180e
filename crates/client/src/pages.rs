//! The items of a list, page by page.

use std::collections::VecDeque;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Client, ClientError};

/// Iterates over the items of a list; see [`Client::list`]. It ends after the first error.
#[derive(Debug)]
pub struct PageItems<T> {
    client: Client,
    segments: Vec<String>,
    query: Vec<(String, String)>,
    items: VecDeque<T>,
    /// The cursor of the next page; none after the last page.
    next: Option<Option<String>>,
}

#[derive(Deserialize)]
struct PageReply<T> {
    data: VecDeque<T>,
    next_cursor: Option<String>,
}

impl<T: DeserializeOwned> PageItems<T> {
    pub(crate) fn new(client: Client, segments: &[&str], query: &[(&str, &str)]) -> Self {
        let segments = segments.iter().map(|segment| (*segment).to_owned()).collect();
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        PageItems { client, segments, query, items: VecDeque::new(), next: Some(None) }
    }

    fn read(&mut self, cursor: Option<&str>) -> Result<(), ClientError> {
        let segments: Vec<&str> = self.segments.iter().map(String::as_str).collect();
        let query = self.query.iter().map(|(name, value)| (&**name, &**value));
        let query: Vec<(&str, &str)> = query.chain(cursor.map(|cursor| ("cursor", cursor))).collect();
        let page: PageReply<T> = self.client.get(&segments, &query)?;
        self.items = page.data;
        self.next = page.next_cursor.map(Some);
        Ok(())
    }
}

impl<T: DeserializeOwned> Iterator for PageItems<T> {
    type Item = Result<T, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Some(Ok(item));
            }
            let cursor = self.next.take()?;
            if let Err(error) = self.read(cursor.as_deref()) {
                return Some(Err(error));
            }
        }
    }
}
