//! Answers that exceed the byte budget: they are refused while they are built.

use quire::streams::{Command, TopicRef, TopicSettings};
use quire::{Commit, Database, NewBlock, NewEdge, NewJob, Part, Sequence, streams};
use quire_access::budget::ByteBudget;
use quire_grpc::proto::{
    BlockRef, DescribeGroupRequest, DescribeTopicRequest, GetBlocksRequest, GetEdgeRequest, GetVersionsRequest,
    ListTopicsRequest, QueuesRequest, block_ref,
};
use tonic::{Response, Status};

use crate::served::{Served, told};

/// Whether an answer is refused for its memory.
fn is_refused<T>(answer: Result<Response<T>, Status>) -> bool {
    let Err(status) = answer else { return false };
    let (_, reason, _) = told(&status);
    assert!(["TOO_LARGE", "OVERLOADED"].contains(&reason.as_str()), "{status:?}");
    true
}

fn block(name: &str) -> Option<BlockRef> {
    Some(BlockRef { r#ref: Some(block_ref::Ref::Name(name.to_owned())) })
}

fn commit(database: &Database, commit: &Commit<'_>) {
    database.commit(commit).expect("decided").committed().expect("accepted");
}

#[tokio::test]
async fn versions_blocks_and_edges_are_refused_while_they_are_read() {
    let budget = ByteBudget::new(4 << 20);
    let (served, owner) = Served::with_budget(budget.clone()).await;
    let content = vec![7; 1 << 20];
    let graph = owner.graph("g");
    for _ in 0..20 {
        graph.put_block(NewBlock::new("a", "file").content(&content)).expect("put");
    }
    for name in ["b", "c", "d", "e"] {
        graph.put_block(NewBlock::new(name, "file").content(&content)).expect("put");
    }
    let mut client = served.graph().await;
    let versions =
        |limit| GetVersionsRequest { graph: "g".to_owned(), block: block("a"), before: None, limit: Some(limit) };
    assert!(is_refused(client.get_versions(versions(20)).await));
    let found = client.get_versions(versions(2)).await.expect("read").into_inner().versions;
    assert_eq!(found.len(), 2);
    let blocks = |names: &[&str]| GetBlocksRequest {
        graph: "g".to_owned(),
        blocks: names.iter().filter_map(|name| block(name)).collect(),
        at: None,
    };
    assert!(is_refused(client.get_blocks(blocks(&["a", "b", "c", "d", "e"])).await));
    assert!(!is_refused(client.get_blocks(blocks(&["a", "b"])).await));
    let properties = format!("{{\"text\":\"{}\"}}", "x".repeat(1_000_000));
    graph.put_edge(NewEdge::new("a", "calls", "b").properties(properties.as_bytes())).expect("put");
    let edge = GetEdgeRequest {
        graph: "g".to_owned(),
        source: block("a"),
        r#type: "calls".to_owned(),
        target: block("b"),
        at: None,
    };
    assert_eq!(client.get_edge(edge).await.expect("read").into_inner().properties.len(), properties.len());
    drop(client);
    served.stop().await;
    assert_eq!(budget.usage().bytes_used, 0);
}

#[tokio::test]
async fn lists_are_refused_while_they_are_built() {
    let budget = ByteBudget::new(1 << 20);
    let (served, owner) = Served::with_budget(budget.clone()).await;
    for first in [0, 600] {
        let names: Vec<String> = (first..first + 600).map(|number| format!("q{number}")).collect();
        commit(&owner, &names.iter().fold(Commit::new(), |commit, name| commit.enqueue(name, NewJob::new("job"))));
    }
    let create = |name, partitions| {
        let command = Command::CreateTopic { name, partitions, settings: TopicSettings::default() };
        commit(&owner, &Commit::new().part(Part::Streams(command)));
    };
    create("wide", 10_000);
    create("narrow", 1);
    let metadata = "m".repeat(4_000);
    for group in ["few", "many"] {
        let partitions = if group == "few" { 0..1 } else { 0..300 };
        let offsets = partitions.fold(Commit::new(), |commit, partition| {
            commit.part(Part::Streams(Command::CommitOffset {
                group,
                topic: TopicRef::Name("wide"),
                partition,
                offset: Sequence::new(1),
                leader_epoch: None,
                metadata: &metadata,
                by: streams::Committer::Anyone,
            }))
        });
        commit(&owner, &offsets);
    }

    let mut jobs = served.jobs().await;
    let queues = |queues: &[&str]| QueuesRequest { queues: queues.iter().map(|&name| name.to_owned()).collect() };
    assert!(is_refused(jobs.queues(queues(&[])).await));
    assert!(!is_refused(jobs.queues(queues(&["q7"])).await));
    let mut streams = served.streams().await;
    let topic = |topic: &str| DescribeTopicRequest { topic: topic.to_owned() };
    assert!(is_refused(streams.describe_topic(topic("wide")).await));
    assert!(!is_refused(streams.describe_topic(topic("narrow")).await));
    assert!(!is_refused(streams.list_topics(ListTopicsRequest {}).await));
    let group = |group: &str| DescribeGroupRequest { group: group.to_owned() };
    assert!(is_refused(streams.describe_group(group("many")).await));
    let found = streams.describe_group(group("few")).await.expect("read").into_inner();
    assert_eq!(found.offsets[0].metadata, metadata);
    drop((jobs, streams));
    served.stop().await;
    assert_eq!(budget.usage().bytes_used, 0);
}
