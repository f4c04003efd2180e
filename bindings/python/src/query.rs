//! Events to append, queries and conditions.

use std::str::FromStr;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use quire::events::{self, EventId, EventPosition, QueryItem};

use crate::pieces::Keep;
use crate::values::Value;

/// An event to append.
#[pyclass(frozen, module = "quire")]
pub(crate) struct NewEvent(pub(crate) events::NewEvent<'static>);

#[pymethods]
impl NewEvent {
    #[new]
    #[pyo3(signature = (event_type, data=None, *, tags=None, metadata=None, id=None))]
    fn new(
        event_type: &str,
        data: Option<&Bound<'_, PyAny>>,
        tags: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        id: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        owned_event(event_type, data, tags, metadata, id).map(NewEvent)
    }
}

/// Returns an event that borrows its parts.
#[inline]
pub(crate) fn event<'a>(
    event_type: &'a str,
    data: &'a Value<'_>,
    tags: &'a [Bound<'_, PyString>],
    metadata: &'a Value<'_>,
    id: Option<&Bound<'_, PyAny>>,
) -> PyResult<events::NewEvent<'a>> {
    let mut event = events::NewEvent::new(event_type).data(data.bytes()).metadata(metadata.bytes());
    for tag in tags {
        event = event.tag(tag.to_str()?);
    }
    match id {
        None => Ok(event),
        Some(id) => Ok(event.id(parsed::<EventId>("id", &id.str()?)?)),
    }
}

/// Returns the items of an iterable of texts.
#[inline]
pub(crate) fn texts<'py>(name: &str, object: Option<&Bound<'py, PyAny>>) -> PyResult<Vec<Bound<'py, PyString>>> {
    let Some(object) = object else { return Ok(Vec::new()) };
    if object.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("{name} must be a list of texts, not one text")));
    }
    object.try_iter()?.map(|item| Ok(item?.cast_into::<PyString>()?)).collect()
}

/// Returns the items of an iterable of texts, owned.
pub(crate) fn strings(name: &str, object: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    texts(name, object)?.iter().map(|text| Ok(text.to_str()?.to_owned())).collect()
}

/// Parses an id or token.
pub(crate) fn parsed<T: FromStr<Err: std::fmt::Display>>(name: &str, text: &Bound<'_, PyString>) -> PyResult<T> {
    let text = text.to_str()?;
    text.parse().map_err(|error| PyValueError::new_err(format!("invalid {name} {text:?}: {error}")))
}

/// A query for events.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Query(pub(crate) events::Query<'static>);

#[pymethods]
impl Query {
    #[new]
    #[pyo3(signature = (*types, tags=None))]
    fn new(types: &Bound<'_, PyTuple>, tags: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let (types, tags) = (strings("types", Some(types.as_any()))?, strings("tags", tags)?);
        if types.is_empty() && tags.is_empty() {
            return Ok(Query(events::Query::all()));
        }
        let item = types.into_iter().fold(QueryItem::new(), QueryItem::event_type);
        Ok(Query(tags.into_iter().fold(item, QueryItem::tag).into()))
    }

    fn __or__(&self, other: &Self) -> Self {
        Query(other.0.items.iter().cloned().fold(self.0.clone(), events::Query::or))
    }
}

/// A condition of an append.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Condition(pub(crate) events::Condition<'static>);

/// The condition that no event after `after` matches.
#[pyfunction]
#[pyo3(signature = (query, after=0))]
pub(crate) fn fail_if_matches(query: &Query, after: u64) -> Condition {
    Condition(events::Condition::fail_if_matches_after(query.0.clone(), EventPosition::new(after)))
}

/// The condition that the last event that matches is at `position`.
#[pyfunction]
pub(crate) fn last_is(query: &Query, position: u64) -> Condition {
    Condition(events::Condition::last_is(query.0.clone(), EventPosition::new(position)))
}

/// Returns one condition or an iterable of conditions as a list.
pub(crate) fn conditions(object: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<events::Condition<'static>>> {
    let Some(object) = object else { return Ok(Vec::new()) };
    if let Ok(one) = object.cast::<Condition>() {
        return Ok(vec![one.get().0.clone()]);
    }
    object.try_iter()?.map(|item| Ok(item?.cast::<Condition>()?.get().0.clone())).collect()
}

/// Returns an iterable of new events as a list.
pub(crate) fn new_events(object: &Bound<'_, PyAny>) -> PyResult<Vec<events::NewEvent<'static>>> {
    object.try_iter()?.map(|item| Ok(item?.cast::<NewEvent>()?.get().0.clone())).collect()
}

/// Returns an event that owns its parts.
pub(crate) fn owned_event(
    event_type: &str,
    data: Option<&Bound<'_, PyAny>>,
    tags: Option<&Bound<'_, PyAny>>,
    metadata: Option<&Bound<'_, PyAny>>,
    id: Option<&Bound<'_, PyAny>>,
) -> PyResult<events::NewEvent<'static>> {
    let (data, metadata) = (Value::of(data)?, Value::of(metadata)?);
    Ok(event(event_type, &data, &texts("tags", tags)?, &metadata, id)?.into_owned())
}

/// Returns the event with its texts borrowed or copied.
pub(crate) fn kept_event<'c, 'o, K: Keep<'c, 'o>>(event: &'c events::NewEvent<'static>) -> events::NewEvent<'o> {
    events::NewEvent {
        id: event.id,
        event_type: K::text(&event.event_type),
        tags: event.tags.iter().map(|tag| K::bytes(tag)).collect(),
        metadata: K::bytes(&event.metadata),
        data: K::bytes(&event.data),
    }
}

/// Returns the condition with its texts borrowed or copied.
pub(crate) fn kept_condition<'c, 'o, K: Keep<'c, 'o>>(
    condition: &'c events::Condition<'static>,
) -> events::Condition<'o> {
    match condition {
        events::Condition::FailIfMatches { query, after } => {
            events::Condition::FailIfMatches { query: kept_query::<K>(query), after: *after }
        }
        events::Condition::LastIs { query, position } => {
            events::Condition::LastIs { query: kept_query::<K>(query), position: *position }
        }
    }
}

fn kept_query<'c, 'o, K: Keep<'c, 'o>>(query: &'c events::Query<'static>) -> events::Query<'o> {
    let item = |item: &'c QueryItem<'static>| QueryItem {
        types: item.types.iter().map(|event_type| K::text(event_type)).collect(),
        tags: item.tags.iter().map(|tag| K::bytes(tag)).collect(),
        only_last_event: item.only_last_event,
    };
    events::Query { items: query.items.iter().map(item).collect() }
}
