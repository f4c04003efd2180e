//! Payloads as JSON, by serde. The stored payload is bytes: its readers need not know the type.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::commit::{Message, NewJob};
use crate::consumer::DeliveredRecord;
use crate::events::{EventView, NewEvent};
use crate::handles::{Event, Record};
use crate::jobs::FetchedJob;
use crate::{Error, ErrorKind, Result};

/// Parses a payload that is JSON: of a job, an event or a record.
///
/// ```
/// use quire::{Database, Durability, NewJob, ParseJson};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Mail {
///     order: u32,
/// }
///
/// # let directory = tempfile::tempdir()?;
/// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
/// db.queue("mails").enqueue(NewJob::json(&Mail { order: 17 })?)?;
/// let job = db.queue("mails").fetch("worker-1", 1)?.remove(0);
/// assert_eq!(job.parse::<Mail>()?, Mail { order: 17 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ParseJson {
    /// Returns the payload as a value of type `T`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when the payload is not JSON of this type.
    fn parse<T: DeserializeOwned>(&self) -> Result<T>;
}

impl ParseJson for FetchedJob {
    fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        parse(&self.payload)
    }
}

impl ParseJson for Event {
    fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        parse(&self.data)
    }
}

impl ParseJson for EventView<'_> {
    fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        parse(self.data)
    }
}

impl ParseJson for Record {
    fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        parse(self.value.as_deref().unwrap_or_default())
    }
}

impl ParseJson for DeliveredRecord<'_> {
    fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        parse(self.value.unwrap_or_default())
    }
}

impl NewJob<'static> {
    /// Returns a job whose payload is a value as JSON. [`ParseJson::parse`] reads it back.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when the value has no JSON form, such as a map with keys other than
    /// text.
    pub fn json<T: Serialize + ?Sized>(payload: &T) -> Result<Self> {
        Ok(NewJob::new(written(payload)?))
    }
}

impl Message<'static> {
    /// Returns a message whose value is a value as JSON. [`ParseJson::parse`] reads it back.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when the value has no JSON form, such as a map with keys other than
    /// text.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        Ok(Message::new(written(value)?))
    }
}

/// Events whose data is a value as JSON. [`ParseJson::parse`] reads it back. For an enum of events,
/// see [`typed_event`](crate::typed_event).
///
/// ```
/// use quire::events::{NewEvent, Query};
/// use quire::{JsonEvent, ParseJson};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Order {
///     customer: String,
/// }
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// let order = Order { customer: "ann".to_owned() };
/// db.events("orders").append([NewEvent::json("OrderPlaced", &order)?.tag("order:17")])?;
/// let events = db.events("orders").read(&Query::all(), Default::default())?.events;
/// assert_eq!(events[0].parse::<Order>()?, order);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait JsonEvent<'c>: Sized {
    /// Returns an event of this type whose data is a value as JSON.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when the value has no JSON form, such as a map with keys other than
    /// text.
    fn json<T: Serialize + ?Sized>(event_type: impl Into<Cow<'c, str>>, data: &T) -> Result<Self>;
}

impl<'c> JsonEvent<'c> for NewEvent<'c> {
    fn json<T: Serialize + ?Sized>(event_type: impl Into<Cow<'c, str>>, data: &T) -> Result<Self> {
        Ok(NewEvent::new(event_type).data(written(data)?))
    }
}

fn written<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("the value has no JSON form: {error}")))
}

fn parse<T: DeserializeOwned>(payload: &[u8]) -> Result<T> {
    serde_json::from_slice(payload)
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("the payload is not JSON of this type: {error}")))
}
