//! The consistency checks of the DCB specification's conformance suite, in this process and over
//! gRPC.
//!
//! Each is bounded by a number of appends, so that it takes moments; `QUIRE_CHECK_ROUNDS=100` makes
//! it a hundred times as long. Writers draw what they ask from a seed of their own.

use std::net::SocketAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use quire::events::{Condition, EventPosition, NewEvent, Query, QueryItem, ReadOptions};
use quire::{Database, Durability, Outcome, Reason};
use quire_grpc::Server;
use quire_grpc::proto::event_condition::{FailIfEventsMatch, Kind};
use quire_grpc::proto::events_client::EventsClient;
use quire_grpc::proto::{AppendEventsRequest, EventCondition, EventQuery, EventQueryItem, ReadEventsRequest};
use tokio::runtime::Handle;
use tonic::Code;
use tonic::transport::Channel;

const STORE: &str = "checked";

/// An item: types and tags, by number.
type Item = (Vec<u8>, Vec<u8>);

/// What a writer saw when it decided.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    items: Vec<Item>,
    last_match: u64,
}

/// An event as it was found.
#[derive(Debug, Clone)]
struct Found {
    position: u64,
    event_type: u8,
    tags: Vec<u8>,
    data: Vec<u8>,
}

/// A store, however it is reached.
trait Store: Sync {
    /// The matching events from the last one backwards, at most `limit`, and the head.
    fn last(&self, items: &[Item], limit: u64) -> (Vec<Found>, u64);
    /// Appends an event unless something matches the items behind `after`; says whether it did.
    fn append(&self, event_type: u8, tags: &[u8], data: &[u8], items: &[Item], after: u64) -> bool;
}

fn type_name(number: u8) -> String {
    format!("Type{number}")
}

fn number(name: &[u8]) -> u8 {
    std::str::from_utf8(name).expect("text").trim_start_matches(char::is_alphabetic).parse().expect("a number")
}

fn tag_name(number: u8) -> String {
    format!("tag{number}")
}

/// In this process.
struct Embedded<'d>(&'d Database);

fn query(items: &[Item]) -> Query<'static> {
    let item = |(types, tags): &Item| QueryItem {
        types: types.iter().map(|number| type_name(*number).into()).collect(),
        tags: tags.iter().map(|number| tag_name(*number).into_bytes().into()).collect(),
        only_last_event: false,
    };
    if items.is_empty() { Query::all() } else { Query { items: items.iter().map(item).collect() } }
}

impl Store for Embedded<'_> {
    fn last(&self, items: &[Item], limit: u64) -> (Vec<Found>, u64) {
        let options = ReadOptions { backwards: true, limit: Some(limit), ..ReadOptions::default() };
        let read = self.0.events(STORE).read(&query(items), options).expect("readable");
        let found = |event: quire::Event| Found {
            position: event.position.get(),
            event_type: number(event.event_type.as_bytes()),
            tags: event.tags.iter().map(|tag| number(tag)).collect(),
            data: event.data,
        };
        (read.events.into_iter().map(found).collect(), read.head.get())
    }

    fn append(&self, event_type: u8, tags: &[u8], data: &[u8], items: &[Item], after: u64) -> bool {
        let (name, tags) = (type_name(event_type), tags.iter().map(|tag| tag_name(*tag)).collect::<Vec<_>>());
        let event = tags.iter().fold(NewEvent::new(&name).data(data), |event, tag| event.tag(tag));
        let condition = Condition::fail_if_matches_after(query(items), EventPosition::new(after));
        let outcome = self.0.commit(&quire::Commit::new().append_if(STORE, [event], [condition])).expect("no error");
        match outcome {
            Outcome::Committed(_) => true,
            Outcome::Refused(refused) => {
                let is_met = matches!(refused.reason, Reason::Events(quire::events::Refusal::ConditionFailed { .. }));
                assert!(is_met, "{refused}");
                false
            }
        }
    }
}

/// Over a connection.
struct Remote {
    runtime: Handle,
    client: EventsClient<Channel>,
}

fn message(items: &[Item]) -> EventQuery {
    let item = |(types, tags): &Item| EventQueryItem {
        types: types.iter().map(|number| type_name(*number)).collect(),
        tags: tags.iter().map(|number| tag_name(*number).into()).collect(),
        only_last_event: false,
    };
    let items = if items.is_empty() { vec![EventQueryItem::default()] } else { items.iter().map(item).collect() };
    EventQuery { items }
}

impl Store for Remote {
    fn last(&self, items: &[Item], limit: u64) -> (Vec<Found>, u64) {
        let request = ReadEventsRequest {
            store: STORE.to_owned(),
            query: Some(message(items)),
            backwards: true,
            limit: Some(limit),
            ..ReadEventsRequest::default()
        };
        self.runtime.block_on(async {
            let mut pages = self.client.clone().read(request).await.expect("readable").into_inner();
            let (mut all, mut head) = (Vec::new(), 0);
            while let Some(page) = pages.message().await.expect("readable") {
                head = page.head;
                all.extend(page.events.into_iter().map(|event| Found {
                    position: event.position,
                    event_type: number(event.r#type.as_bytes()),
                    tags: event.tags.iter().map(|tag| number(tag)).collect(),
                    data: event.data.to_vec(),
                }));
            }
            (all, head)
        })
    }

    fn append(&self, event_type: u8, tags: &[u8], data: &[u8], items: &[Item], after: u64) -> bool {
        let event = quire_grpc::proto::NewEvent {
            r#type: type_name(event_type),
            tags: tags.iter().map(|tag| tag_name(*tag).into()).collect(),
            data: data.to_vec().into(),
            ..Default::default()
        };
        let fail = FailIfEventsMatch { query: Some(message(items)), after };
        let conditions = vec![EventCondition { kind: Some(Kind::FailIfEventsMatch(fail)) }];
        let request = AppendEventsRequest { store: STORE.to_owned(), events: vec![event], conditions, upstream: None };
        match self.runtime.block_on(self.client.clone().append(request)) {
            Ok(_) => true,
            Err(status) => {
                assert_eq!(status.code(), Code::Aborted, "{status:?}");
                false
            }
        }
    }
}

/// How many times as long as usual.
fn rounds() -> u64 {
    std::env::var("QUIRE_CHECK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// Numbers from a seed (SplitMix64, Steele et al. 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn some(&mut self, at_most: u64, of: u64) -> Vec<u8> {
        let mut numbers: Vec<u8> = (0..self.below(at_most + 1)).map(|_| self.below(of) as u8).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

impl Seen {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.last_match.to_le_bytes().to_vec();
        for (types, tags) in &self.items {
            bytes.push(types.len() as u8);
            bytes.extend(types);
            bytes.push(tags.len() as u8);
            bytes.extend(tags);
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let (last_match, mut rest) = bytes.split_first_chunk::<8>().expect("a position");
        let mut items = Vec::new();
        let list = |rest: &mut &[u8]| {
            let (count, after) = rest.split_first().expect("a count");
            let (numbers, after) = after.split_at(usize::from(*count));
            *rest = after;
            numbers.to_vec()
        };
        while !rest.is_empty() {
            let types = list(&mut rest);
            items.push((types, list(&mut rest)));
        }
        Seen { items, last_match: u64::from_le_bytes(*last_match) }
    }

    fn matches(&self, event: &Found) -> bool {
        let of_item = |(types, tags): &Item| {
            (types.is_empty() || types.contains(&event.event_type)) && tags.iter().all(|tag| event.tags.contains(tag))
        };
        self.items.is_empty() || self.items.iter().any(of_item)
    }
}

/// Writers append what they saw under the condition that nothing came since; afterwards it must be
/// so for every event.
fn nothing_came_between_read_and_append(store: &impl Store) {
    const WRITERS: u64 = 20;
    let appends = 15 * rounds();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut random = Random(writer);
                let mut made = 0;
                while made < appends {
                    let items: Vec<Item> =
                        (0..random.below(4)).map(|_| (random.some(4, 10), random.some(3, 10))).collect();
                    let (last, _) = store.last(&items, 1);
                    let last_match = last.first().map_or(0, |event| event.position);
                    let data = Seen { items: items.clone(), last_match }.encode();
                    let (event_type, tags) = (random.below(10) as u8, random.some(3, 10));
                    // So that others come between also where a turn is long enough for everything.
                    std::thread::yield_now();
                    made += u64::from(store.append(event_type, &tags, &data, &items, last_match));
                }
            });
        }
    });
    let (mut events, head) = store.last(&[], u64::MAX);
    events.reverse();
    assert_eq!((events.len() as u64, head), (WRITERS * appends, WRITERS * appends));
    for (index, event) in events.iter().enumerate() {
        let seen = Seen::decode(&event.data);
        let last_match = events[..index].iter().rev().find(|before| seen.matches(before));
        assert_eq!(last_match.map_or(0, |event| event.position), seen.last_match, "event {}", event.position);
    }
}

/// A reader of the last events never sees one appear in the past.
fn positions_only_grow(store: &impl Store) {
    const WRITERS: u64 = 5;
    let appends = 60 * rounds();
    let is_over = AtomicBool::new(false);
    // The writers wait for the reader, which would otherwise find them gone.
    let begun = Barrier::new(WRITERS as usize + 1);
    let (_, before) = store.last(&[], 1);
    let never = [(vec![11], vec![])];
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last_head = 0;
            begun.wait();
            loop {
                let is_last = is_over.load(Ordering::Acquire);
                let (events, head) = store.last(&[], 6);
                let positions: Vec<u64> = events.iter().map(|event| event.position).collect();
                let wanted: Vec<u64> = (1..=head).rev().take(6).collect();
                assert_eq!(positions, wanted, "the last events are those before the head, without a gap");
                assert!(head >= last_head, "{head} after {last_head}");
                last_head = head;
                if is_last {
                    return head;
                }
            }
        });
        let write = |writer: u64| {
            let (never, begun) = (&never, &begun);
            scope.spawn(move || {
                begun.wait();
                for append in 0..appends {
                    assert!(store.append((append % 10) as u8, &[writer as u8], b"", never, 0), "unrelated");
                }
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        writers.into_iter().for_each(|writer| writer.join().expect("it writes"));
        is_over.store(true, Ordering::Release);
        assert_eq!(reader.join().expect("it reads"), before + WRITERS * appends);
    });
}

/// Writers whose conditions have nothing to do with each other are never refused.
fn unrelated_writers_are_not_refused(store: &impl Store) {
    std::thread::scope(|scope| {
        for writer in 20..40 {
            scope.spawn(move || {
                let mut seen = 0;
                for _ in 0..15 * rounds() {
                    let own = [(vec![], vec![writer])];
                    assert!(store.append(0, &[writer], b"", &own, seen), "nobody else writes what it asks");
                    seen = store.last(&own, 1).0[0].position;
                }
            });
        }
    });
}

fn with_database(check: impl Fn(&Database)) {
    for durability in [Durability::Os, Durability::Sync] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let open =
            || Database::builder(folder.path()).durability(durability).segment_bytes(64 << 10).open().expect("opened");
        let database = open();
        check(&database);
        let head = database.events(STORE).head().expect("readable");
        drop(database);
        assert_eq!(open().events(STORE).head().expect("readable"), head, "as many after a restart");
    }
}

fn over_grpc(check: impl Fn(&Remote)) {
    with_database(|database| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = runtime.block_on(Server::bind(database.clone(), any.into())).expect("a port");
        let address = format!("http://{}", server.address());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = runtime.spawn(server.run(async { stopped.await.expect("the test stops it") }));
        let client = runtime.block_on(EventsClient::connect(address)).expect("it listens");
        check(&Remote { runtime: runtime.handle().clone(), client: client.max_decoding_message_size(usize::MAX) });
        stop.send(()).expect("it runs");
        runtime.block_on(serving).expect("no panic").expect("it ends well");
    });
}

#[test]
fn no_matching_event_lies_between_the_read_and_the_append_of_a_writer() {
    with_database(|database| nothing_came_between_read_and_append(&Embedded(database)));
}

#[test]
fn no_matching_event_precedes_a_conditional_append_over_grpc() {
    over_grpc(nothing_came_between_read_and_append);
}

#[test]
fn no_event_appears_in_the_past() {
    with_database(|database| positions_only_grow(&Embedded(database)));
}

#[test]
fn no_event_appears_in_the_past_over_grpc() {
    over_grpc(positions_only_grow);
}

#[test]
fn a_request_for_no_object_of_another_tenant_is_not_refused() {
    with_database(|database| unrelated_writers_are_not_refused(&Embedded(database)));
}

#[test]
fn a_request_for_no_object_of_another_tenant_is_not_refused_over_grpc() {
    over_grpc(unrelated_writers_are_not_refused);
}
