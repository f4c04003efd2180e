//! The payload of a subscription's job.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::events::EventPosition;

/// Reference to the event that a subscription's job is about: the job's payload, as JSON.
///
/// ```
/// use quire_shard::EventRef;
///
/// let event: EventRef = r#"{"store":"air/flights","position":7}"#.parse()?;
/// assert_eq!((event.store.as_str(), event.position.get()), ("air/flights", 7));
/// assert_eq!(event.to_string(), r#"{"store":"air/flights","position":7}"#);
/// # Ok::<(), quire_shard::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRef {
    /// The name of the store.
    pub store: String,
    /// The position in the store.
    pub position: EventPosition,
}

impl fmt::Display for EventRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No character of a store's name needs an escape.
        write!(f, "{{\"store\":\"{}\",\"position\":{}}}", self.store, self.position)
    }
}

impl FromStr for EventRef {
    type Err = Error;

    /// Parses the text that [`EventRef`] displays.
    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (store, rest) = text.strip_prefix("{\"store\":\"")?.split_once("\",\"position\":")?;
            let position = rest.strip_suffix('}')?.parse().ok()?;
            Some(EventRef { store: store.to_owned(), position: EventPosition::new(position) })
        };
        parse().ok_or_else(|| Error::new(ErrorKind::Invalid, "invalid payload of the job: it names no event"))
    }
}
