//! Event stores behind gRPC. Server and clients are in one process, and each client has its own
//! connection.

use quire::Database;
use quire_grpc::proto::event_condition::{FailIfEventsMatch, Kind};
use quire_grpc::proto::events_client::EventsClient;
use quire_grpc::proto::{AppendEventsRequest, EventCondition, EventQuery, EventQueryItem, NewEvent, ReadEventsRequest};

use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use crate::served::{clients, failed};
use quire_cli::failure::Result;
use quire_cli::latencies::Latencies;

const STORE: &str = "bench";

/// Number of tags to find events by.
const TAGS: u64 = 10_000;

fn events(batch: usize, payload_bytes: usize, op: u64) -> Vec<NewEvent> {
    let event = |index: usize| NewEvent {
        r#type: "Happened".to_owned(),
        tags: vec![format!("name:{op}-{index}").into(), format!("course:{}", op % 1_000).into()],
        data: vec![b'q'; payload_bytes].into(),
        ..NewEvent::default()
    };
    (0..batch).map(event).collect()
}

fn tag(tag: String) -> EventQuery {
    EventQuery { items: vec![EventQueryItem { tags: vec![tag.into()], ..EventQueryItem::default() }] }
}

async fn appends(
    address: String,
    first: u64,
    ops: u64,
    batch: usize,
    bytes: usize,
    is_conditional: bool,
) -> Result<Latencies> {
    let mut client = EventsClient::connect(address).await.map_err(failed)?;
    let mut recorder = Recorder::start_among_others();
    for op in first..first + ops {
        let condition = || {
            let fail = FailIfEventsMatch { query: Some(tag(format!("name:{op}-0"))), after: 0 };
            EventCondition { kind: Some(Kind::FailIfEventsMatch(fail)) }
        };
        let conditions = is_conditional.then(condition).into_iter().collect();
        let request = AppendEventsRequest {
            store: STORE.to_owned(),
            events: events(batch, bytes, op),
            conditions,
            upstream: None,
        };
        client.append(request).await.map_err(failed)?;
        recorder.lap();
    }
    Ok(recorder.into_latencies())
}

/// Appends without a condition.
pub(super) fn append(run: &CaseRun<'_>) -> Result<CaseResult> {
    let (batch, bytes) = (run.case.batch, run.case.payload_bytes);
    clients(run, |_| Ok(()), |address, first, ops| appends(address, first, ops, batch, bytes, false))
}

/// Appends if no event has the same name.
pub(super) fn append_if(run: &CaseRun<'_>) -> Result<CaseResult> {
    let (batch, bytes) = (run.case.batch, run.case.payload_bytes);
    clients(run, |_| Ok(()), |address, first, ops| appends(address, first, ops, batch, bytes, true))
}

/// Fills the store with `count` events. Each tag is on as many of them as the case's batch.
fn fill(run: &CaseRun<'_>, database: &Database, total: u64) -> Result {
    let data = vec![b'q'; run.case.payload_bytes];
    let store = database.events(STORE);
    for first in (0..total).step_by(1_000) {
        let tags: Vec<String> =
            (first..total.min(first + 1_000)).map(|event| format!("course:{}", event % TAGS)).collect();
        store.append(tags.iter().map(|tag| quire::events::NewEvent::new("Filled").tag(tag).data(&data)))?;
    }
    Ok(())
}

async fn reads(address: String, first: u64, ops: u64, found: usize, by_tag: bool) -> Result<Latencies> {
    let mut client = EventsClient::connect(address).await.map_err(failed)?;
    let mut recorder = Recorder::start_among_others();
    for op in first..first + ops {
        let query = by_tag.then(|| tag(format!("course:{}", op * 617 % TAGS)));
        let request = ReadEventsRequest { store: STORE.to_owned(), query, ..ReadEventsRequest::default() };
        let mut pages = client.read(request).await.map_err(failed)?.into_inner();
        let mut count = 0;
        while let Some(page) = pages.message().await.map_err(failed)? {
            count += page.events.len();
        }
        recorder.lap();
        assert_eq!(count, found, "every event was read");
    }
    Ok(recorder.into_latencies())
}

/// Reads the events of a tag.
pub(super) fn read_tag(run: &CaseRun<'_>) -> Result<CaseResult> {
    let found = run.case.batch;
    let total = TAGS * found as u64;
    clients(run, |database| fill(run, database, total), |address, first, ops| reads(address, first, ops, found, true))
}

/// Reads every event.
pub(super) fn read_all(run: &CaseRun<'_>) -> Result<CaseResult> {
    let found = run.case.batch;
    clients(
        run,
        |database| fill(run, database, found as u64),
        |address, first, ops| reads(address, first, ops, found, false),
    )
}
