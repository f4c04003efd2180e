//! The service `Streams`.

use quire_grpc::proto::describe_group_response::offset::Source;
use quire_grpc::proto::fetch_records_request::From;
use quire_grpc::proto::reset_offsets_request::{self, To};
use quire_grpc::proto::streams_client::StreamsClient;
use quire_grpc::proto::*;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::served::{Served, told};

const TOPIC: &str = "departures";
const GROUP: &str = "boards";

fn record(key: &str, value: &str) -> NewRecord {
    let (key, value) = (Some(key.as_bytes().to_vec().into()), Some(value.as_bytes().to_vec().into()));
    NewRecord { key, value, ..NewRecord::default() }
}

fn to_partition(partition: u32, value: &str) -> NewRecord {
    NewRecord { partition: Some(partition), ..record("k", value) }
}

async fn create(client: &mut StreamsClient<Channel>, partitions: u32) {
    let request = CreateTopicRequest { name: TOPIC.to_owned(), partitions, settings: None };
    client.create_topic(request).await.expect("accepted");
}

async fn produce(client: &mut StreamsClient<Channel>, records: Vec<NewRecord>) -> Result<Vec<(u32, u64)>, Status> {
    let request = ProduceRequest { topic: TOPIC.to_owned(), records };
    let places = client.produce(request).await?.into_inner().records;
    Ok(places.into_iter().map(|place| (place.partition, place.offset)).collect())
}

fn fetch_from(offset: u64) -> FetchRecordsRequest {
    FetchRecordsRequest { topic: TOPIC.to_owned(), from: Some(From::Offset(offset)), ..FetchRecordsRequest::default() }
}

fn values(records: &[Record]) -> Vec<&str> {
    let text = |record: &'_ Record| record.value.clone().expect("a value");
    let values: Vec<_> = records.iter().map(text).collect();
    values.into_iter().map(|value| &*String::from_utf8(value.to_vec()).expect("text").leak()).collect()
}

fn consume(name: &str) -> ConsumeRequest {
    ConsumeRequest {
        group: GROUP.to_owned(),
        topic: TOPIC.to_owned(),
        member_name: name.to_owned(),
        ..ConsumeRequest::default()
    }
}

async fn page(pages: &mut Streaming<ConsumeResponse>) -> ConsumeResponse {
    pages.message().await.expect("a page").expect("it does not end")
}

/// Checks that a commit is refused because the partition has moved, or its member is gone.
#[track_caller]
fn assert_lost<T: std::fmt::Debug>(commit: Result<T, Status>) {
    let (_, reason, _) = told(&commit.expect_err("the partition has moved"));
    assert!(["NOT_OWNER", "UNKNOWN_MEMBER"].contains(&&*reason), "{reason}");
}

fn commit_of(page: &ConsumeResponse) -> CommitOffsetRequest {
    CommitOffsetRequest {
        group: GROUP.to_owned(),
        topic: TOPIC.to_owned(),
        partition: page.partition,
        offset: page.next_offset,
        owner: page.owner,
        ..CommitOffsetRequest::default()
    }
}

#[tokio::test]
async fn produced_records_are_fetched_from_an_offset_and_from_a_time() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    let header = |key: &str, value: Option<&'static str>| RecordHeader {
        key: key.as_bytes().to_vec().into(),
        value: value.map(Into::into),
    };
    let headers = vec![header("content-type", Some("text/plain")), header("empty", None)];
    let now_ms = 1_700_000_000_000;
    let at = |ms: i64, record: NewRecord| NewRecord { timestamp_ms: Some(now_ms + ms), ..record };
    let tombstone = NewRecord { value: None, ..record("b", "") };
    let records = vec![
        at(0, NewRecord { headers: headers.clone(), ..record("a", "one") }),
        at(10, record("b", "two")),
        at(20, tombstone),
    ];
    assert_eq!(produce(&mut client, records).await.expect("accepted"), [(0, 0), (0, 1), (0, 2)]);

    let all = client.fetch(fetch_from(0)).await.expect("accepted").into_inner();
    assert_eq!((all.next_offset, all.skipped.len()), (3, 0));
    let found: Vec<_> = all.records.iter().map(|record| (record.offset, record.timestamp_ms - now_ms)).collect();
    assert_eq!(found, [(0, 0), (1, 10), (2, 20)]);
    assert_eq!((&all.records[0].headers, &all.records[0].key), (&headers, &Some("a".into())));
    assert_eq!(all.records[2].value, None);

    let some = FetchRecordsRequest { limit: 1, ..fetch_from(1) };
    let some = client.fetch(some).await.expect("accepted").into_inner();
    assert_eq!((values(&some.records), some.next_offset), (vec!["two"], 2));
    let late = FetchRecordsRequest { from: Some(From::TimestampMs(now_ms + 5)), ..fetch_from(0) };
    assert_eq!(client.fetch(late).await.expect("accepted").into_inner().records[0].offset, 1);
    let at_the_end = client.fetch(fetch_from(3)).await.expect("accepted").into_inner();
    assert_eq!((at_the_end.records.len(), at_the_end.next_offset), (0, 3));

    let refused = client.fetch(fetch_from(4)).await.expect_err("beyond the end");
    let (code, reason, facts) = told(&refused);
    assert_eq!((code, &*reason), (Code::OutOfRange, "OFFSET_OUT_OF_RANGE"));
    assert_eq!((&*facts["start"], &*facts["next"]), ("0", "3"));
    for unknown in [
        FetchRecordsRequest { topic: "nowhere".to_owned(), ..fetch_from(0) },
        FetchRecordsRequest { partition: 1, ..fetch_from(0) },
    ] {
        let refused = client.fetch(unknown).await.expect_err("unknown");
        assert_eq!(told(&refused).1, "NOT_FOUND");
    }
}

#[tokio::test]
async fn a_produce_is_refused_as_a_whole_and_names_the_record() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    create(&mut client, 2).await;
    let refused =
        produce(&mut client, vec![to_partition(1, "a"), to_partition(2, "b")]).await.expect_err("no partition");
    let (_, _, facts) = told(&refused);
    assert_eq!(facts["record"], "1");
    let described = client.describe_topic(DescribeTopicRequest { topic: TOPIC.to_owned() }).await.expect("described");
    assert_eq!(described.into_inner().written, 0);
    for records in [Vec::new(), vec![record("k", "v"); 1_025]] {
        let refused = produce(&mut client, records).await.expect_err("too few or too many");
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
    let most = produce(&mut client, vec![to_partition(1, "v"); 1_024]).await.expect("accepted");
    assert_eq!(most.last(), Some(&(1, 1_023)));
}

#[tokio::test]
async fn a_fetch_waits_for_a_record() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    create(&mut client, 1).await;
    let mut other = client.clone();
    let waiting = tokio::spawn(async move {
        let wait = FetchRecordsRequest { wait_us: 60_000_000, ..fetch_from(0) };
        other.fetch(wait).await.expect("accepted").into_inner()
    });
    produce(&mut client, vec![record("k", "v")]).await.expect("accepted");
    assert_eq!(values(&waiting.await.expect("no panic").records), ["v"]);
    let none = client.fetch(FetchRecordsRequest { wait_us: 1, ..fetch_from(1) }).await.expect("accepted");
    assert!(none.into_inner().records.is_empty());
    let long = client.fetch(FetchRecordsRequest { wait_us: 60_000_001, ..fetch_from(0) }).await;
    assert_eq!(long.expect_err("too long").code(), Code::InvalidArgument);
}

#[tokio::test]
async fn topics_are_created_described_changed_and_deleted() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    let settings = TopicSettings {
        retention_ms: Some(5_000_000),
        cleanup: Some("compact,delete".to_owned()),
        compression: Some("zstd".to_owned()),
        ..TopicSettings::default()
    };
    let create = |settings| CreateTopicRequest { name: TOPIC.to_owned(), partitions: 2, settings };
    client.create_topic(create(Some(settings))).await.expect("accepted");
    let again = client.create_topic(create(None)).await.expect_err("it exists");
    assert_eq!(told(&again).2["partitions"], "2");
    produce(&mut client, vec![to_partition(1, "v")]).await.expect("accepted");
    let listed = client.list_topics(ListTopicsRequest {}).await.expect("listed").into_inner().topics;
    assert_eq!(listed, [list_topics_response::Topic { topic: TOPIC.to_owned(), partitions: 2 }]);

    let describe = || DescribeTopicRequest { topic: TOPIC.to_owned() };
    let described = client.describe_topic(describe()).await.expect("described").into_inner();
    let found = described.settings.expect("settings");
    assert_eq!((found.retention_ms, found.retention_bytes), (Some(5_000_000), None));
    assert_eq!((found.cleanup.as_deref(), found.compression.as_deref()), (Some("compact,delete"), Some("zstd")));
    assert_eq!(described.written, 1);
    let ends: Vec<_> = described.partitions.iter().map(|partition| (partition.start, partition.next)).collect();
    assert_eq!(ends, [(0, 0), (0, 1)]);

    let alter = |partitions, settings, reset: &[&str]| AlterTopicRequest {
        topic: TOPIC.to_owned(),
        partitions,
        settings,
        reset_settings: reset.iter().map(ToString::to_string).collect(),
    };
    let grown = client.alter_topic(alter(Some(3), None, &[])).await.expect("accepted").into_inner();
    assert_eq!(grown.partitions, 3);
    let bytes = TopicSettings { retention_bytes: Some(1 << 20), ..TopicSettings::default() };
    client.alter_topic(alter(None, Some(bytes.clone()), &["retention_ms", "cleanup"])).await.expect("accepted");
    let described = client.describe_topic(describe()).await.expect("described").into_inner();
    let found = described.settings.expect("settings");
    assert_eq!((found.retention_ms, found.retention_bytes), (None, Some(1 << 20)));
    assert_eq!((found.cleanup.as_deref(), found.compression.as_deref()), (Some("delete"), Some("zstd")));
    for invalid in [
        alter(None, None, &[]),
        alter(Some(4), Some(bytes.clone()), &[]),
        alter(Some(4), None, &["cleanup"]),
        alter(None, Some(bytes), &["retention_bytes"]),
        alter(None, None, &["color"]),
        alter(None, Some(TopicSettings { cleanup: Some("burn".to_owned()), ..TopicSettings::default() }), &[]),
        alter(None, Some(TopicSettings { compression: Some("rar".to_owned()), ..TopicSettings::default() }), &[]),
    ] {
        let refused = client.alter_topic(invalid.clone()).await.expect_err("invalid");
        assert_eq!(refused.code(), Code::InvalidArgument, "{invalid:?}");
    }

    let delete = DeleteRecordsRequest { topic: TOPIC.to_owned(), partition: 1, before: None };
    let deleted = client.delete_records(delete).await.expect("accepted").into_inner();
    assert_eq!((deleted.partition, deleted.start), (1, 1));
    client.delete_topic(DeleteTopicRequest { topic: TOPIC.to_owned() }).await.expect("accepted");
    let refused = client.describe_topic(describe()).await.expect_err("deleted");
    assert_eq!(told(&refused).1, "NOT_FOUND");
}

#[tokio::test]
async fn groups_are_listed_described_reset_and_deleted() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    create(&mut client, 2).await;
    let record = |value| NewRecord { timestamp_ms: Some(1_700_000_000_000), ..to_partition(0, value) };
    let now = NewRecord { timestamp_ms: None, ..record("c") };
    produce(&mut client, vec![record("a"), record("b"), now]).await.expect("accepted");
    let commit = CommitOffsetRequest {
        group: GROUP.to_owned(),
        topic: TOPIC.to_owned(),
        offset: 1,
        metadata: "note".to_owned(),
        ..CommitOffsetRequest::default()
    };
    client.commit_offset(commit).await.expect("accepted");
    let groups = client.list_groups(ListGroupsRequest {}).await.expect("listed").into_inner().groups;
    assert_eq!((groups.len(), groups[0].partitions, groups[0].members), (1, 1, 0));
    let describe = || DescribeGroupRequest { group: GROUP.to_owned() };
    let described = client.describe_group(describe()).await.expect("described").into_inner();
    let [offset] = &described.offsets[..] else { panic!("{described:?}") };
    assert_eq!(offset.source, Some(Source::Topic(TOPIC.to_owned())));
    assert_eq!((offset.offset, offset.start, offset.next, offset.lag), (1, 0, 3, 2));
    assert_eq!(offset.metadata, "note");

    let mut reset = async |partitions: &[u32], to: To| {
        let source = Some(reset_offsets_request::Source::Topic(TOPIC.to_owned()));
        let (group, partitions) = (GROUP.to_owned(), partitions.to_vec());
        let request = ResetOffsetsRequest { group, source, partitions, to: Some(to) };
        let offsets = client.reset_offsets(request).await?.into_inner().offsets;
        Ok::<_, Status>(offsets.into_iter().map(|at| (at.partition, at.offset)).collect::<Vec<_>>())
    };
    assert_eq!(reset(&[], To::End(true)).await.expect("accepted"), [(0, 3), (1, 0)]);
    assert_eq!(reset(&[0], To::Start(true)).await.expect("accepted"), [(0, 0)]);
    assert_eq!(reset(&[0], To::Offset(2)).await.expect("accepted"), [(0, 2)]);
    assert_eq!(reset(&[], To::TimestampMs(1_700_000_000_001)).await.expect("accepted"), [(0, 2), (1, 0)]);
    assert_eq!(reset(&[], To::End(false)).await.expect_err("false").code(), Code::InvalidArgument);
    assert_eq!(reset(&[7], To::End(true)).await.expect_err("unknown").code(), Code::NotFound);
    for repeated in [&[0, 0][..], &[0, 1, 0]] {
        for to in [To::Offset(1), To::End(true)] {
            assert!(reset(repeated, to).await.is_err(), "a partition is given once");
        }
    }
    assert_eq!(reset(&[1, 0], To::Offset(1)).await.expect("accepted"), [(1, 1), (0, 1)]);

    let delete = DeleteGroupRequest { group: GROUP.to_owned(), force: false };
    client.delete_group(delete).await.expect("accepted");
    let refused = client.describe_group(describe()).await.expect_err("deleted");
    assert_eq!(told(&refused).1, "NOT_FOUND");
}

#[tokio::test]
async fn a_group_is_reset_in_a_store_and_in_the_events_of_a_queue() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    let event = NewEvent { r#type: "Made".to_owned(), ..NewEvent::default() };
    let append = AppendEventsRequest { store: "s".to_owned(), events: vec![event; 2], ..Default::default() };
    served.events().await.append(append).await.expect("accepted");
    let job = NewJob { queue: "q".to_owned(), ..NewJob::default() };
    served.jobs().await.enqueue(EnqueueJobsRequest { jobs: vec![job] }).await.expect("accepted");
    let mut reset = async |source, to| {
        let request =
            ResetOffsetsRequest { group: GROUP.to_owned(), source: Some(source), partitions: Vec::new(), to: Some(to) };
        Ok::<_, Status>(client.reset_offsets(request).await?.into_inner().offsets[0].offset)
    };
    let (store, queue) = (
        || reset_offsets_request::Source::Store("s".to_owned()),
        || reset_offsets_request::Source::Queue("q".to_owned()),
    );
    assert_eq!(reset(store(), To::Start(true)).await.expect("accepted"), 1);
    assert_eq!(reset(store(), To::End(true)).await.expect("accepted"), 3);
    assert_eq!(reset(queue(), To::Start(true)).await.expect("accepted"), 0);
    assert!(reset(queue(), To::End(true)).await.expect("accepted") > 0, "the queue has events");
    assert_eq!(reset(store(), To::TimestampMs(1)).await.expect_err("no times").code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_consumer_gets_records_and_new_ones_and_continues_after_its_commit() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    create(&mut client, 1).await;
    produce(&mut client, vec![record("k", "a"), record("k", "b")]).await.expect("accepted");
    let mut pages = client.consume(consume("")).await.expect("accepted").into_inner();
    let first = page(&mut pages).await;
    assert_eq!((values(&first.records), first.next_offset, first.lost), (vec!["a", "b"], 2, 0));
    client.commit_offset(commit_of(&first)).await.expect("it owns the partition");
    produce(&mut client, vec![record("k", "c")]).await.expect("accepted");
    let second = page(&mut pages).await;
    assert_eq!((values(&second.records), second.owner), (vec!["c"], first.owner));
    drop(pages);
    // It did not commit the second page: the next member gets it again.
    let mut pages = client.consume(consume("")).await.expect("accepted").into_inner();
    let again = page(&mut pages).await;
    assert_eq!(values(&again.records), ["c"]);
    assert_ne!(again.owner, second.owner);
    assert_lost(client.commit_offset(commit_of(&second)).await);
    client.commit_offset(commit_of(&again)).await.expect("it owns the partition");
}

#[tokio::test]
async fn the_members_of_a_group_share_the_partitions() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    create(&mut client, 2).await;
    produce(&mut client, vec![to_partition(0, "a"), to_partition(1, "b")]).await.expect("accepted");
    let mut one = client.consume(consume("")).await.expect("accepted").into_inner();
    let (first, second) = (page(&mut one).await, page(&mut one).await);
    assert_eq!([first.partition, second.partition], [0, 1]);
    let mut other = served.streams().await.consume(consume("")).await.expect("accepted").into_inner();
    // The second member has one of the partitions. Its page has the uncommitted records.
    let moved = page(&mut other).await;
    let lost = if moved.partition == 0 { &first } else { &second };
    let kept = if moved.partition == 0 { &second } else { &first };
    assert_eq!(values(&moved.records), values(&lost.records));
    assert_lost(client.commit_offset(commit_of(lost)).await);
    client.commit_offset(commit_of(kept)).await.expect("it still has this partition");
    client.commit_offset(commit_of(&moved)).await.expect("it has the partition now");
    let described = client.describe_group(DescribeGroupRequest { group: GROUP.to_owned() }).await.expect("described");
    let members = described.into_inner().members;
    assert_eq!(members.iter().map(|member| member.partitions.len()).collect::<Vec<_>>(), [1, 1]);

    drop(other);
    produce(&mut client, vec![to_partition(0, "c"), to_partition(1, "d")]).await.expect("accepted");
    let mut partitions = [page(&mut one).await.partition, page(&mut one).await.partition];
    partitions.sort_unstable();
    assert_eq!(partitions, [0, 1], "the remaining member has both");
}

#[tokio::test]
async fn a_member_of_the_same_name_takes_the_place_over() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    create(&mut client, 1).await;
    produce(&mut client, vec![record("k", "a")]).await.expect("accepted");
    let mut old = client.consume(consume("reader")).await.expect("accepted").into_inner();
    page(&mut old).await;
    let mut new = served.streams().await.consume(consume("reader")).await.expect("accepted").into_inner();
    assert_eq!(values(&page(&mut new).await.records), ["a"]);
    let ended = old.message().await.expect_err("another member has its place");
    let (code, reason, _) = told(&ended);
    assert_eq!((code, &*reason), (Code::Aborted, "MEMBER_REPLACED"));
}

#[tokio::test]
async fn a_member_that_commits_nothing_loses_its_partitions() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    create(&mut client, 2).await;
    produce(&mut client, vec![to_partition(0, "a"), to_partition(1, "b")]).await.expect("accepted");
    let hangs = ConsumeRequest { lease_ms: 100, handling_max_ms: 1, ..consume("") };
    let mut old = client.consume(hangs).await.expect("accepted").into_inner();
    let pages = [page(&mut old).await, page(&mut old).await];
    // The other member joins, and gets one of the partitions. Its renewals notice that the lease of
    // the first one is over: then it gets the second one.
    let patient = ConsumeRequest { lease_ms: 100, ..consume("") };
    let mut new = served.streams().await.consume(patient).await.expect("accepted").into_inner();
    let mut moved = [page(&mut new).await, page(&mut new).await];
    moved.sort_by_key(|page| page.partition);
    assert_eq!(moved.iter().flat_map(|page| values(&page.records)).collect::<Vec<_>>(), ["a", "b"]);
    for page in &pages {
        assert_lost(client.commit_offset(commit_of(page)).await);
    }
    // It does not take a partition back.
    let ended = old.message().await.expect_err("its client hangs");
    assert_eq!(told(&ended).1, "UNKNOWN_MEMBER");
    for page in &moved {
        client.commit_offset(commit_of(page)).await.expect("it owns both partitions");
    }
}

#[tokio::test]
async fn a_lease_has_bounds() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    create(&mut client, 1).await;
    for lease_ms in [1, 99, 3_600_001] {
        let refused = client.consume(ConsumeRequest { lease_ms, ..consume("") }).await.expect_err("out of bounds");
        assert!(refused.message().contains("between 100 and 3600000"), "{refused:?}");
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn records_that_were_all_deleted_are_reported_with_the_next_page() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    create(&mut client, 1).await;
    produce(&mut client, vec![record("k", "a"), record("k", "b")]).await.expect("accepted");
    let begin = CommitOffsetRequest { group: GROUP.to_owned(), topic: TOPIC.to_owned(), ..Default::default() };
    client.commit_offset(begin).await.expect("accepted");
    let delete = DeleteRecordsRequest { topic: TOPIC.to_owned(), partition: 0, before: None };
    client.delete_records(delete).await.expect("accepted");
    let mut pages = client.consume(consume("")).await.expect("accepted").into_inner();
    for (value, lost) in [("c", 2), ("d", 0)] {
        produce(&mut client, vec![record("k", value)]).await.expect("accepted");
        let page = page(&mut pages).await;
        assert_eq!((values(&page.records), page.lost), (vec![value], lost));
    }
}

#[tokio::test]
async fn a_consumer_from_the_end_skips_existing_records_and_commits_results_with_the_offset() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    create(&mut client, 1).await;
    produce(&mut client, vec![record("k", "before")]).await.expect("accepted");
    let from_end = ConsumeRequest { from_end: true, ..consume("") };
    let mut pages = client.consume(from_end).await.expect("accepted").into_inner();
    produce(&mut client, vec![record("k", "after")]).await.expect("accepted");
    let first = page(&mut pages).await;
    assert_eq!(values(&first.records), ["after"]);
    let mut commits = served.commits().await;
    let commit = || {
        let job = NewJob { queue: "q".to_owned(), ..NewJob::default() };
        let kinds =
            [commit_part::Kind::Enqueue(Box::new(job)), commit_part::Kind::CommitOffset(Box::new(commit_of(&first)))];
        CommitRequest { parts: kinds.map(|kind| CommitPart { kind: Some(kind) }).to_vec(), dry_run: false }
    };
    commits.commit(commit()).await.expect("it owns the partition");
    drop(pages);
    let mut pages = client.consume(consume("")).await.expect("accepted").into_inner();
    produce(&mut client, vec![record("k", "last")]).await.expect("accepted");
    assert_eq!(values(&page(&mut pages).await.records), ["last"]);
    let refused = commits.commit(commit()).await.expect_err("the member has left");
    assert_eq!(told(&refused).2["part"], "1");
    let queues = served.jobs().await.queues(QueuesRequest::default()).await.expect("listed").into_inner().queues;
    assert_eq!(queues[0].jobs["pending"], 1, "the job of the refused commit is not there");
}

#[tokio::test]
async fn a_consumer_is_refused_without_a_topic_and_ends_when_the_server_stops() {
    let served = Served::new().await;
    let mut client = served.streams().await;
    let refused = client.consume(consume("")).await.expect_err("unknown topic");
    assert!(refused.message().contains("unknown topic"), "{refused:?}");
    let refused = client.consume(ConsumeRequest { group: String::new(), ..consume("") }).await;
    assert_eq!(refused.expect_err("no group").code(), Code::InvalidArgument);
    create(&mut client, 1).await;
    let mut pages = client.consume(consume("")).await.expect("accepted").into_inner();
    let folder = served.stop().await;
    let ended = pages.message().await.expect_err("the server stops");
    assert_eq!(told(&ended).1, "STOPPING");
    drop(folder);
}
