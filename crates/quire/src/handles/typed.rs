//! Events and saved states from your own types, by serde, as JSON. The database stores bytes, so
//! other readers need not know the types.
//!
//! An enum of events uses serde's adjacent tagging: the variant is the event's type, and the rest
//! is its data:
//!
//! ```
//! use quire::events::{Query, QueryItem};
//! use quire::{Database, Durability, typed_event};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! #[serde(tag = "type", content = "data")]
//! enum Course {
//!     CourseDefined { capacity: u32 },
//!     CourseClosed,
//! }
//!
//! # let directory = tempfile::tempdir()?;
//! let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
//! let store = db.events("school");
//! let defined = typed_event(&Course::CourseDefined { capacity: 15 })?.tag("course:c1");
//! assert_eq!((&*defined.event_type, &*defined.data), ("CourseDefined", &b"{\"capacity\":15}"[..]));
//! store.append([defined, typed_event(&Course::CourseClosed)?.tag("course:c1")])?;
//!
//! let events = store.read(&Query::all(), Default::default())?.events;
//! assert_eq!(events[0].typed::<Course>()?, Course::CourseDefined { capacity: 15 });
//! assert_eq!(events[1].typed::<Course>()?, Course::CourseClosed);
//!
//! let courses = store.projection("capacity").save_after(1);
//! let capacity = courses.typed(QueryItem::new().tag("course:c1"), 0, |capacity: &mut u32, event| {
//!     if let Ok(Course::CourseDefined { capacity: given }) = quire::typed(event) {
//!         *capacity = given;
//!     }
//! })?;
//! assert_eq!(capacity.state, 15);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::events::{EventView, NewEvent, Query};
use crate::handles::events::Event;
use crate::handles::projection::ProjectedState;
use crate::handles::saved_projection::SavedProjection;
use crate::{Error, ErrorKind, Result};

/// Returns an event from a variant of an enum that is tagged adjacently by `type` and `data`: see
/// the example of `typed`.
///
/// ```
/// #[derive(serde::Serialize)]
/// #[serde(tag = "type", content = "data")]
/// enum Account {
///     Registered { name: String },
/// }
/// let event = quire::typed_event(&Account::Registered { name: "ada".to_owned() })?.tag("account:ada");
/// assert_eq!(event.event_type, "Registered");
/// # Ok::<(), quire::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Invalid`] for a value that has no JSON form, or a different tagging.
pub fn typed_event<E: Serialize>(event: &E) -> Result<NewEvent<'static>> {
    let Value::Object(mut tagged) = serde_json::to_value(event).map_err(odd)? else { return Err(untagged()) };
    let Some(Value::String(event_type)) = tagged.remove("type") else { return Err(untagged()) };
    let data = tagged.remove("data");
    if !tagged.is_empty() {
        return Err(untagged());
    }
    let event = NewEvent::new(event_type);
    Ok(match data {
        Some(data) => event.data(serde_json::to_vec(&data).map_err(odd)?),
        None => event,
    })
}

impl Event {
    /// Decodes the event. See [`typed`].
    ///
    /// # Errors
    /// As [`typed`].
    pub fn typed<E: DeserializeOwned>(&self) -> Result<E> {
        parse(&self.event_type, &self.data)
    }
}

/// Decodes an event into a variant of an enum that is tagged adjacently by `type` and `data`.
///
/// ```
/// use quire::events::{NewEvent, QueryItem};
/// use quire::{Database, Durability, Projection};
///
/// #[derive(serde::Deserialize)]
/// #[serde(tag = "type", content = "data")]
/// enum Account {
///     Deposited { amount: u64 },
/// }
///
/// # let directory = tempfile::tempdir()?;
/// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
/// let store = db.events("accounts");
/// store.append([NewEvent::new("Deposited").data(r#"{"amount":7}"#)])?;
/// let balance = store.project(Projection::new(QueryItem::new(), 0, |balance, event| {
///     if let Ok(Account::Deposited { amount }) = quire::typed(event) {
///         *balance += amount;
///     }
/// }))?;
/// assert_eq!(balance.state, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Invalid`] when the enum has no such variant, or the data does not fit the variant.
pub fn typed<E: DeserializeOwned>(event: &EventView<'_>) -> Result<E> {
    parse(event.event_type, event.data)
}

impl SavedProjection {
    /// Folds events like [`SavedProjection::with`], into a state saved as JSON. An unreadable state
    /// is folded again from the start, beginning with `first`.
    ///
    /// # Errors
    /// As [`SavedProjection::with`], and [`ErrorKind::Invalid`] for a state that has no JSON form.
    pub fn typed<'q, S: Serialize + DeserializeOwned + Clone>(
        &self,
        query: impl Into<Query<'q>>,
        first: S,
        fold: impl FnMut(&mut S, &EventView<'_>),
    ) -> Result<ProjectedState<S>> {
        // Fails, for example, for a map whose keys are not text.
        serde_json::to_vec(&first).map_err(odd)?;
        let read = |saved: Option<&[u8]>| match saved {
            None => Some(first.clone()),
            Some(saved) => serde_json::from_slice(saved).ok(),
        };
        // An empty saved state is unreadable, so a state that fails to encode is folded again from
        // the start.
        self.with(query, read, fold, |state| serde_json::to_vec(state).unwrap_or_default())
    }
}

fn parse<E: DeserializeOwned>(event_type: &str, data: &[u8]) -> Result<E> {
    let mut tagged = Map::new();
    tagged.insert("type".to_owned(), Value::from(event_type));
    if !data.is_empty() {
        tagged.insert("data".to_owned(), serde_json::from_slice(data).map_err(odd)?);
    }
    serde_json::from_value(Value::Object(tagged)).map_err(odd)
}

fn odd(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Invalid, format!("an event or a state is not of this type: {error}"))
}

fn untagged() -> Error {
    let message = "the enum must be tagged adjacently: #[serde(tag = \"type\", content = \"data\")]";
    Error::new(ErrorKind::Invalid, message)
}
