//! The metadata `quire-read` at a database alone.

use quire_grpc::proto::*;
use tokio_stream::StreamExt;
use tonic::{Code, Request};

use crate::served::{Served, told};

/// A call with these values of `quire-read`.
fn reading<M>(values: &[&str], message: M) -> Request<M> {
    let mut request = Request::new(message);
    for value in values {
        request.metadata_mut().append("quire-read", value.parse().expect("metadata"));
    }
    request
}

fn enqueue() -> EnqueueJobsRequest {
    EnqueueJobsRequest { jobs: vec![NewJob { queue: "q".to_owned(), ..NewJob::default() }] }
}

#[tokio::test]
async fn a_read_of_this_node_begins_at_its_position_and_names_it() {
    let (served, owner) = Served::with_owner().await;
    let mut jobs = served.jobs().await;
    jobs.enqueue(enqueue()).await.expect("enqueued");
    let position = owner.published().get();
    for value in ["local".to_owned(), "at=0".to_owned(), format!("at={position}")] {
        let found = jobs.queues(reading(&[&value], QueuesRequest::default())).await.expect("read");
        assert_eq!(found.metadata().get("quire-position").expect("a position"), &*position.to_string(), "{value}");
        assert_eq!(found.get_ref().queues[0].jobs["pending"], 1);
    }
    let statement = SqlQueryRequest { sql: "SELECT name FROM queues".to_owned(), ..SqlQueryRequest::default() };
    let rows = served.sql().await.query(reading(&["local"], statement)).await.expect("a stream");
    assert!(rows.metadata().contains_key("quire-position"));
    let page = rows.into_inner().next().await.expect("a page").expect("no error");
    assert_eq!(page.rows[0].values[0].kind, Some(sql_value::Kind::Text("q".to_owned())));

    let ahead = format!("at={}", position + 1);
    let refused = jobs.queues(reading(&[&ahead], QueuesRequest::default())).await.expect_err("not there yet");
    let (code, reason, facts) = told(&refused);
    assert_eq!((code, &*reason), (Code::FailedPrecondition, "AHEAD_OF_LOG"));
    assert_eq!(facts["at"], (position + 1).to_string());
    let plain = jobs.queues(QueuesRequest::default()).await.expect("read");
    assert!(!plain.metadata().contains_key("quire-position"));
}

#[tokio::test]
async fn metadata_that_is_invalid_and_a_call_that_takes_none_are_refused() {
    let (served, owner) = Served::with_owner().await;
    let mut jobs = served.jobs().await;
    for values in [&["leader"][..], &["at="], &["at=-1"], &[""], &["local", "local"]] {
        let refused = jobs.queues(reading(values, QueuesRequest::default())).await.expect_err("invalid");
        assert_eq!((told(&refused).0, &*told(&refused).1), (Code::InvalidArgument, "INVALID"), "{values:?}");
    }
    let refused = jobs.enqueue(reading(&["local"], enqueue())).await.expect_err("it commits");
    assert!(refused.message().contains("Jobs/Enqueue takes no `quire-read`"), "{refused:?}");
    let subscribe = SubscribeEventsRequest { store: "s".to_owned(), ..SubscribeEventsRequest::default() };
    let refused = served.events().await.subscribe(reading(&["local"], subscribe)).await.expect_err("it continues");
    assert_eq!(told(&refused).0, Code::InvalidArgument);
    assert_eq!(owner.published().get(), 0);
}
