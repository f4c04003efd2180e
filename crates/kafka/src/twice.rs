//! What a request names more than once. Two asks of one thing may contradict each other, and their order is not the client's to say:
//! none of them is done, as in Kafka.

use std::collections::HashSet;
use std::hash::Hash;

use kafka_protocol::ResponseError;

use crate::errors::Failure;

/// Those that stand there more than once.
#[derive(Debug)]
pub(crate) struct Twice<K>(HashSet<K>);

impl<K: Eq + Hash> Twice<K> {
    pub(crate) fn of(named: impl IntoIterator<Item = K>) -> Self {
        let mut seen = HashSet::new();
        Twice(named.into_iter().filter_map(|key| seen.replace(key)).collect())
    }

    /// Lets pass what is named once; `name` is how the client is told of it.
    ///
    /// # Errors
    /// When it is named more often.
    pub(crate) fn check(&self, key: &K, name: &str) -> Result<(), Failure> {
        if !self.0.contains(key) {
            return Ok(());
        }
        let message =
            format!("{name} is named more than once in the request, so nothing was done with it; name it once");
        Err(Failure::new(ResponseError::InvalidRequest, message))
    }
}
