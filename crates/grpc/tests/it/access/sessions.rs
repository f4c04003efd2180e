//! Sessions: the services without one, what ends one, and the names of Unix peers.

use quire::Operation::{Describe, Read, Write};
use quire::ResourceKind::{Graph, Group, Queue, Store, Topic};
use quire::events::NewEvent;
use quire::system::{AccessRule, RulePattern, RuleSubject};
use quire::{Message, NewJob};
use quire_access::ListenAddress;
use quire_grpc::proto::events_client::EventsClient;
use quire_grpc::proto::subscribe_jobs_request::Begin;
use quire_grpc::proto::work_request::Subscription;
use quire_grpc::proto::*;
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

use super::fixture::{Fixture, GRAPH, GROUP, QUEUE, STORE, SUBSCRIPTION, TOPIC};
use super::methods::bytes;
use super::needs::Need;
use crate::served::told;

const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

#[track_caller]
fn check_unauthenticated(status: &Status) {
    assert_eq!((told(status).0, &*told(status).1), (Code::Unauthenticated, "UNAUTHENTICATED"), "{status:?}");
}

fn list_services() -> bytes::Bytes {
    let request = Some(MessageRequest::ListServices(String::new()));
    bytes(&ServerReflectionRequest { host: String::new(), message_request: request })
}

#[tokio::test]
async fn a_health_check_needs_no_session_and_every_other_method_does() {
    let fixture = Fixture::new().await;
    let health = bytes(&HealthCheckRequest { service: "quire.v1.Events".to_owned() });
    let right = format!("Bearer {}", fixture.root);
    for authorization in [&[][..], &["Bearer qk_wrong"], &[&*right]] {
        fixture.call(("/grpc.health.v1.Health/Check", false), health.clone(), authorization).await.expect("healthy");
    }
    for method in ["Watch", "List"] {
        let path = format!("/grpc.health.v1.Health/{method}");
        check_unauthenticated(&fixture.call((&path, false), health.clone(), &[]).await.expect_err("refused"));
        // A session is enough, also for a method that this server does not have.
        let answered = fixture.call((&path, false), health.clone(), &[&right]).await;
        assert!(answered.is_ok() || answered.is_err_and(|status| status.code() == Code::Unimplemented), "{method}");
    }
    check_unauthenticated(&fixture.call((REFLECTION, true), list_services(), &[]).await.expect_err("refused"));
    fixture.call((REFLECTION, true), list_services(), &[&right]).await.expect("permitted");
    for (authorization, code) in [(&[][..], Code::Unauthenticated), (&[&*right], Code::Unimplemented)] {
        let unknown = fixture.call(("/made.up/Method", false), bytes::Bytes::new(), authorization).await;
        assert_eq!(unknown.expect_err("unknown").code(), code);
    }
    let counted = fixture.served.traffic.grpc.ended();
    assert!(counted.iter().all(|ended| !ended.name.contains("made.up")), "a client cannot add names: {counted:?}");
}

/// Calls that wait for data, by a client that may read everything.
fn waiting(fixture: &Fixture) -> Vec<(&'static str, bool, bytes::Bytes)> {
    let (queue, wait_us) = ("empty-queue".to_owned(), 60_000_000);
    let from = fetch_records_request::From::Offset(2);
    let of_jobs = SubscribeJobsRequest { begin: Some(Begin::Start(true)), ..SubscribeJobsRequest::default() };
    let consume = ConsumeRequest { group: GROUP.to_owned(), topic: TOPIC.to_owned(), ..ConsumeRequest::default() };
    let work = Subscription { queues: vec![QUEUE.to_owned()], ..Subscription::default() };
    let report = JobReport { job: fixture.pending.clone(), ..JobReport::default() };
    let work = WorkRequest { subscribe: Some(work), reports: vec![report], ..WorkRequest::default() };
    let fetch = FetchJobsRequest { queues: vec![queue], count: 1, wait_us, ..FetchJobsRequest::default() };
    let records = FetchRecordsRequest { topic: TOPIC.to_owned(), from: Some(from), wait_us, ..Default::default() };
    let subscribe = SubscribeEventsRequest { store: STORE.to_owned(), ..SubscribeEventsRequest::default() };
    vec![
        ("/quire.v1.Events/Subscribe", false, bytes(&subscribe)),
        ("/quire.v1.Jobs/Subscribe", false, bytes(&of_jobs)),
        ("/quire.v1.Graph/Changes", false, bytes(&GraphChangesRequest { graph: GRAPH.to_owned(), after: None })),
        ("/quire.v1.Streams/Consume", false, bytes(&consume)),
        ("/quire.v1.Jobs/Work", true, bytes(&work)),
        ("/quire.v1.Jobs/Fetch", false, bytes(&fetch)),
        ("/quire.v1.Streams/Fetch", false, bytes(&records)),
        (REFLECTION, true, list_services()),
    ]
}

fn everything() -> [Need; 6] {
    [
        Need::every(Store, Read),
        Need::every(Queue, Read),
        Need::every(Graph, Read),
        Need::every(Topic, Read),
        Need::every(Group, Read),
        Need::every(Group, Describe),
    ]
}

#[tokio::test]
async fn a_call_that_waits_ends_with_its_session() {
    let fixture = Fixture::new().await;
    let rules = everything().map(|need| need.allowing());
    for (path, is_stream, message) in waiting(&fixture) {
        let (_, key) = fixture.user(&rules);
        let authorization = format!("Bearer {}", key.reveal());
        let ended = if path.ends_with("/Fetch") {
            let values = [&*authorization];
            let mut call = Box::pin(fixture.call((path, is_stream), message, &values));
            // It has no response before it has data.
            while fixture.served.traffic.grpc.active() == 0 {
                tokio::select! {
                    biased;
                    answer = &mut call => panic!("{path} does not wait: {answer:?}"),
                    () = tokio::task::yield_now() => {}
                }
            }
            fixture.owner.access().drop_key(key.id()).expect("dropped");
            call.await.expect_err(path)
        } else {
            let mut messages = fixture.begin(path, is_stream, message, &[&authorization]).await.expect("begun");
            messages.message().await.expect("no error").expect("a message");
            fixture.owner.access().drop_key(key.id()).expect("dropped");
            loop {
                match messages.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{path} ended without a status"),
                    Err(status) => break status,
                }
            }
        };
        check_unauthenticated(&ended);
    }
    let group = fixture.owner.group(GROUP).describe().expect("read").expect("it exists");
    assert!(group.members.is_empty(), "the member has left: {group:?}");
}

#[tokio::test]
async fn a_stream_is_refused_at_its_next_read_without_its_permission() {
    let fixture = Fixture::new().await;
    let streams = [
        ("/quire.v1.Events/Subscribe", 0, Need::every(Store, Read), Store),
        ("/quire.v1.Graph/Changes", 2, Need::every(Graph, Read), Graph),
        ("/quire.v1.Streams/Consume", 3, Need::every(Topic, Read), Topic),
    ];
    for (path, index, need, kind) in streams {
        let (user, key) = fixture.user(&[need.allowing(), Need::every(Group, Read).allowing()]);
        let authorization = format!("Bearer {}", key.reveal());
        let (path_of, is_stream, message) = waiting(&fixture).swap_remove(index);
        assert_eq!(path_of, path);
        let mut messages = fixture.begin(path, is_stream, message, &[&authorization]).await.expect("begun");
        messages.message().await.expect("no error").expect("a message");
        let deny = AccessRule::deny(Read, kind, RulePattern::Any);
        fixture.owner.access().add_rule(&RuleSubject::Principal(user), &deny).expect("added");
        // Each wakes one of the streams.
        fixture.owner.events(STORE).append([NewEvent::new("Ordered")]).expect("appended");
        fixture.owner.topic(TOPIC).produce(Message::new("order 3")).expect("produced");
        fixture.owner.graph(GRAPH).put_block(quire::NewBlock::new("d", "order")).expect("put");
        let refused = loop {
            match messages.message().await {
                Ok(message) => drop(message.expect("it does not end")),
                Err(status) => break status,
            }
        };
        assert_eq!((told(&refused).0, &*told(&refused).1), (Code::PermissionDenied, "NOT_PERMITTED"), "{path}");
    }
}

#[tokio::test]
async fn a_job_of_a_hidden_queue_is_answered_like_one_that_does_not_exist() {
    let fixture = Fixture::new().await;
    let key = fixture.key(&[Need::of(Queue, "another", Write).allowing()]);
    let unknown = "9-0".to_owned();
    let answer = async |path: &str, message: bytes::Bytes, job: &str| {
        let answer = fixture.call((path, false), message, &[&key]).await;
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(job, "JOB");
        match answer {
            Ok(response) => shown(&response),
            Err(status) => shown(format!("{status:?}").as_bytes()),
        }
    };
    let get = |job: &String| bytes(&GetJobsRequest { jobs: vec![job.clone()], steps: 1 });
    let pending = fixture.pending.clone();
    assert_eq!(
        answer("/quire.v1.Jobs/Get", get(&pending), &pending).await,
        answer("/quire.v1.Jobs/Get", get(&unknown), &unknown).await
    );
}

#[tokio::test]
async fn a_delivered_event_needs_the_permission_to_read_its_store() {
    let fixture = Fixture::new().await;
    fixture.owner.events(STORE).append([NewEvent::new("Ordered")]).expect("appended");
    let key = fixture.key(&[Need::of(Queue, SUBSCRIPTION, Read).allowing()]);
    let fetch = |with_events| {
        let queues = vec![SUBSCRIPTION.to_owned()];
        bytes(&FetchJobsRequest { queues, count: 1, with_events, wait_us: 60_000_000, ..FetchJobsRequest::default() })
    };
    let fetched = fixture.call(("/quire.v1.Jobs/Fetch", false), fetch(true), &[&key]).await.expect("fetched");
    let fetched = <FetchJobsResponse as prost::Message>::decode(fetched).expect("a response");
    let shown: Vec<_> = fetched.jobs.iter().map(|job| (job.attempt, job.event.is_some())).collect();
    assert_eq!(shown, [(1, false)], "the job is delivered without its event");
}

#[tokio::test]
async fn a_process_on_a_unix_socket_is_the_principal_of_its_user() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("grpc.sock");
    let owner = quire::Database::open(directory.path().join("data")).expect("opened");
    owner.queue(QUEUE).enqueue(NewJob::new("order 1")).expect("enqueued");
    owner.access().init("root").expect("initialised");
    let server = quire_grpc::Server::bind(owner.clone(), ListenAddress::Unix(path.clone())).await.expect("bound");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async { drop(stopped.await) }));
    let endpoint = Endpoint::from_shared(format!("unix:{}", path.display())).expect("an address");
    let mut events = EventsClient::new(endpoint.connect().await.expect("it listens"));
    let head = || HeadEventsRequest { store: STORE.to_owned() };
    let refused = events.head(head()).await.expect_err("it has no permission");
    assert_eq!(told(&refused).0, Code::PermissionDenied);
    let user = format!("uid:{}", rustix::process::getuid().as_raw());
    let allow = AccessRule::allow(Describe, Store, RulePattern::Literal(STORE.to_owned()));
    owner.access().add_rule(&RuleSubject::Principal(user), &allow).expect("added");
    assert_eq!(events.head(head()).await.expect("permitted").into_inner().head, 0);
    // A key takes precedence, and a wrong one is no way back to the name.
    let mut request = tonic::Request::new(head());
    request.metadata_mut().insert("authorization", "Bearer qk_wrong".parse().expect("metadata"));
    check_unauthenticated(&events.head(request).await.expect_err("the key is wrong"));
    drop((events, owner, stop));
    running.await.expect("no panic").expect("it ends well");
}
