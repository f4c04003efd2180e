//! The service `Events`.

use std::sync::Arc;

use quire_grpc::WorkerStream;
use quire_grpc::proto::event_condition::{FailIfEventsMatch, Kind, LastIs};
use quire_grpc::proto::events_client::EventsClient;
use quire_grpc::proto::forget_events_request::Which;
use quire_grpc::proto::{
    AppendEventsRequest, AppendEventsResponse, DropSubscriptionRequest, Event, EventCondition, EventQuery,
    EventQueryItem, EventUpstream, FetchJobsRequest, ForgetEventsRequest, HeadEventsRequest, ListSubscriptionsRequest,
    NamedSubscription, NewEvent, PutSubscriptionRequest, ReadEventsRequest, SetEventRetentionRequest,
    SubscribeEventsRequest, UpstreamEventsRequest, WorkRequest, work_request, work_response,
};
use tokio_stream::StreamExt;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::served::{Served, told};

const STORE: &str = "school/courses";

fn event(event_type: &str, tags: &[&str], data: &[u8]) -> NewEvent {
    let tags = tags.iter().map(|tag| tag.as_bytes().to_vec().into()).collect();
    NewEvent { r#type: event_type.to_owned(), tags, data: data.to_vec().into(), ..NewEvent::default() }
}

fn query(types: &[&str], tags: &[&str]) -> EventQuery {
    let types = types.iter().map(|name| (*name).to_owned()).collect();
    let tags = tags.iter().map(|tag| tag.as_bytes().to_vec().into()).collect();
    EventQuery { items: vec![EventQueryItem { types, tags, only_last_event: false }] }
}

fn none_matches(query: EventQuery, after: u64) -> EventCondition {
    EventCondition { kind: Some(Kind::FailIfEventsMatch(FailIfEventsMatch { query: Some(query), after })) }
}

async fn append(
    client: &mut EventsClient<Channel>,
    events: Vec<NewEvent>,
    conditions: Vec<EventCondition>,
) -> Result<AppendEventsResponse, Status> {
    let request = AppendEventsRequest { store: STORE.to_owned(), events, conditions, upstream: None };
    client.append(request).await.map(tonic::Response::into_inner)
}

/// The events of every page, and their common head.
async fn read(client: &mut EventsClient<Channel>, request: ReadEventsRequest) -> Result<(Vec<Event>, u64), Status> {
    let mut pages = client.read(ReadEventsRequest { store: STORE.to_owned(), ..request }).await?.into_inner();
    let (mut events, mut head) = (Vec::new(), None);
    while let Some(page) = pages.next().await.transpose()? {
        assert_eq!(*head.get_or_insert(page.head), page.head);
        events.extend(page.events);
    }
    Ok((events, head.expect("there is at least one page")))
}

fn positions(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.position).collect()
}

#[tokio::test]
async fn an_event_comes_back_to_the_byte_also_after_a_restart() {
    let served = Served::new().await;
    let mut client = served.events().await;
    let given = NewEvent {
        id: vec![7; 16].into(),
        r#type: "Defined".to_owned(),
        tags: vec![b"course:1".to_vec().into(), vec![0xff, 0x01].into()],
        data: vec![0, 0xff, 1].into(),
        metadata: br#"{"user": "u1"}"#.to_vec().into(),
    };
    let first = append(&mut client, vec![given.clone()], vec![]).await.expect("accepted");
    assert_eq!(first, AppendEventsResponse { first: Some(1), last: Some(1), duplicate: false });
    let again = append(&mut client, vec![given.clone()], vec![]).await.expect("accepted");
    assert_eq!(again, AppendEventsResponse { duplicate: true, ..first });

    let served = served.again().await;
    let mut client = served.events().await;
    let (events, head) = read(&mut client, ReadEventsRequest::default()).await.expect("read");
    assert_eq!((events.len(), head), (1, 1));
    let Event { position, id, r#type, tags, data, metadata, time_us } = events.into_iter().next().expect("one");
    assert_eq!(NewEvent { id, r#type, tags, data, metadata }, given);
    assert!(position == 1 && time_us > 0);
    let head = client.head(HeadEventsRequest { store: STORE.to_owned() }).await.expect("read").into_inner();
    assert_eq!(head.head, 1);
    served.stop().await;
}

#[tokio::test]
async fn a_source_is_read_once_and_its_position_is_returned() {
    let served = Served::new().await;
    let mut client = served.events().await;
    let read = |events: Vec<NewEvent>, position| AppendEventsRequest {
        store: STORE.to_owned(),
        events,
        upstream: Some(EventUpstream { source: "orders/0".to_owned(), position }),
        ..AppendEventsRequest::default()
    };
    client.append(read(vec![event("Taken", &[], b"")], 7)).await.expect("accepted");
    let refused = client.append(read(vec![event("Taken", &[], b"")], 7)).await.expect_err("it was read before");
    assert_eq!((told(&refused).0, told(&refused).1.as_str()), (Code::AlreadyExists, "UPSTREAM_BEHIND"));
    client.append(read(vec![], 8)).await.expect("accepted");
    let served = served.again().await;
    let mut client = served.events().await;
    let mut upstream = async |source: &str| {
        let request = UpstreamEventsRequest { store: STORE.to_owned(), source: source.to_owned() };
        client.upstream(request).await.expect("read").into_inner().position
    };
    assert_eq!((upstream("orders/0").await, upstream("orders/1").await), (Some(8), None));
    let head = client.head(HeadEventsRequest { store: STORE.to_owned() }).await.expect("read").into_inner();
    assert_eq!(head.head, 1);
    served.stop().await;
}

#[tokio::test]
async fn refusals_carry_code_reason_and_facts() {
    let served = Served::new().await;
    let mut client = served.events().await;
    append(&mut client, vec![event("Defined", &["course:1"], b"")], vec![]).await.expect("accepted");
    let mut check = async |events, conditions, code, reason: &str, facts: &[(&str, &str)]| {
        let refused = append(&mut client, events, conditions).await.expect_err(reason);
        let (found_code, found_reason, found) = told(&refused);
        assert_eq!((found_code, found_reason.as_str()), (code, reason), "{refused:?}");
        for (name, value) in facts {
            assert_eq!(found.get(*name).map(String::as_str), Some(*value), "{found:?}");
        }
    };
    let defined = || query(&["Defined"], &["course:1"]);
    let new = || vec![event("Defined", &["course:1"], b"")];
    let conditions = vec![none_matches(query(&["Left"], &[]), 0), none_matches(defined(), 0)];
    let met = [("condition", "1"), ("position", "1")];
    check(new(), conditions, Code::Aborted, "CONDITION_FAILED", &met).await;
    let last_is = LastIs { query: Some(defined()), position: 7 };
    let last_is = EventCondition { kind: Some(Kind::LastIs(last_is)) };
    check(new(), vec![last_is], Code::Aborted, "CONDITION_FAILED", &[("position", "1")]).await;
    let ahead = vec![none_matches(defined(), 9)];
    check(new(), ahead, Code::FailedPrecondition, "AFTER_AHEAD", &[("after", "9"), ("head", "1")]).await;
    check(vec![], vec![], Code::InvalidArgument, "NOTHING_ASKED", &[]).await;
    check(vec![event("", &[], b"")], vec![], Code::InvalidArgument, "INVALID_EVENT", &[("event", "0")]).await;
    let no_items = vec![none_matches(EventQuery::default(), 0)];
    check(new(), no_items, Code::InvalidArgument, "INVALID_QUERY", &[("condition", "0")]).await;
    check(new(), vec![EventCondition::default()], Code::InvalidArgument, "INVALID", &[]).await;
    let short_id = NewEvent { id: vec![1; 15].into(), ..event("E", &[], b"") };
    check(vec![short_id], vec![], Code::InvalidArgument, "INVALID", &[]).await;
    append(&mut client, new(), vec![none_matches(defined(), 1)]).await.expect("what was seen is no conflict");
    served.stop().await;
}

#[tokio::test]
async fn a_condition_and_a_read_that_need_too_many_steps_are_refused() {
    let served = Served::over(|builder| builder.request_steps_max(1_000)).await;
    let mut client = served.events().await;
    let tag = |number: usize| if number.is_multiple_of(2) { "even" } else { "odd" };
    for _ in 0..3 {
        let events = (0..1_000).map(|number| event("Counted", &[tag(number)], b"")).collect();
        append(&mut client, events, vec![]).await.expect("accepted");
    }
    let both = || query(&[], &["even", "odd"]);
    let conditions = vec![none_matches(both(), 2_900), none_matches(both(), 0)];
    let refused = append(&mut client, vec![event("Counted", &[], b"")], conditions).await.expect_err("too costly");
    let (code, reason, facts) = told(&refused);
    assert_eq!((code, reason.as_str()), (Code::ResourceExhausted, "TOO_COSTLY"), "{refused:?}");
    assert_eq!((facts["condition"].as_str(), facts["most"].as_str()), ("1", "1000"));
    // A refused read names where the next one continues.
    for backwards in [false, true] {
        let mut request = ReadEventsRequest { query: Some(both()), backwards, ..ReadEventsRequest::default() };
        let mut refused = 0;
        let events = loop {
            let status = match read(&mut client, request.clone()).await {
                Ok((events, _)) => break events,
                Err(status) => status,
            };
            let (_, reason, facts) = told(&status);
            assert_eq!(reason, "TOO_COSTLY", "{status:?}");
            if backwards {
                let up_to = facts["up_to"].parse().expect("a position");
                assert!(request.up_to.replace(up_to).is_none_or(|before| up_to < before), "{status:?}");
            } else {
                let after = facts["after"].parse().expect("a position");
                assert!(std::mem::replace(&mut request.after, after) < after, "{status:?}");
            }
            refused += 1;
        };
        assert_eq!((events.len(), refused > 1), (0, true), "{refused} reads were refused");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_query_that_cannot_be_asked_is_an_error_and_not_an_empty_stream() {
    let served = Served::new().await;
    let mut client = served.events().await;
    let no_items = Some(EventQuery::default());
    let refused =
        read(&mut client, ReadEventsRequest { query: no_items.clone(), ..ReadEventsRequest::default() }).await;
    assert_eq!(told(&refused.expect_err("no items")).1, "INVALID_QUERY");
    let subscribe = SubscribeEventsRequest { store: STORE.to_owned(), query: no_items, after: 0 };
    assert_eq!(told(&client.subscribe(subscribe).await.expect_err("no items")).1, "INVALID");
    let ahead = SubscribeEventsRequest { store: STORE.to_owned(), query: None, after: 1 };
    assert_eq!(told(&client.subscribe(ahead).await.expect_err("ahead of the store")).1, "INVALID");
    let (events, head) = read(&mut client, ReadEventsRequest::default()).await.expect("a store to come");
    assert_eq!((events.len(), head), (0, 0));
    served.stop().await;
}

#[tokio::test]
async fn a_long_read_comes_in_pages_in_both_directions_with_every_option() {
    let served = Served::new().await;
    let mut client = served.events().await;
    let count = 5_000;
    for batch in 0..5 {
        let of_batch = (0..1_000).map(|index| match (batch * 1_000 + index) % 2 {
            0 => event("Even", &["course:1"], &[0; 100]),
            _ => event("Odd", &["course:1"], &[0; 100]),
        });
        append(&mut client, of_batch.collect(), vec![]).await.expect("accepted");
    }
    let all = ReadEventsRequest::default();
    let (events, head) = read(&mut client, all.clone()).await.expect("read");
    assert_eq!((positions(&events), head), ((1..=count).collect(), count));
    let (events, _) = read(&mut client, ReadEventsRequest { backwards: true, ..all.clone() }).await.expect("read");
    assert_eq!(positions(&events), (1..=count).rev().collect::<Vec<_>>());
    let part = ReadEventsRequest { after: 10, up_to: Some(4_000), limit: Some(3_000), ..all.clone() };
    let (events, _) = read(&mut client, part).await.expect("read");
    assert_eq!(positions(&events), (11..=3_010).collect::<Vec<_>>());
    let even = ReadEventsRequest { query: Some(query(&["Even"], &["course:1"])), ..all.clone() };
    let (events, _) = read(&mut client, even).await.expect("read");
    assert_eq!(positions(&events), (1..=count).step_by(2).collect::<Vec<_>>());
    let mut last_odd = query(&["Odd"], &[]);
    last_odd.items[0].only_last_event = true;
    last_odd.items.extend(query(&["Even"], &[]).items);
    let wanted: Vec<u64> = (1..=count).filter(|position| position % 2 == 1 || *position == count).rev().collect();
    let both = ReadEventsRequest { query: Some(last_odd), backwards: true, ..all };
    let (events, _) = read(&mut client, both).await.expect("read");
    assert_eq!(positions(&events), wanted, "an item's last event is one event, whatever the pages");
    served.stop().await;
}

#[tokio::test]
async fn a_subscription_misses_and_repeats_nothing_between_past_and_new_events() {
    const WRITERS: u64 = 4;
    const APPENDS: u64 = 300;
    let served = Arc::new(Served::new().await);
    let write = async |served: Arc<Served>, writer: u64| {
        let mut client = served.events().await;
        for number in 0..APPENDS {
            let wanted = event("Wanted", &["a"], &[writer.to_le_bytes(), number.to_le_bytes()].concat());
            append(&mut client, vec![wanted, event("Other", &["a"], b"")], vec![]).await.expect("accepted");
        }
    };
    let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(Arc::clone(&served), writer))).collect();
    let follow = async |served: Arc<Served>| {
        let mut client = served.events().await;
        let (mut found, mut after, mut broken) = (Vec::new(), 0, 0);
        while (found.len() as u64) < WRITERS * APPENDS {
            let subscribe =
                SubscribeEventsRequest { store: STORE.to_owned(), query: Some(query(&["Wanted"], &["a"])), after };
            let mut stream = client.subscribe(subscribe).await.expect("accepted").into_inner();
            // The connection breaks occasionally, and the client resumes.
            for _ in 0..=broken {
                let page = stream.next().await.expect("it goes on").expect("no error");
                after = page.events.last().map_or(after, |event| event.position).max(page.caught_up.unwrap_or(0));
                found.extend(page.events);
                if found.len() as u64 == WRITERS * APPENDS {
                    break;
                }
            }
            broken += 1;
        }
        found
    };
    let followers: Vec<_> = (0..3).map(|_| tokio::spawn(follow(Arc::clone(&served)))).collect();
    for writer in writers {
        writer.await.expect("it writes");
    }
    for follower in followers {
        let found = follower.await.expect("it follows");
        assert!(positions(&found).windows(2).all(|pair| pair[0] < pair[1]), "in order, none twice");
        let mut told: Vec<_> = found.iter().map(|event| event.data.clone()).collect();
        told.sort();
        told.dedup();
        assert_eq!(told.len() as u64, WRITERS * APPENDS, "none left out");
    }
}

#[tokio::test]
async fn a_named_subscription_delivers_its_events_with_jobs_also_after_a_restart() {
    let served = Served::new().await;
    let mut client = served.events().await;
    let events = vec![event("Joined", &["student:1"], b"one"), event("Left", &[], b""), event("Joined", &[], b"two")];
    append(&mut client, events, vec![]).await.expect("accepted");
    let subscription = NamedSubscription {
        name: "mailer".to_owned(),
        query: Some(query(&["Joined"], &[])),
        attempts_max: Some(3),
        group_by: "student:".to_owned(),
        ..NamedSubscription::default()
    };
    let put = |subscription| PutSubscriptionRequest { store: STORE.to_owned(), subscription, after: None };
    client.put_subscription(put(Some(subscription.clone()))).await.expect("put");
    let none = client.put_subscription(put(None)).await.expect_err("there is nothing to put");
    assert_eq!(told(&none).1, "INVALID");
    let nameless = NamedSubscription { name: String::new(), ..subscription.clone() };
    let nameless = client.put_subscription(put(Some(nameless))).await.expect_err("it has no name");
    assert_eq!((told(&nameless).0, told(&nameless).1.as_str()), (Code::InvalidArgument, "INVALID_NAME"));

    let served = served.again().await;
    let (mut client, mut jobs) = (served.events().await, served.jobs().await);
    let fetch = |count| FetchJobsRequest {
        queues: vec!["mailer".to_owned()],
        count,
        wait_us: 20_000_000,
        with_events: true,
        ..FetchJobsRequest::default()
    };
    let one = jobs.fetch(fetch(1)).await.expect("fetched").into_inner().jobs.remove(0);
    assert_eq!((one.group.as_str(), one.kind.as_str(), one.attempts_max), ("student:1", "Joined", 3));
    let delivered = one.event.expect("it comes with the job");
    assert_eq!((delivered.position, &delivered.data[..], &delivered.tags[0][..]), (1, &b"one"[..], &b"student:1"[..]));
    let first = WorkRequest {
        subscribe: Some(work_request::Subscription {
            queues: vec!["mailer".to_owned()],
            with_events: true,
            ..work_request::Subscription::default()
        }),
        credits: 10,
        ..WorkRequest::default()
    };
    let mut member = WorkerStream::begin(&mut jobs, first).await.expect("begun");
    let Ok(Some(work_response::Kind::Jobs(pushed))) = member.receive().await else { panic!("a job comes first") };
    assert_eq!(pushed.jobs[0].event.as_ref().expect("it comes with the job").position, 3);

    let list = ListSubscriptionsRequest { store: STORE.to_owned() };
    let listed = client.list_subscriptions(list.clone()).await.expect("listed").into_inner().subscriptions;
    assert_eq!((listed.len(), listed[0].position, listed[0].attempts_max), (1, 3, Some(3)));
    assert_eq!(listed[0].query, subscription.query);
    let drop = DropSubscriptionRequest { name: "mailer".to_owned() };
    client.drop_subscription(drop.clone()).await.expect("dropped");
    let unknown = client.drop_subscription(drop).await.expect_err("it is gone");
    assert_eq!((told(&unknown).0, told(&unknown).1.as_str()), (Code::NotFound, "UNKNOWN_SUBSCRIPTION"));
    assert!(client.list_subscriptions(list).await.expect("listed").into_inner().subscriptions.is_empty());
}

#[tokio::test]
async fn trimmed_events_are_no_longer_read() {
    let server = Served::new().await;
    let mut client = server.events().await;
    for tag in ["person:ann", "person:ben", "person:ann"] {
        append(&mut client, vec![event("Joined", &[tag], b"")], vec![]).await.expect("appended");
    }
    let forget = |which| ForgetEventsRequest { store: STORE.to_owned(), which };
    client.forget(forget(Some(Which::Tag(b"person:ann".as_slice().into())))).await.expect("forgotten");
    let (left, head) = read(&mut client, ReadEventsRequest::default()).await.expect("read");
    assert_eq!((positions(&left), head), (vec![2], 3));
    client.forget(forget(Some(Which::UpTo(2)))).await.expect("trimmed");
    assert!(read(&mut client, ReadEventsRequest::default()).await.expect("read").0.is_empty());
    let ahead = client.forget(forget(Some(Which::UpTo(9)))).await.expect_err("there are three");
    assert_eq!(told(&ahead).1, "AHEAD_OF_STORE");
    assert_eq!(client.forget(forget(None)).await.expect_err("nothing is meant").code(), Code::InvalidArgument);

    let retention = SetEventRetentionRequest { store: STORE.to_owned(), retention_ms: Some(1_000) };
    client.set_retention(retention).await.expect("set");
    let folder = server.stop().await;
    let database = quire::Database::open(folder.path()).expect("opened");
    let kept = database.read(|view| view.events.store(STORE).and_then(|store| view.events.retention_ms(store)));
    assert_eq!(kept.expect("read").wait().expect("read"), Some(1_000));
}

#[tokio::test]
async fn a_store_or_a_queue_that_would_show_under_the_topic_name_of_another_is_refused() {
    let served = Served::new().await;
    let mut client = served.events().await;
    append(&mut client, vec![event("Defined", &[], b"")], vec![]).await.expect("accepted");
    let store = "school.courses".to_owned();
    let request = AppendEventsRequest { store, events: vec![event("Defined", &[], b"")], ..Default::default() };
    let (code, reason, facts) = told(&client.append(request).await.expect_err("the name is taken"));
    assert_eq!((code, reason.as_str()), (Code::AlreadyExists, "NAME_TAKEN"));
    let fact = |name: &str| facts.get(name).map(String::as_str);
    assert_eq!((fact("topic"), fact("kind"), fact("name")), (Some("school.courses"), Some("event store"), Some(STORE)));

    let mut jobs = served.jobs().await;
    let job = |queue: &str| quire_grpc::proto::NewJob { queue: queue.to_owned(), ..Default::default() };
    let both = quire_grpc::proto::EnqueueJobsRequest { jobs: vec![job("mail/out"), job("mail.out")] };
    let refused = match jobs.enqueue(both).await {
        Ok(response) => response.into_inner().results.remove(1).refused.expect("the name is taken").reason,
        Err(status) => told(&status).1,
    };
    assert_eq!(refused, "NAME_TAKEN");
}

/// The default limit of a gRPC client for one message.
const CLIENT_BYTES_MAX: usize = 4 << 20;

#[tokio::test]
async fn events_of_any_size_reach_readers_with_the_limit_that_they_need() {
    let served = Served::new().await;
    let mut client = served.events().await.max_decoding_message_size(CLIENT_BYTES_MAX);
    // Together they would exceed the limit of a client, each by itself does not.
    let below = [200 << 10, CLIENT_BYTES_MAX - (100 << 10)];
    for bytes in below {
        append(&mut client, vec![event("Made", &["a:1"], &vec![7; bytes])], vec![]).await.expect("accepted");
    }
    let lengths = |events: &[Event]| events.iter().map(|event| event.data.len()).collect::<Vec<_>>();
    let (events, _) = read(&mut client, ReadEventsRequest::default()).await.expect("each fits");
    assert_eq!(lengths(&events), below);
    assert_eq!(lengths(&subscribed(&mut client, 0, 2).await.expect("each fits")), below);

    let beyond = CLIENT_BYTES_MAX + (1 << 20);
    append(&mut client, vec![event("Made", &["a:2"], &vec![7; beyond])], vec![]).await.expect("accepted");
    for refused in [
        read(&mut client, ReadEventsRequest::default()).await.map(|_| ()),
        subscribed(&mut client, 2, 1).await.map(|_| ()),
    ] {
        assert_eq!(refused.expect_err("beyond the limit of the client").code(), Code::OutOfRange);
    }
    let mut client = client.max_decoding_message_size(16 << 20);
    let (events, _) = read(&mut client, ReadEventsRequest::default()).await.expect("the limit was raised");
    assert_eq!(lengths(&events), [below[0], below[1], beyond]);
    assert_eq!(lengths(&subscribed(&mut client, 2, 1).await.expect("the limit was raised")), [beyond]);
}

/// The first `count` events of a subscription after a position.
async fn subscribed(client: &mut EventsClient<Channel>, after: u64, count: usize) -> Result<Vec<Event>, Status> {
    let request = SubscribeEventsRequest { store: STORE.to_owned(), after, ..SubscribeEventsRequest::default() };
    let mut pages = client.subscribe(request).await?.into_inner();
    let mut events = Vec::new();
    while events.len() < count {
        events.extend(pages.next().await.expect("it does not end")?.events);
    }
    Ok(events)
}
