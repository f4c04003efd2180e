//! Lists of everything that is there: they are read in slices, and are whole.

use kafka_protocol::messages::describe_topic_partitions_request::Cursor;
use kafka_protocol::messages::list_config_resources_response::ConfigResource;
use kafka_protocol::messages::{
    DescribeTopicPartitionsRequest, ListConfigResourcesRequest, ListGroupsRequest, MetadataRequest, TopicName,
};
use quire::events::NewEvent;
use quire::streams::{Command, Committer, TopicRef, TopicSettings};
use quire::{Commit, Database, NewJob, Part, Sequence};

use crate::support::World;

/// More than a slice of each kind.
const EACH: usize = 300;

fn commit(database: &Database, commit: &Commit<'_>) {
    database.commit(commit).expect("decided").committed().expect("accepted");
}

/// Creates topics, event stores, queues and groups; returns the names of all topics in the order
/// of Metadata.
fn fill(database: &Database) -> Vec<String> {
    let name = |kind: &str| (0..EACH).map(|number| format!("{kind}/{number:04}")).collect::<Vec<_>>();
    let (stores, queues) = (name("store"), name("queue"));
    let topics: Vec<String> = name("topic").iter().map(|name| name.replace('/', ".")).collect();
    let parts = topics.iter().fold(Commit::new(), |commit, name| {
        commit.part(Part::Streams(Command::CreateTopic { name, partitions: 2, settings: TopicSettings::default() }))
    });
    commit(database, &parts);
    let parts = stores.iter().fold(Commit::new(), |commit, store| commit.append(store, [NewEvent::new("Placed")]));
    commit(database, &parts);
    commit(database, &queues.iter().fold(Commit::new(), |commit, queue| commit.enqueue(queue, NewJob::new("job"))));
    let groups = name("group");
    let parts = groups.iter().fold(Commit::new(), |commit, group| {
        commit.part(Part::Streams(Command::CommitOffset {
            group,
            topic: TopicRef::Name(&topics[0]),
            partition: 0,
            offset: Sequence::new(1),
            leader_epoch: None,
            metadata: "",
            by: Committer::Anyone,
        }))
    });
    commit(database, &parts);
    let dotted = stores.iter().map(|store| store.replace('/', "."));
    let jobs = queues.iter().map(|queue| format!("jobs.{}", queue.replace('/', ".")));
    topics.iter().cloned().chain(dotted).chain(jobs).collect()
}

#[tokio::test]
async fn every_list_is_whole() {
    let world = World::new().await;
    let names = fill(&world.database);
    let mut client = world.client().await;
    let all = client.call(12, &MetadataRequest::default().with_topics(None)).await;
    let listed: Vec<_> = all.topics.iter().map(|topic| topic.name.as_ref().expect("a name").to_string()).collect();
    assert_eq!(listed, names);

    let resources = client.call(1, &ListConfigResourcesRequest::default().with_resource_types(vec![2])).await;
    let name = |resource: ConfigResource| resource.resource_name.to_string();
    assert_eq!(resources.config_resources.into_iter().map(name).collect::<Vec<_>>(), names);

    let groups = client.call(4, &ListGroupsRequest::default()).await;
    assert_eq!((groups.error_code, groups.groups.len()), (0, EACH));
    assert!(groups.groups.is_sorted_by(|one, next| one.group_id.as_str() < next.group_id.as_str()));

    let mut sorted = names;
    sorted.sort_unstable();
    let (mut described, mut cursor) = (Vec::new(), None);
    loop {
        let request = DescribeTopicPartitionsRequest::default().with_response_partition_limit(77);
        let page = client.call(0, &request.with_cursor(cursor.take())).await;
        let partitions = page.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>();
        assert!(partitions <= 77, "{partitions}");
        for topic in page.topics {
            let name = topic.name.expect("a name").to_string();
            described.extend(topic.partitions.iter().map(|partition| (name.clone(), partition.partition_index)));
        }
        let Some(next) = page.next_cursor else { break };
        let topic = TopicName(next.topic_name.0);
        cursor = Some(Cursor::default().with_topic_name(topic).with_partition_index(next.partition_index));
    }
    let partitions = |name: &String| if name.starts_with("topic") { 2 } else { 1 };
    let expected = sorted.iter().flat_map(|name| (0..partitions(name)).map(|number| (name.clone(), number)));
    assert_eq!(described, expected.collect::<Vec<_>>());
}
