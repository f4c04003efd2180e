//! Duplicates in a request. Two entries for one item may contradict each other, and their order has
//! no meaning. As in Kafka, none of them is applied.

use std::collections::HashSet;
use std::hash::Hash;

use kafka_protocol::ResponseError;

use crate::errors::KafkaError;

/// The items that occur more than once.
#[derive(Debug)]
pub(crate) struct Duplicates<K>(HashSet<K>);

impl<K: Eq + Hash> Duplicates<K> {
    pub(crate) fn of(named: impl IntoIterator<Item = K>) -> Self {
        let mut seen = HashSet::new();
        Duplicates(named.into_iter().filter_map(|key| seen.replace(key)).collect())
    }

    /// Accepts an item that occurs once; `name` is its name in the error message.
    ///
    /// # Errors
    /// When it occurs more often.
    pub(crate) fn check(&self, key: &K, name: &str) -> Result<(), KafkaError> {
        if !self.0.contains(key) {
            return Ok(());
        }
        let message = format!("{name} occurs more than once in the request: nothing was changed; name it once");
        Err(KafkaError::new(ResponseError::InvalidRequest, message))
    }
}
