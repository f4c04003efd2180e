//! Event stores and subscriptions.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList};
use quire::events::{self, EventPosition, ReadOptions};
use quire_client::Client;
use quire_client::reply::PartReply;
use quire_client::request::AppendPart;

use crate::asyncio;
use crate::errors::{self, CallError};
use crate::held::Held;
use crate::home::Home;
use crate::query::{Query, conditions, event, new_events, texts};
use crate::replies::AppendResult;
use crate::served::events::{EventRange, ServedFeed};
use crate::values::{self, Value, duration};
use crate::{served, wait};

/// How much a subscription reads at once.
const READ_EVENTS_MAX: usize = 1_024;
const READ_BYTES: usize = 1 << 20;

/// An event of a store.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct Event {
    position: u64,
    id: String,
    time: f64,
    #[pyo3(name = "type")]
    event_type: String,
    tags: Vec<String>,
    metadata: Py<PyBytes>,
    data: Py<PyBytes>,
}

#[pymethods]
impl Event {
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        values::text(self.data.bind(py))
    }

    fn json(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        values::json(self.data.bind(py))
    }

    fn __repr__(&self) -> String {
        format!("Event(position={}, type={:?}, tags={:?})", self.position, self.event_type, self.tags)
    }
}

impl Event {
    fn new(py: Python<'_>, event: quire::Event) -> PyResult<Py<Event>> {
        let tags = event.tags.iter().map(|tag| String::from_utf8_lossy(tag).into_owned()).collect();
        let event = Event {
            position: event.position.get(),
            id: event.id.to_string(),
            time: values::seconds(event.time),
            event_type: event.event_type,
            tags,
            metadata: PyBytes::new(py, &event.metadata).unbind(),
            data: PyBytes::new(py, &event.data).unbind(),
        };
        Py::new(py, event)
    }
}

/// Events that a read returned, and the position of the last event of the store.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct Events {
    events: Py<PyList>,
    head: u64,
}

#[pymethods]
impl Events {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.events.bind(py).len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.events.bind(py).try_iter()
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.events.bind(index.py()).as_any().get_item(index)
    }
}

/// An event store.
#[pyclass(frozen, module = "quire")]
pub(crate) struct EventStore {
    home: Home,
    #[pyo3(get)]
    name: String,
}

impl EventStore {
    pub(crate) fn new(home: Home, name: String) -> Self {
        EventStore { home, name }
    }
}

/// Commits an append to a server.
fn append_served(client: &Client, append: AppendPart<'static>) -> Result<AppendResult, CallError> {
    match served::commit_part(client, append)? {
        Some(PartReply::Appended { first, last, duplicate }) => Ok(AppendResult { first, last, duplicate }),
        _ => Ok(AppendResult { first: None, last: None, duplicate: false }),
    }
}

#[pymethods]
impl EventStore {
    /// Appends one event, and returns its position. Nothing is copied before it is in the log.
    #[pyo3(signature = (event_type, data=None, *, tags=None, metadata=None, id=None, conditions=None))]
    fn append(
        &self,
        py: Python<'_>,
        event_type: &str,
        data: Option<&Bound<'_, PyAny>>,
        tags: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        id: Option<&Bound<'_, PyAny>>,
        conditions: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let (data, metadata, tags) = (Value::of(data)?, Value::of(metadata)?, texts("tags", tags)?);
        let event = event(event_type, &data, &tags, &metadata, id)?;
        let conditions = self::conditions(conditions)?;
        match &self.home {
            Home::Embedded(database) => {
                let appended =
                    database.call(py, |database| database.events(&self.name).append_if([event], conditions))?;
                Ok(appended.last.map_or(0, EventPosition::get))
            }
            Home::Served(client) => {
                let append = AppendPart::new(self.name.clone()).event(served::event(&event));
                let append = conditions.iter().map(served::condition).fold(append, AppendPart::condition);
                Ok(client.call(py, move |client| append_served(client, append))?.last.unwrap_or(0))
            }
        }
    }

    #[pyo3(signature = (events, *, conditions=None))]
    fn append_all(
        &self,
        py: Python<'_>,
        events: &Bound<'_, PyAny>,
        conditions: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<AppendResult> {
        let (events, conditions) = (new_events(events)?, self::conditions(conditions)?);
        match &self.home {
            Home::Embedded(database) => {
                let appended = database.call(py, |database| database.events(&self.name).append_if(events, conditions));
                appended.map(AppendResult::new)
            }
            Home::Served(client) => {
                let append = AppendPart::new(self.name.clone());
                let append = events.iter().map(served::event).fold(append, AppendPart::event);
                let append = conditions.iter().map(served::condition).fold(append, AppendPart::condition);
                client.call(py, move |client| append_served(client, append))
            }
        }
    }

    #[pyo3(signature = (query=None, *, after=0, before=None, limit=None, backwards=false))]
    fn read(
        &self,
        py: Python<'_>,
        query: Option<&Query>,
        after: u64,
        before: Option<u64>,
        limit: Option<u64>,
        backwards: bool,
    ) -> PyResult<Events> {
        let query = query_of(query);
        let quire::Events { events, head } = match &self.home {
            Home::Embedded(database) => {
                let (after, before) = (EventPosition::new(after), before.map(EventPosition::new));
                let options = ReadOptions { after, before, limit, backwards, ..ReadOptions::default() };
                database.call(py, |database| database.events(&self.name).read(&query, options))?
            }
            Home::Served(client) => {
                let (store, range) = (self.name.clone(), EventRange { after, before, limit, backwards });
                client.call(py, move |client| served::events::read(client, &store, &query, &range))?
            }
        };
        let events = events.into_iter().map(|event| Event::new(py, event)).collect::<PyResult<Vec<_>>>()?;
        Ok(Events { events: PyList::new(py, events)?.unbind(), head: head.get() })
    }

    fn head(&self, py: Python<'_>) -> PyResult<u64> {
        match &self.home {
            Home::Embedded(database) => database.call(py, |database| Ok(database.events(&self.name).head()?.get())),
            Home::Served(client) => {
                let store = self.name.clone();
                client.call(py, move |client| served::events::head(client, &store))
            }
        }
    }

    #[pyo3(signature = (query=None, *, after=0))]
    fn subscribe(&self, py: Python<'_>, query: Option<&Query>, after: u64) -> PyResult<Subscription> {
        let query = query_of(query);
        let feed = match &self.home {
            Home::Embedded(database) => database.call(py, |database| {
                let subscription = database.events(&self.name).subscribe(query, EventPosition::new(after))?;
                Ok(Feed::Embedded(Mutex::new(EmbeddedFeed { database, subscription, events: VecDeque::new() })))
            })?,
            Home::Served(client) => {
                let store = self.name.clone();
                let begin = move |client: &Client| ServedFeed::new(client.clone(), store, &query, after);
                Feed::Served(client.call(py, begin)?)
            }
        };
        Ok(Subscription(Arc::new(Held::new(feed))))
    }
}

fn query_of(query: Option<&Query>) -> events::Query<'static> {
    query.map_or_else(events::Query::all, |query| query.0.clone())
}

/// The source of a subscription.
enum Feed {
    Embedded(Mutex<EmbeddedFeed>),
    Served(ServedFeed),
}

/// A subscription to an embedded database, and the events that it has read ahead.
struct EmbeddedFeed {
    database: quire::Database,
    subscription: quire::Subscription,
    events: VecDeque<quire::Event>,
}

impl EmbeddedFeed {
    /// Reads ahead when no event is left. Returns the publication to wait for when there is none.
    fn fill(&mut self) -> quire::Result<Option<quire::NextPublication>> {
        while self.events.is_empty() {
            let events = &mut self.events;
            let read =
                self.subscription.visit_next(READ_EVENTS_MAX, READ_BYTES, |event| events.push_back(event.into()))?;
            if read.events == 0 && read.is_caught_up {
                return Ok(Some(self.subscription.next_publication()));
            }
        }
        Ok(None)
    }
}

/// The events of a store that match a query: those of now, then those to come.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Subscription(Arc<Held<Feed>>);

fn lock(feed: &Mutex<EmbeddedFeed>) -> MutexGuard<'_, EmbeddedFeed> {
    feed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next event for a task; `None` in the child of a fork.
async fn next(held: Arc<Held<Feed>>) -> Result<Option<quire::Event>, CallError> {
    loop {
        let publication = match held.get() {
            Err(_) => return Ok(None),
            Ok(Feed::Served(feed)) => return poll_fn(|context| feed.poll(context)).await.map(Some),
            Ok(Feed::Embedded(feed)) => {
                let mut feed = lock(feed);
                match feed.fill()? {
                    None => return Ok(feed.events.pop_front()),
                    Some(publication) => publication,
                }
            }
        };
        publication.await?;
    }
}

#[pymethods]
impl Subscription {
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Py<Event>>> {
        let timeout = timeout.map(|timeout| duration("timeout", timeout)).transpose()?;
        let found = match self.0.get()? {
            Feed::Embedded(feed) => {
                let database = py.detach(|| lock(feed).database.clone());
                let step = |at_most: Duration| {
                    let mut feed = lock(feed);
                    if feed.events.is_empty() {
                        let read = feed.subscription.next(at_most)?;
                        feed.events.extend(read);
                    }
                    Ok(feed.events.pop_front())
                };
                let found = wait::until(py, &database, timeout, step);
                py.detach(|| drop(database));
                found?
            }
            Feed::Served(feed) => wait::until_served(py, timeout, |at_most| feed.next(at_most))?,
        };
        found.map(|event| Event::new(py, event)).transpose()
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<Event>> {
        self.next(py, None)?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    fn __aiter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __anext__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.0.get()?;
        let event = next(Arc::clone(&self.0));
        asyncio::spawn(py, event, |py, event: Option<quire::Event>| match event {
            Some(event) => Ok(Event::new(py, event)?.into_any()),
            None => Err(errors::forked()),
        })
    }
}
