//! The administrative calls of the service `Jobs`: changes, reads, queues as a whole, and events.

use quire_grpc::proto::job_change::{Reason, Retry, What};
use quire_grpc::proto::jobs_client::JobsClient;
use quire_grpc::proto::start_rate::{Kind, SlidingWindow};
use quire_grpc::proto::subscribe_jobs_request::Begin;
use quire_grpc::proto::{
    BeginBulkRequest, BulksRequest, ChangeJobsRequest, ChangeResult, ClearQueueRequest, DestroyQueueRequest,
    EnqueueJobsRequest, FetchJobsRequest, GetJobsRequest, Job, JobChange, JobFilter, NewJob, QueueSettings,
    QueuesRequest, SearchJobsRequest, SetQueueRequest, StartRate, SubscribeJobsRequest, change_jobs_request,
};
use tonic::Code;
use tonic::transport::Channel;

use crate::jobs::TIME_US_MAX;
use crate::served::{Served, told};

const QUEUE: &str = "mail/out";

async fn enqueue(client: &mut JobsClient<Channel>, payloads: &[&str]) -> Vec<String> {
    let job = |payload: &&str| NewJob {
        queue: QUEUE.to_owned(),
        kind: "welcome".to_owned(),
        payload: payload.as_bytes().to_vec().into(),
        ..NewJob::default()
    };
    let jobs = payloads.iter().map(job).collect();
    let results = client.enqueue(EnqueueJobsRequest { jobs }).await.expect("accepted").into_inner().results;
    results.into_iter().map(|result| result.job).collect()
}

async fn change(client: &mut JobsClient<Channel>, changes: Vec<(&str, What)>) -> Vec<ChangeResult> {
    let item = |(job, what): (&str, What)| change_jobs_request::Item {
        job: job.to_owned(),
        change: Some(JobChange { what: Some(what) }),
    };
    let items = changes.into_iter().map(item).collect();
    client.change(ChangeJobsRequest { items }).await.expect("accepted").into_inner().results
}

async fn get(client: &mut JobsClient<Channel>, jobs: &[String], steps: u32) -> Vec<Job> {
    client.get(GetJobsRequest { jobs: jobs.to_vec(), steps }).await.expect("accepted").into_inner().jobs
}

async fn search(client: &mut JobsClient<Channel>, filter: JobFilter, limit: u32) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let request = SearchJobsRequest { filter: Some(filter.clone()), after, limit };
        let page = client.search(request).await.expect("accepted").into_inner();
        found.extend(page.jobs.into_iter().map(|job| job.job));
        after = page.next;
        if after.is_empty() {
            return found;
        }
    }
}

fn why(reason: &str) -> Reason {
    Reason { reason: reason.to_owned() }
}

#[tokio::test]
async fn jobs_are_changed_each_by_itself_and_read_also_after_a_restart() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    let ids = enqueue(&mut client, &["a", "b", "c", "d", "e", "f", "g", "h"]).await;
    let results = change(
        &mut client,
        vec![
            (&ids[0], What::Cancel(why("no"))),
            (&ids[1], What::Hold(why("wait"))),
            (&ids[2], What::RunAtUs(TIME_US_MAX)),
            (&ids[3], What::MoveTo("other".to_owned())),
            (&ids[4], What::Priority(200)),
            (&ids[5], What::AttemptsMax(9)),
            (&ids[6], What::Payload("new".into())),
            (&ids[7], What::Delete(true)),
            (&ids[0], What::Release(true)),
            (&ids[1], What::Release(true)),
            (&ids[4], What::Retry(Retry::default())),
        ],
    )
    .await;
    let states: Vec<_> = results.iter().map(|result| result.state.as_str()).collect();
    let expected =
        ["cancelled", "held", "scheduled", "pending", "pending", "pending", "pending", "", "", "pending", ""];
    assert_eq!(states, expected);
    let refused: Vec<_> = results.iter().filter_map(|result| result.refused.as_ref()).collect();
    assert_eq!(refused.iter().map(|it| it.reason.as_str()).collect::<Vec<_>>(), ["WRONG_STATE"; 2]);

    let served = served.again().await;
    let mut client = served.jobs().await;
    let jobs = get(&mut client, &ids, 10).await;
    assert_eq!(jobs.len(), 7, "the deleted one is gone");
    assert_eq!((jobs[0].state.as_str(), jobs[0].reason.as_str()), ("cancelled", "no"));
    assert_eq!((jobs[2].state.as_str(), jobs[2].until_us), ("scheduled", Some(TIME_US_MAX)));
    assert_eq!((jobs[3].queue.as_str(), jobs[4].priority, jobs[5].attempts_max), ("other", 200, 9));
    assert_eq!((&jobs[6].payload[..], jobs[6].kind.as_str()), (&b"new"[..], "welcome"));
    let steps: Vec<_> = jobs[1].steps.iter().map(|step| (step.event.as_str(), step.reason.as_str())).collect();
    assert_eq!(steps, [("enqueued", ""), ("held", "wait"), ("released", "")]);
    assert_eq!(get(&mut client, &ids[1..2], 1).await[0].steps[0].event, "released");
}

#[tokio::test]
async fn a_change_that_can_not_be_leaves_the_others_alone_and_the_job_as_it_is() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    let ids = enqueue(&mut client, &["a"]).await;
    let item = |job: &str, what: Option<What>| change_jobs_request::Item {
        job: job.to_owned(),
        change: what.map(|what| JobChange { what: Some(what) }),
    };
    let items = vec![
        item(&ids[0], None),
        item("7", Some(What::Hold(why("")))),
        item(&ids[0], Some(What::Priority(300))),
        item(&ids[0], Some(What::AttemptsMax(70_000))),
        item(&ids[0], Some(What::Delete(false))),
        item(&ids[0], Some(What::Hold(why("")))),
        item(&ids[0], Some(What::Release(false))),
    ];
    let results = client.change(ChangeJobsRequest { items }).await.expect("accepted").into_inner().results;
    let reasons: Vec<&str> =
        results.iter().map(|it| it.refused.as_ref().map_or(&*it.state, |refused| &*refused.reason)).collect();
    assert_eq!(reasons, ["INVALID", "INVALID", "OUT_OF_RANGE", "OUT_OF_RANGE", "INVALID", "held", "INVALID"]);
    assert_eq!(get(&mut client, &ids, 0).await[0].state, "held");
    let change = Some(JobChange { what: Some(What::Delete(false)) });
    let status = client.begin_bulk(BeginBulkRequest { filter: None, change }).await.expect_err("refused");
    assert_eq!((told(&status).0, told(&status).1.as_str()), (Code::InvalidArgument, "INVALID"));
}

#[tokio::test]
async fn jobs_are_found_page_by_page_and_changed_in_bulk() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    let payloads: Vec<String> = (0..25).map(|number| number.to_string()).collect();
    let ids = enqueue(&mut client, &payloads.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let of = |state: &str| JobFilter {
        queue: Some(QUEUE.to_owned()),
        states: vec![state.to_owned()],
        ..JobFilter::default()
    };
    assert_eq!(search(&mut client, of("pending"), 4).await, ids);
    assert_eq!(search(&mut client, JobFilter { kind: Some("x".to_owned()), ..of("pending") }, 0).await, [""; 0]);
    let change = Some(JobChange { what: Some(What::Hold(why("all of them"))) });
    let begun = client.begin_bulk(BeginBulkRequest { filter: Some(of("pending")), change }).await.expect("begun");
    let bulk = begun.into_inner().bulk;
    let done = loop {
        let bulks = client.bulks(BulksRequest { bulk: bulk.clone() }).await.expect("told").into_inner().bulks;
        assert_eq!(bulks.len(), 1);
        if bulks[0].done {
            break bulks[0].clone();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((done.changed, done.refused), (25, 0));
    assert_eq!(search(&mut client, of("held"), 10).await, ids);
    let status = client
        .search(SearchJobsRequest { filter: Some(of("finished")), ..SearchJobsRequest::default() })
        .await
        .expect_err("no state");
    assert_eq!(told(&status).0, Code::InvalidArgument);
}

async fn set(client: &mut JobsClient<Channel>, settings: QueueSettings) {
    let request = SetQueueRequest { queue: QUEUE.to_owned(), settings: Some(settings) };
    client.set_queue(request).await.expect("accepted");
}

#[tokio::test]
async fn queues_are_bounded_paused_cleared_and_destroyed() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    let window = StartRate { kind: Some(Kind::SlidingWindow(SlidingWindow { count: 3, window_us: 1_000 })) };
    let settings = QueueSettings {
        paused: Some(true),
        jobs_max: Some(2),
        group_active_max: Some(4),
        retention_us: Some(86_400_000_000),
        rate: Some(window),
        ..QueueSettings::default()
    };
    set(&mut client, settings).await;
    let queues = client.queues(QueuesRequest::default()).await.expect("told").into_inner().queues;
    assert_eq!(queues[0].settings, Some(QueueSettings { draining: Some(false), ..settings }));
    let results = client
        .enqueue(EnqueueJobsRequest { jobs: vec![NewJob { queue: QUEUE.to_owned(), ..NewJob::default() }; 3] })
        .await
        .expect("accepted")
        .into_inner()
        .results;
    let refused = results[2].refused.as_ref().expect("it is full");
    assert_eq!((refused.reason.as_str(), refused.retry_after_us), ("OVERLOADED", Some(100_000)));
    assert!(results[..2].iter().all(|result| result.refused.is_none()));
    let fetch = FetchJobsRequest { queues: vec![QUEUE.to_owned()], count: 9, ..FetchJobsRequest::default() };
    assert!(client.fetch(fetch.clone()).await.expect("accepted").into_inner().jobs.is_empty(), "it is paused");
    let freely = QueueSettings {
        paused: Some(false),
        jobs_max: Some(0),
        rate: Some(StartRate { kind: None }),
        ..QueueSettings::default()
    };
    set(&mut client, freely).await;
    enqueue(&mut client, &["c", "d"]).await;
    assert_eq!(
        client.fetch(FetchJobsRequest { count: 1, ..fetch }).await.expect("accepted").into_inner().jobs.len(),
        1
    );

    let served = served.again().await;
    let mut client = served.jobs().await;
    let cleared = client.clear_queue(ClearQueueRequest { queue: QUEUE.to_owned() }).await.expect("cleared");
    assert_eq!(cleared.into_inner().jobs, 3);
    let asked = QueuesRequest { queues: vec![QUEUE.to_owned(), "unknown".to_owned()] };
    let queues = client.queues(asked.clone()).await.expect("told").into_inner().queues;
    assert_eq!((queues.len(), queues[0].jobs["cancelled"], queues[0].jobs["active"]), (1, 3, 1));
    assert_eq!(queues[0].settings.as_ref().expect("told").group_active_max, Some(4));
    let destroyed = client.destroy_queue(DestroyQueueRequest { queue: QUEUE.to_owned() }).await.expect("destroyed");
    assert_eq!(destroyed.into_inner().jobs, 1);
    assert!(client.queues(asked).await.expect("told").into_inner().queues.is_empty());
    let status = client.clear_queue(ClearQueueRequest { queue: QUEUE.to_owned() }).await.expect_err("gone");
    assert_eq!((told(&status).0, told(&status).1.as_str()), (Code::NotFound, "UNKNOWN_QUEUE"));
    let nothing = SetQueueRequest { queue: QUEUE.to_owned(), settings: None };
    assert_eq!(told(&client.set_queue(nothing).await.expect_err("nothing")).0, Code::InvalidArgument);
}

#[tokio::test]
async fn life_cycle_events_are_sent_from_any_point() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    let ids = enqueue(&mut client, &["a", "b"]).await;
    let request = SubscribeJobsRequest { begin: Some(Begin::Start(true)), ..SubscribeJobsRequest::default() };
    let mut stream = client.subscribe(request).await.expect("begun").into_inner();
    let page = stream.message().await.expect("told").expect("not the end");
    let names = |page: &quire_grpc::proto::SubscribeJobsResponse| -> Vec<String> {
        page.events.iter().map(|event| event.step.clone().expect("a step").event).collect()
    };
    assert_eq!(names(&page), ["queue_created", "enqueued", "enqueued"]);
    assert_eq!((&page.events[2].job, &page.events[2].data[..]), (&ids[1], &b"b"[..]));
    assert!(!page.caught_up.is_empty());
    change(&mut client, vec![(&ids[0], What::Cancel(why("no")))]).await;
    let page = stream.message().await.expect("told").expect("not the end");
    let step = page.events[0].step.clone().expect("a step");
    assert_eq!((step.event.as_str(), step.reason.as_str(), page.events[0].number), ("cancelled", "no", 3));
    let after = page.events[0].after.clone();
    drop(stream);

    change(&mut client, vec![(&ids[1], What::Hold(why("")))]).await;
    let served = served.again().await;
    let mut client = served.jobs().await;
    let request = SubscribeJobsRequest {
        queues: vec![QUEUE.to_owned()],
        begin: Some(Begin::After(after)),
        ..SubscribeJobsRequest::default()
    };
    let mut stream = client.subscribe(request).await.expect("begun").into_inner();
    assert_eq!(names(&stream.message().await.expect("told").expect("not the end")), ["held"]);
    let events = vec!["released".to_owned()];
    let mut stream =
        client.subscribe(SubscribeJobsRequest { events, ..Default::default() }).await.expect("begun").into_inner();
    assert!(stream.message().await.expect("told").expect("not the end").events.is_empty(), "caught up at once");
    change(&mut client, vec![(&ids[1], What::Release(true))]).await;
    let page = stream.message().await.expect("told").expect("not the end");
    assert_eq!(names(&page), ["released"]);
    for wrong in [
        SubscribeJobsRequest { events: vec!["over".to_owned()], ..Default::default() },
        SubscribeJobsRequest { jobs: vec!["1".to_owned()], ..Default::default() },
        SubscribeJobsRequest { begin: Some(Begin::After("x".to_owned())), ..Default::default() },
        SubscribeJobsRequest { begin: Some(Begin::After("99-0-0".to_owned())), ..Default::default() },
        SubscribeJobsRequest { begin: Some(Begin::Start(false)), ..Default::default() },
    ] {
        assert_eq!(told(&client.subscribe(wrong).await.expect_err("refused")).0, Code::InvalidArgument);
    }
}
