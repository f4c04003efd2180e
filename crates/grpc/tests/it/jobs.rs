//! The service `Jobs`, and the stream of a worker.

use quire_grpc::WorkerStream;
use quire_grpc::proto::job_report::{Ack, Fail, Heartbeat, Snooze, What, fail};
use quire_grpc::proto::jobs_client::JobsClient;
use quire_grpc::proto::work_request::Subscription;
use quire_grpc::proto::work_response::{FrameResult, Kind};
use quire_grpc::proto::{
    Backoff, EnqueueJobsRequest, EnqueueResult, FetchJobsRequest, FetchedJob, GetJobsRequest, JobRefusal, JobReport,
    NewJob, ReportJobsRequest, ReportResult, SearchJobsRequest, UniqueKey, WorkRequest, backoff, unique_key,
};
use tonic::Code;
use tonic::transport::Channel;

use crate::served::{Served, told};

const QUEUE: &str = "mail/out";

fn job(payload: &str) -> NewJob {
    NewJob { queue: QUEUE.to_owned(), payload: payload.to_owned().into(), ..NewJob::default() }
}

fn report(job: &FetchedJob, what: What) -> JobReport {
    JobReport { job: job.job.clone(), token: job.token.clone(), what: Some(what) }
}

fn ack(job: &FetchedJob) -> JobReport {
    report(job, What::Ack(Ack { result: "done".into() }))
}

fn fetch(count: u32, wait_us: u64) -> FetchJobsRequest {
    let queues = vec![QUEUE.to_owned()];
    FetchJobsRequest { queues, count, wait_us, worker: "w1".to_owned(), ..FetchJobsRequest::default() }
}

/// The end of the year 9999.
pub(crate) const TIME_US_MAX: u64 = 253_402_300_799_999_999;

async fn enqueue(client: &mut JobsClient<Channel>, jobs: Vec<NewJob>) -> Vec<EnqueueResult> {
    client.enqueue(EnqueueJobsRequest { jobs }).await.expect("accepted").into_inner().results
}

async fn fetched(client: &mut JobsClient<Channel>, request: FetchJobsRequest) -> Vec<FetchedJob> {
    client.fetch(request).await.expect("accepted").into_inner().jobs
}

async fn reported(client: &mut JobsClient<Channel>, reports: Vec<JobReport>) -> Vec<ReportResult> {
    client.report(ReportJobsRequest { reports }).await.expect("accepted").into_inner().results
}

fn payloads(jobs: &[FetchedJob]) -> Vec<&str> {
    jobs.iter().map(|job| str::from_utf8(&job.payload).expect("text")).collect()
}

#[tokio::test]
async fn each_item_of_a_call_has_its_own_answer_also_after_a_restart() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    let unique = |payload| {
        let clash = unique_key::Clash::Reject.into();
        let unique = Some(UniqueKey { key: "k".into(), clash, ..UniqueKey::default() });
        NewJob { unique, ..job(payload) }
    };
    let jobs = vec![unique("a"), unique("b"), NewJob { priority: Some(200), ..job("c") }];
    let results = enqueue(&mut client, jobs).await;
    let refused = results[1].refused.as_ref().expect("refused");
    assert_eq!((refused.reason.as_str(), &refused.job), ("DUPLICATE", &results[0].job));

    let served = served.again().await;
    let mut client = served.jobs().await;
    let jobs = fetched(&mut client, fetch(10, 0)).await;
    assert_eq!(payloads(&jobs), ["c", "a"]);
    let results = reported(&mut client, vec![ack(&jobs[0]), ack(&jobs[1]), ack(&jobs[0])]).await;
    assert!(results[0].refused.is_none() && results[1].refused.is_none());
    let refused = results[2].refused.as_ref().expect("refused");
    assert_eq!((refused.reason.as_str(), refused.state.as_str()), ("STALE_LEASE", "completed"));
}

#[tokio::test]
async fn a_report_returns_the_end_of_the_state_that_it_caused() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    enqueue(&mut client, ["a", "b", "c", "d"].map(job).to_vec()).await;
    let jobs = fetched(&mut client, fetch(4, 0)).await;
    let failure = |retry| What::Fail(Fail { error: "no".to_owned(), retry });
    let beat = Heartbeat { lease_us: Some(7_000_000_000), checkpoint: Some("half".into()), progress: None };
    let never = Some(fail::Retry::Never(true));
    let results = reported(
        &mut client,
        vec![
            report(&jobs[0], failure(Some(fail::Retry::RetryAtUs(TIME_US_MAX)))),
            report(&jobs[1], failure(never)),
            report(&jobs[2], What::Snooze(Snooze { until_us: TIME_US_MAX - 1 })),
            report(&jobs[3], What::Heartbeat(beat)),
        ],
    )
    .await;
    assert!(results.iter().all(|result| result.refused.is_none()), "{results:?}");
    assert_eq!((results[0].until_us, results[1].until_us), (Some(TIME_US_MAX), None));
    assert_eq!(results[2].until_us, Some(TIME_US_MAX - 1));
    assert!(results[3].until_us.expect("a deadline") > jobs[3].deadline_us);
}

#[tokio::test]
async fn a_fetch_waits_for_a_job_and_no_longer_than_asked() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    assert_eq!(fetched(&mut client, fetch(1, 1_000)).await, []);
    let mut other = served.jobs().await;
    let waiting = tokio::spawn(async move { fetched(&mut other, fetch(1, 60_000_000)).await });
    enqueue(&mut client, vec![job("a")]).await;
    assert_eq!(payloads(&waiting.await.expect("fetched")), ["a"]);
    let status = client.fetch(fetch(1, 60_000_001)).await.expect_err("too long");
    assert_eq!((told(&status).0, told(&status).1.as_str()), (Code::InvalidArgument, "INVALID"));
}

/// A worker's end of a stream.
struct Worker(WorkerStream);

impl Worker {
    async fn begin(client: &mut JobsClient<Channel>, credits: u32, lease_us: Option<u64>) -> Self {
        let queues = vec![QUEUE.to_owned()];
        let subscribe = Some(Subscription { queues, lease_us, worker: "w1".to_owned(), ..Subscription::default() });
        let first = WorkRequest { subscribe, credits, ..WorkRequest::default() };
        Worker(WorkerStream::begin(client, first).await.expect("begun"))
    }

    async fn tell(&self, frame: WorkRequest) {
        self.0.send(frame).await.expect("the stream is open");
    }

    async fn next(&mut self) -> Kind {
        self.0.receive().await.expect("no error").expect("not the end")
    }

    async fn jobs(&mut self) -> Vec<FetchedJob> {
        let kind = self.next().await;
        let Kind::Jobs(jobs) = kind else { panic!("jobs, not {kind:?}") };
        jobs.jobs
    }

    async fn result(&mut self) -> FrameResult {
        let kind = self.next().await;
        let Kind::Result(result) = kind else { panic!("a result, not {kind:?}") };
        result
    }
}

#[tokio::test]
async fn a_worker_gets_as_many_jobs_as_it_gave_credits_for_and_its_frames_are_answered_in_order() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    let mut worker = Worker::begin(&mut client, 2, None).await;
    worker.tell(WorkRequest { enqueue: ["a", "b", "c"].map(job).to_vec(), ..WorkRequest::default() }).await;
    let (mut jobs, mut enqueued) = (Vec::new(), Vec::new());
    while jobs.len() < 2 || enqueued.is_empty() {
        match worker.next().await {
            Kind::Jobs(more) => jobs.extend(more.jobs),
            Kind::Result(result) => enqueued = result.enqueued,
            Kind::Lost(lost) => panic!("{lost:?}"),
        }
    }
    assert_eq!((payloads(&jobs), enqueued.len()), (vec!["a", "b"], 3));
    worker.tell(WorkRequest { reports: vec![ack(&jobs[0])], ..WorkRequest::default() }).await;
    worker.tell(WorkRequest { reports: vec![ack(&jobs[0]), ack(&jobs[1])], ..WorkRequest::default() }).await;
    let first = worker.result().await;
    assert!(first.reports.len() == 1 && first.reports[0].refused.is_none());
    let second = worker.result().await;
    assert_eq!(second.reports[0].refused.as_ref().expect("stale").reason, "STALE_LEASE");
    assert!(second.reports[1].refused.is_none());
    worker.tell(WorkRequest { credits: 5, ..WorkRequest::default() }).await;
    let jobs = worker.jobs().await;
    assert_eq!(payloads(&jobs), ["c"]);
    worker.tell(WorkRequest { reports: vec![ack(&jobs[0])], ..WorkRequest::default() }).await;
    worker.0.finish();
    assert!(matches!(worker.next().await, Kind::Result(_)));
    assert_eq!(worker.0.receive().await.expect("no error"), None, "all is said and answered");
}

#[tokio::test]
async fn a_worker_learns_at_once_of_a_lease_that_it_lost() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    enqueue(&mut client, vec![job("a")]).await;
    let mut worker = Worker::begin(&mut client, 1, Some(1)).await;
    let jobs = worker.jobs().await;
    let kind = worker.next().await;
    let Kind::Lost(lost) = kind else { panic!("a lost lease, not {kind:?}") };
    assert_eq!(lost.jobs, [jobs[0].job.clone()]);
}

#[tokio::test]
async fn a_frame_that_can_not_be_ends_the_stream_with_the_reason() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    for frame in [
        WorkRequest { credits: 1_025, ..WorkRequest::default() },
        WorkRequest { subscribe: Some(Subscription::default()), ..WorkRequest::default() },
    ] {
        let mut worker = Worker::begin(&mut client, 0, None).await;
        worker.tell(frame).await;
        let status = worker.0.receive().await.expect_err("refused");
        assert_eq!(told(&status).0, Code::InvalidArgument, "{status:?}");
    }
}

/// The reasons of those that were refused, and nothing of the others.
fn reasons<'r>(refused: impl IntoIterator<Item = &'r Option<JobRefusal>>) -> Vec<Option<&'r str>> {
    refused.into_iter().map(|refused| refused.as_ref().map(|refused| refused.reason.as_str())).collect()
}

/// Jobs of which the second and the third can't be.
fn one_good_of_four() -> Vec<NewJob> {
    vec![
        job("a"),
        NewJob { priority: Some(300), ..job("b") },
        NewJob { attempts_max: Some(70_000), ..job("c") },
        NewJob { attempts_max: Some(0), ..job("d") },
    ]
}

#[tokio::test]
async fn an_item_that_can_not_be_leaves_the_others_alone() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    let out_of_range = Some("OUT_OF_RANGE");
    let results = enqueue(&mut client, one_good_of_four()).await;
    assert_eq!(reasons(results.iter().map(|it| &it.refused)), [None, out_of_range, out_of_range, out_of_range]);
    let jobs = fetched(&mut client, fetch(9, 0)).await;
    assert_eq!(payloads(&jobs), ["a"]);
    let odd = JobReport { job: "seven".to_owned(), ..ack(&jobs[0]) };
    let results =
        reported(&mut client, vec![odd.clone(), JobReport { what: None, ..ack(&jobs[0]) }, ack(&jobs[0])]).await;
    assert_eq!(reasons(results.iter().map(|it| &it.refused)), [Some("INVALID"), Some("INVALID"), None]);

    let mut worker = Worker::begin(&mut client, 0, None).await;
    worker.tell(WorkRequest { reports: vec![odd], enqueue: one_good_of_four(), ..WorkRequest::default() }).await;
    worker.tell(WorkRequest { enqueue: vec![job("e")], ..WorkRequest::default() }).await;
    let result = worker.result().await;
    assert_eq!(reasons(result.reports.iter().map(|it| &it.refused)), [Some("INVALID")]);
    assert_eq!(reasons(result.enqueued.iter().map(|it| &it.refused)), [None, out_of_range, out_of_range, out_of_range]);
    assert_eq!(reasons(worker.result().await.enqueued.iter().map(|it| &it.refused)), [None]);
    let too_many = EnqueueJobsRequest { jobs: vec![NewJob { priority: Some(300), ..job("b") }; 1_025] };
    let status = client.enqueue(too_many).await.expect_err("too many");
    assert_eq!((told(&status).0, told(&status).1.as_str()), (Code::InvalidArgument, "OUT_OF_RANGE"));
}

#[tokio::test]
async fn large_jobs_are_sent_in_messages_that_clients_accept_and_the_others_are_returned() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    let large = |n: usize| NewJob { payload: vec![b'0' + n as u8; 3 << 19].into(), ..job("") };
    enqueue(&mut client, (0..5).map(large).collect()).await;
    let jobs = fetched(&mut client, fetch(9, 0)).await;
    let first = |jobs: &[FetchedJob]| jobs.iter().map(|job| (job.payload[0], job.attempt)).collect::<Vec<_>>();
    assert_eq!(first(&jobs), [(b'0', 1), (b'1', 1)]);
    let mut worker = Worker::begin(&mut client, 9, None).await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(first(&worker.jobs().await));
    }
    assert_eq!(seen, [(b'2', 1), (b'3', 1), (b'4', 1)], "no attempt was counted before");
    let found = client.search(SearchJobsRequest { limit: 9, ..SearchJobsRequest::default() }).await;
    let page = found.expect("a page").into_inner();
    assert_eq!((page.jobs.len(), page.next.is_empty()), (2, false));
    let next = SearchJobsRequest { limit: 9, after: page.next, ..SearchJobsRequest::default() };
    assert_eq!(client.search(next).await.expect("a page").into_inner().jobs[0].payload[0], b'2');
    let many = GetJobsRequest { jobs: vec![jobs[0].job.clone(); 50], steps: 0 };
    assert_eq!(told(&client.get(many).await.expect_err("75 MiB")).1, "TOO_LARGE");
}

#[tokio::test]
async fn an_explicit_false_or_an_empty_choice_is_refused_and_not_taken_for_true() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    let backoff = |kind| NewJob { backoff: Some(Backoff { kind }), ..job("a") };
    let unique = |unique| NewJob { unique: Some(UniqueKey { key: "k".into(), ..unique }), ..job("a") };
    let results = enqueue(
        &mut client,
        vec![
            backoff(Some(backoff::Kind::None(false))),
            backoff(None),
            backoff(Some(backoff::Kind::List(backoff::Waits::default()))),
            backoff(Some(backoff::Kind::FixedUs(u64::MAX))),
            unique(UniqueKey { hold: Some(unique_key::Hold::UntilStarted(false)), ..UniqueKey::default() }),
            unique(UniqueKey { clash: 9, ..UniqueKey::default() }),
            NewJob { jitter_percent: 10, ..backoff(Some(backoff::Kind::None(true))) },
            NewJob { run_at_us: Some(u64::MAX), ..job("a") },
            backoff(Some(backoff::Kind::None(true))),
        ],
    )
    .await;
    let (invalid, range) = (Some("INVALID"), Some("OUT_OF_RANGE"));
    let expected = [invalid, invalid, range, range, invalid, invalid, invalid, range, None];
    assert_eq!(reasons(results.iter().map(|it| &it.refused)), expected);
    let jobs = fetched(&mut client, fetch(9, 0)).await;
    let not_never = Fail { error: "no".to_owned(), retry: Some(fail::Retry::Never(false)) };
    let results = reported(&mut client, vec![report(&jobs[0], What::Fail(not_never))]).await;
    assert_eq!(reasons(results.iter().map(|it| &it.refused)), [invalid]);
    let results = reported(&mut client, vec![ack(&jobs[0])]).await;
    assert_eq!(reasons(results.iter().map(|it| &it.refused)), [None], "it is still this worker's");
}

#[tokio::test]
async fn a_backoff_that_is_given_in_part_has_the_defaults_of_a_job_for_the_rest() {
    let served = Served::new().await;
    let mut client = served.jobs().await;
    let growing = |first_us| backoff::Growing { first_us, max_us: 0 };
    let kinds = [
        backoff::Kind::Exponential(growing(1_000_000)),
        backoff::Kind::Linear(growing(7_200_000_000)),
        backoff::Kind::Exponential(growing(0)),
    ];
    let waits = [1_000_000, 3_600_000_000, 5_000_000];
    let jobs = kinds.map(|kind| NewJob { backoff: Some(Backoff { kind: Some(kind) }), ..job("a") }).to_vec();
    enqueue(&mut client, jobs).await;
    let jobs = fetched(&mut client, fetch(3, 0)).await;
    let failed = |job| report(job, What::Fail(Fail { error: "no".to_owned(), retry: None }));
    let results = reported(&mut client, jobs.iter().map(failed).collect()).await;
    for ((job, result), wait) in jobs.iter().zip(&results).zip(waits) {
        let fetched_at = job.deadline_us - 30_000_000;
        let waited = result.until_us.expect("it is tried again") - fetched_at;
        assert!((wait..wait + 20_000_000).contains(&waited), "{waited} us, about {wait}");
    }
}
