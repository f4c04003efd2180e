//! Consumer groups on the wire: members join, share, commit, go silent, are fenced, and come back
//! after a restart.

use bytes::Bytes;
use kafka_protocol::ResponseError::{self, *};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest,
    SyncGroupRequest, SyncGroupResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use quire::Sequence;
use quire::events::NewEvent;
use quire_kafka::Settings;

use crate::support::{Client, World, text};

/// Sessions that no test sees the end of.
const LONG_MS: i32 = 600_000;

/// A consumer's subscription to one topic: version 0, one name, no user data.
pub(crate) fn subscription(topic: &str) -> Bytes {
    let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, u8::try_from(topic.len()).expect("a short name")];
    bytes.extend_from_slice(topic.as_bytes());
    bytes.extend_from_slice(&[0xff; 4]);
    bytes.into()
}

pub(crate) fn joining(member: &str) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata(subscription("t"));
    JoinGroupRequest::default()
        .with_group_id(text("g").into())
        .with_session_timeout_ms(LONG_MS)
        .with_rebalance_timeout_ms(LONG_MS)
        .with_member_id(text(member))
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol])
}

pub(crate) fn syncing(joined: &JoinGroupResponse, assignments: &[(&str, &str)]) -> SyncGroupRequest {
    let assignments = assignments.iter().map(|(member, assignment)| {
        let assignment = Bytes::copy_from_slice(assignment.as_bytes());
        SyncGroupRequestAssignment::default().with_member_id(text(member)).with_assignment(assignment)
    });
    SyncGroupRequest::default()
        .with_group_id(text("g").into())
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_assignments(assignments.collect())
}

fn code(code: i16) -> Option<ResponseError> {
    ResponseError::try_from_code(code)
}

pub(crate) fn quick() -> Settings {
    Settings { session_timeout_ms_min: 1, group_initial_delay_ms: 0, ..Settings::default() }
}

impl Client {
    /// Joins as a new member, which first gets its id.
    async fn join_new(&mut self) -> JoinGroupResponse {
        let told = self.call(9, &joining("")).await;
        assert_eq!(code(told.error_code), Some(MemberIdRequired));
        self.call(9, &joining(&told.member_id)).await
    }

    async fn heartbeat(&mut self, member: &str, generation: i32) -> Option<ResponseError> {
        let request = HeartbeatRequest::default()
            .with_group_id(text("g").into())
            .with_generation_id(generation)
            .with_member_id(text(member));
        code(self.call(4, &request).await.error_code)
    }

    async fn commit(&mut self, member: &str, generation: i32, topic: &str, offset: i64) -> Option<ResponseError> {
        let response = self.call(8, &committing(member, generation, topic, 0, offset)).await;
        code(response.topics[0].partitions[0].error_code)
    }

    pub(crate) async fn committed(&mut self, topic: &str) -> (i64, String) {
        let asked =
            OffsetFetchRequestTopics::default().with_name(TopicName(text(topic))).with_partition_indexes(vec![0]);
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(text("g").into())
            .with_member_epoch(-1)
            .with_topics(Some(vec![asked]));
        let response = self.call(8, &OffsetFetchRequest::default().with_groups(vec![group])).await;
        let partition = &response.groups[0].topics[0].partitions[0];
        assert_eq!(partition.error_code, 0);
        (partition.committed_offset, partition.metadata.as_deref().unwrap_or_default().to_owned())
    }

    async fn leave(&mut self, member: &str, instance: Option<&str>) -> Option<ResponseError> {
        let identity = MemberIdentity::default().with_member_id(text(member));
        let identity = identity.with_group_instance_id(instance.map(text));
        let request = LeaveGroupRequest::default().with_group_id(text("g").into()).with_members(vec![identity]);
        code(self.call(5, &request).await.members[0].error_code)
    }

    async fn state(&mut self) -> (String, usize) {
        let request = DescribeGroupsRequest::default().with_groups(vec![text("g").into()]);
        let group = self.call(6, &request).await.groups.remove(0);
        (group.group_state.to_string(), group.members.len())
    }
}

fn committing(member: &str, generation: i32, topic: &str, partition: i32, offset: i64) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(partition)
        .with_committed_offset(offset)
        .with_committed_metadata(Some(text("a note")));
    let topic = OffsetCommitRequestTopic::default().with_name(TopicName(text(topic))).with_partitions(vec![partition]);
    OffsetCommitRequest::default()
        .with_group_id(text("g").into())
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(text(member))
        .with_topics(vec![topic])
}

fn assignment(synced: &SyncGroupResponse) -> (i16, &str) {
    (synced.error_code, std::str::from_utf8(&synced.assignment).expect("text"))
}

#[tokio::test]
async fn two_members_share_the_partitions_and_a_third_causes_a_new_assignment() {
    let world = World::with(quick()).await;
    let (mut a, mut b, mut c) = (world.client().await, world.client().await, world.client().await);
    a.topic("t").await;
    let first = a.join_new().await;
    assert_eq!((first.error_code, first.generation_id, first.leader == first.member_id), (0, 1, true));
    assert_eq!(first.members[0].metadata, subscription("t"));
    let alone = a.call(5, &syncing(&first, &[(&first.member_id, "all")])).await;
    assert_eq!(assignment(&alone), (0, "all"));
    assert_eq!(a.heartbeat(&first.member_id, 1).await, None);
    assert_eq!(a.state().await, (String::from("Stable"), 1));

    // The second waits until the first is back.
    let told = b.call(9, &joining("")).await;
    b.send(9, &joining(&told.member_id)).await;
    while a.heartbeat(&first.member_id, 1).await != Some(RebalanceInProgress) {}
    let leader = a.call(9, &joining(&first.member_id)).await;
    let (_, follower): (_, JoinGroupResponse) = b.receive(9).await;
    assert_eq!((leader.generation_id, follower.generation_id), (2, 2));
    assert_eq!((leader.members.len(), follower.members.len()), (2, 0));
    assert_eq!(follower.leader, first.member_id);
    b.send(5, &syncing(&follower, &[])).await;
    let shares = [(&*first.member_id, "left"), (&*follower.member_id, "right")];
    assert_eq!(assignment(&a.call(5, &syncing(&leader, &shares)).await), (0, "left"));
    let (_, synced): (_, SyncGroupResponse) = b.receive(5).await;
    assert_eq!(assignment(&synced), (0, "right"));

    // Requests of a member of the earlier generation are refused.
    assert_eq!(b.heartbeat(&follower.member_id, 1).await, Some(IllegalGeneration));
    assert_eq!(b.commit(&follower.member_id, 1, "t", 1).await, Some(IllegalGeneration));
    assert_eq!(b.commit(&follower.member_id, 2, "t", 1).await, None);
    assert_eq!(c.commit("", -1, "t", 7).await, Some(UnknownMemberId));
    assert_eq!(c.commit("someone", 2, "t", 7).await, Some(UnknownMemberId));
    assert_eq!(c.committed("t").await, (1, String::from("a note")));

    // One member leaves, and the other member gets all partitions again.
    assert_eq!(b.leave(&follower.member_id, None).await, None);
    assert_eq!(b.leave(&follower.member_id, None).await, Some(UnknownMemberId));
    assert_eq!(a.heartbeat(&first.member_id, 2).await, Some(RebalanceInProgress));
    let alone = a.call(9, &joining(&first.member_id)).await;
    assert_eq!((alone.generation_id, alone.members.len()), (3, 1));
}

#[tokio::test]
async fn a_silent_member_is_taken_out_and_fenced() {
    let world = World::with(quick()).await;
    let (mut a, mut b) = (world.client().await, world.client().await);
    a.topic("t").await;
    let told = a.call(9, &joining("").with_session_timeout_ms(50)).await;
    let silent = a.call(9, &joining(&told.member_id).with_session_timeout_ms(50)).await;
    assert_eq!(a.call(5, &syncing(&silent, &[(&silent.member_id, "all")])).await.error_code, 0);
    let told = b.call(9, &joining("")).await;
    // The response comes when the other member's session has expired: this member gets all
    // partitions.
    let heir = b.call(9, &joining(&told.member_id)).await;
    assert_eq!((heir.error_code, heir.generation_id, heir.members.len()), (0, 2, 1));
    assert_eq!(a.heartbeat(&silent.member_id, 1).await, Some(UnknownMemberId));
    assert_eq!(a.commit(&silent.member_id, 1, "t", 3).await, Some(UnknownMemberId));
    assert_eq!(b.committed("t").await.0, -1);
}

#[tokio::test]
async fn a_leader_that_assigns_no_partitions_does_not_block_its_group_forever() {
    let world = World::with(quick()).await;
    let mut a = world.client().await;
    let told = a.call(9, &joining("")).await;
    let joined = a.call(9, &joining(&told.member_id).with_rebalance_timeout_ms(50)).await;
    // Its heartbeats arrive, but it is removed once its time to send the assignment is over.
    while a.heartbeat(&joined.member_id, 1).await.is_none() {}
    assert_eq!(a.heartbeat(&joined.member_id, 1).await, Some(UnknownMemberId));
}

#[tokio::test]
async fn a_static_member_comes_back_unnoticed_and_fences_its_elder_off_also_after_a_restart() {
    let world = World::with(quick()).await;
    let mut client = world.client().await;
    client.topic("t").await;
    let as_i = |member: &str| joining(member).with_group_instance_id(Some(text("i")));
    let first = client.call(9, &as_i("")).await;
    assert_eq!((first.error_code, first.generation_id), (0, 1));
    let share = syncing(&first, &[(&first.member_id, "all")]).with_group_instance_id(Some(text("i")));
    assert_eq!(client.call(5, &share).await.error_code, 0);
    let second = client.call(9, &as_i("")).await;
    assert_eq!((second.error_code, second.generation_id, second.skip_assignment), (0, 1, true));
    assert_ne!(second.member_id, first.member_id);
    let again = syncing(&second, &[]).with_group_instance_id(Some(text("i")));
    assert_eq!(assignment(&client.call(5, &again).await), (0, "all"));
    assert_eq!(code(client.call(5, &share).await.error_code), Some(FencedInstanceId));
    assert_eq!(code(client.call(9, &as_i(&first.member_id)).await.error_code), Some(FencedInstanceId));

    let world = world.restart().await;
    let mut client = world.client().await;
    assert_eq!(code(client.call(9, &as_i(&first.member_id)).await.error_code), Some(FencedInstanceId));
    assert_eq!(code(client.call(9, &as_i(&second.member_id)).await.error_code), Some(UnknownMemberId));
    let third = client.call(9, &as_i("")).await;
    assert_eq!((third.error_code, third.generation_id), (0, 2));
    assert_eq!(client.leave("", Some("i")).await, None);
    assert_eq!(client.leave("", Some("i")).await, Some(UnknownMemberId));
}

/// Before version 9 a leader can't be asked to skip the assignment. So the response does not name
/// it as the leader (KIP-345).
#[tokio::test]
async fn a_static_leader_of_an_older_version_comes_back_unnoticed_too() {
    let world = World::with(quick()).await;
    let (mut a, mut b) = (world.client().await, world.client().await);
    a.topic("t").await;
    let named = |instance: &str, member: &str| joining(member).with_group_instance_id(Some(text(instance)));
    let first = a.call(5, &named("i", "")).await;
    let share = syncing(&first, &[(&first.member_id, "all")]).with_group_instance_id(Some(text("i")));
    assert_eq!(a.call(3, &share).await.error_code, 0);
    b.send(5, &named("j", "")).await;
    while a.heartbeat(&first.member_id, 1).await != Some(RebalanceInProgress) {}
    let leader = a.call(5, &named("i", &first.member_id)).await;
    let (_, follower): (_, JoinGroupResponse) = b.receive(5).await;
    assert_eq!((leader.generation_id, &leader.leader), (2, &first.member_id));
    let shares = [(&*first.member_id, "left"), (&*follower.member_id, "right")];
    let share = syncing(&leader, &shares).with_group_instance_id(Some(text("i")));
    assert_eq!(a.call(3, &share).await.error_code, 0);

    let mut again = world.client().await;
    let back = again.call(5, &named("i", "")).await;
    assert_eq!((back.error_code, back.generation_id, back.members.len()), (0, 2, 0));
    assert_ne!(back.member_id, first.member_id);
    assert_eq!(back.leader, first.member_id, "not its own: it shares nothing out");
    let synced = again.call(3, &syncing(&back, &[]).with_group_instance_id(Some(text("i")))).await;
    assert_eq!(assignment(&synced), (0, "left"));
    assert_eq!(again.heartbeat(&back.member_id, 2).await, None);
    assert_eq!(b.heartbeat(&follower.member_id, 2).await, None);

    // A member that changes its protocols makes the others rejoin, as usual.
    let mut other = named("i", "");
    other.protocols[0].metadata = subscription("u");
    again.send(5, &other).await;
    while b.heartbeat(&follower.member_id, 2).await != Some(RebalanceInProgress) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_negative_offset_is_kept_as_it_is_and_nothing_counts_as_read() {
    let mut world = World::new().await;
    for offset in [-1, -2, i64::MIN] {
        let mut client = world.client().await;
        client.topic("t").await;
        assert_eq!(client.commit("", -1, "t", 7).await, None);
        assert_eq!(client.commit("", -1, "t", offset).await, None);
        world = world.restart().await;
        let mut client = world.client().await;
        assert_eq!(client.committed("t").await, (offset, String::from("a note")));
        let topic = world.database.topic("t");
        assert_eq!(topic.committed_offset("g", 0).expect("a topic"), None);
        topic.protect_unread("g", true).expect("protected");
        let unread = world.database.read_published(|view| {
            let id = view.streams.topic_named("t").expect("a topic").id;
            view.streams.unread().from(id, 0)
        });
        assert_eq!(unread.expect("read"), Some(Sequence::new(0)), "every record is unread");
    }
}

#[tokio::test]
async fn offsets_and_generations_continue_after_a_restart_and_members_join_again() {
    let world = World::with(quick()).await;
    world.database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    let mut client = world.client().await;
    client.topic("t").await;
    let joined = client.join_new().await;
    assert_eq!(client.call(5, &syncing(&joined, &[(&joined.member_id, "all")])).await.error_code, 0);
    assert_eq!(client.commit(&joined.member_id, 1, "t", 5).await, None);
    assert_eq!(client.commit(&joined.member_id, 1, "air.flights", 2).await, None);
    assert_eq!(client.commit(&joined.member_id, 1, "nowhere", 2).await, Some(UnknownTopicOrPartition));
    let second = client.call(8, &committing(&joined.member_id, 1, "air.flights", 1, 2)).await;
    assert_eq!(code(second.topics[0].partitions[0].error_code), Some(UnknownTopicOrPartition));

    let world = world.restart().await;
    let mut client = world.client().await;
    assert_eq!(client.committed("t").await, (5, String::from("a note")));
    assert_eq!(client.committed("air.flights").await.0, 2);
    let everything = OffsetFetchRequest::default().with_group_id(text("g").into()).with_topics(None);
    let topics = client.call(7, &everything).await.topics;
    let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
    assert_eq!(names, ["t", "air.flights"]);
    assert_eq!(client.heartbeat(&joined.member_id, 1).await, Some(UnknownMemberId));
    assert_eq!(client.state().await, (String::from("Empty"), 0));
    assert_eq!(client.join_new().await.generation_id, 2);
}

#[tokio::test]
async fn members_without_a_protocol_in_common_do_not_join() {
    let world = World::with(quick()).await;
    let mut client = world.client().await;
    let first = client.join_new().await;
    assert_eq!(first.protocol_name.as_deref(), Some("range"));
    let mut other = joining("");
    other.protocols[0].name = text("roundrobin");
    assert_eq!(code(client.call(9, &other).await.error_code), Some(InconsistentGroupProtocol));
    let other = joining("").with_protocol_type(text("connect"));
    assert_eq!(code(client.call(9, &other).await.error_code), Some(InconsistentGroupProtocol));
    let none = joining("").with_protocols(Vec::new());
    assert_eq!(code(client.call(9, &none).await.error_code), Some(InconsistentGroupProtocol));
    assert_eq!(code(client.call(9, &joining("nobody")).await.error_code), Some(UnknownMemberId));
    let nameless = joining("").with_group_id(text("").into());
    assert_eq!(code(client.call(9, &nameless).await.error_code), Some(InvalidGroupId));
    let nothing = nameless.with_protocols(Vec::new()).with_session_timeout_ms(0);
    assert_eq!(code(client.call(9, &nothing).await.error_code), Some(InvalidGroupId), "the name comes first");
}

#[tokio::test]
async fn limits_of_groups_are_those_of_the_settings() {
    let settings = Settings {
        session_timeout_ms_min: 100,
        session_timeout_ms_max: 200,
        group_members_max: 1,
        group_initial_delay_ms: 0,
        ..Settings::default()
    };
    let world = World::with(settings).await;
    let mut client = world.client().await;
    for (ms, expected) in [(99, InvalidSessionTimeout), (201, InvalidSessionTimeout), (-1, InvalidSessionTimeout)] {
        let refused = client.call(9, &joining("").with_session_timeout_ms(ms)).await;
        assert_eq!(code(refused.error_code), Some(expected), "{ms}");
    }
    let told = client.call(9, &joining("").with_session_timeout_ms(200)).await;
    assert_eq!(code(told.error_code), Some(MemberIdRequired));
    let refused = client.call(9, &joining("").with_session_timeout_ms(200)).await;
    assert_eq!(code(refused.error_code), Some(GroupMaxSizeReached));
}

#[tokio::test]
async fn members_that_start_together_are_in_the_first_generation() {
    let world = World::with(Settings { group_initial_delay_ms: 60_000, ..quick() }).await;
    let (mut a, mut b) = (world.client().await, world.client().await);
    let told = a.call(9, &joining("")).await;
    a.send(9, &joining(&told.member_id)).await;
    let told = b.call(9, &joining("")).await;
    b.send(9, &joining(&told.member_id)).await;
    let mut c = world.client().await;
    while c.state().await != (String::from("PreparingRebalance"), 2) {}
    // No response comes before the delay is over; the test does not wait that long.
    let (directory, _) = world.stop().await;
    assert!(a.is_closed().await && b.is_closed().await);
    drop(directory);
}

#[tokio::test]
async fn groups_are_listed_and_deleted_once_they_are_empty() {
    let world = World::with(quick()).await;
    let mut client = world.client().await;
    client.topic("t").await;
    client.topic("u").await;
    let joined = client.join_new().await;
    assert_eq!(client.call(5, &syncing(&joined, &[(&joined.member_id, "all")])).await.error_code, 0);
    for topic in ["t", "u"] {
        assert_eq!(client.commit(&joined.member_id, 1, topic, 5).await, None);
    }
    let listed = client.call(5, &ListGroupsRequest::default()).await.groups.remove(0);
    let told = (listed.group_id.as_str(), listed.group_state.as_str(), listed.protocol_type.as_str());
    assert_eq!(told, ("g", "Stable", "consumer"));
    let empty = ListGroupsRequest::default().with_states_filter(vec![text("Empty")]);
    assert_eq!(client.call(5, &empty).await.groups.len(), 0);
    let other = ListGroupsRequest::default().with_types_filter(vec![text("consumer")]);
    assert_eq!(client.call(5, &other).await.groups.len(), 0);

    let delete = DeleteGroupsRequest::default().with_groups_names(vec![text("g").into(), text("h").into()]);
    let results = client.call(2, &delete).await.results;
    assert_eq!(code(results[0].error_code), Some(NonEmptyGroup));
    assert_eq!(code(results[1].error_code), Some(GroupIdNotFound));
    let forget = |topic: &str| {
        let partitions = vec![OffsetDeleteRequestPartition::default().with_partition_index(0)];
        let topic = OffsetDeleteRequestTopic::default().with_name(TopicName(text(topic))).with_partitions(partitions);
        OffsetDeleteRequest::default().with_group_id(text("g").into()).with_topics(vec![topic])
    };
    let read = client.call(0, &forget("t")).await;
    assert_eq!(code(read.topics[0].partitions[0].error_code), Some(GroupSubscribedToTopic));
    assert_eq!(client.call(0, &forget("u")).await.topics[0].partitions[0].error_code, 0);
    assert_eq!(client.committed("u").await.0, -1);

    assert_eq!(client.leave(&joined.member_id, None).await, None);
    assert_eq!(client.state().await, (String::from("Empty"), 0));
    assert_eq!(client.call(2, &delete).await.results[0].error_code, 0);
    assert_eq!(client.state().await, (String::from("Dead"), 0));
    assert_eq!(client.committed("t").await.0, -1);
    // A group that begins again begins at 1.
    assert_eq!(client.join_new().await.generation_id, 1);
}

#[tokio::test]
async fn every_version_of_the_apis_of_groups_is_served() {
    let world = World::with(quick()).await;
    let mut client = world.client().await;
    client.topic("t").await;
    for version in 0..=9 {
        let mut joined = client.call(version, &of_version(joining(""), version)).await;
        if version >= 4 {
            joined = client.call(version, &of_version(joining(&joined.member_id), version)).await;
        }
        assert_eq!(joined.error_code, 0, "JoinGroup {version}");
        let member = joined.member_id.clone();
        let sync = syncing(&joined, &[(&member, "all")]);
        assert_eq!(client.call(version.min(5), &sync).await.error_code, 0, "SyncGroup {version}");
        let beat = HeartbeatRequest::default()
            .with_group_id(text("g").into())
            .with_generation_id(joined.generation_id)
            .with_member_id(member.clone());
        assert_eq!(client.call(version.min(4), &beat).await.error_code, 0, "Heartbeat {version}");
        let commit = committing(&member, joined.generation_id, "t", 0, i64::from(version));
        let committed = client.call(version.clamp(2, 9), &commit).await;
        assert_eq!(committed.topics[0].partitions[0].error_code, 0, "OffsetCommit {version}");
        let describe = DescribeGroupsRequest::default().with_groups(vec![text("g").into(), text("h").into()]);
        let described = client.call(version.min(6), &describe).await.groups;
        assert_eq!((described[0].members.len(), &*described[1].group_state), (1, "Dead"), "DescribeGroups {version}");
        assert_eq!(client.call(version.min(5), &ListGroupsRequest::default()).await.groups.len(), 1);
        let leave = LeaveGroupRequest::default().with_group_id(text("g").into());
        let version = version.min(5);
        let leave = match version {
            3.. => leave.with_members(vec![MemberIdentity::default().with_member_id(member)]),
            _ => leave.with_member_id(member),
        };
        assert_eq!(client.call(version, &leave).await.error_code, 0, "LeaveGroup {version}");
    }
    for version in 1..=7 {
        use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
        let topic =
            OffsetFetchRequestTopic::default().with_name(TopicName(text("t"))).with_partition_indexes(vec![0, 9]);
        let request = OffsetFetchRequest::default().with_group_id(text("g").into()).with_topics(Some(vec![topic]));
        let partitions = client.call(version, &request).await.topics.remove(0).partitions;
        assert_eq!((partitions[0].committed_offset, partitions[1].committed_offset), (9, -1), "OffsetFetch {version}");
    }
    for version in 0..=2 {
        let delete = DeleteGroupsRequest::default().with_groups_names(vec![text("h").into()]);
        assert_eq!(code(client.call(version, &delete).await.results[0].error_code), Some(GroupIdNotFound));
    }
}

/// The request without what its version does not have.
fn of_version(request: JoinGroupRequest, version: i16) -> JoinGroupRequest {
    if version == 0 { request.with_rebalance_timeout_ms(-1) } else { request }
}

#[tokio::test]
async fn every_version_of_find_coordinator_names_this_broker() {
    use kafka_protocol::messages::FindCoordinatorRequest;
    let world = World::new().await;
    let mut client = world.client().await;
    let port = i32::from(world.address.port());
    for version in 0..=6 {
        for (kind, expected) in [(0, None), (1, Some(InvalidRequest))] {
            let request = FindCoordinatorRequest::default();
            let request = if version > 0 { request.with_key_type(kind) } else { request };
            let request = match version {
                4.. => request.with_coordinator_keys(vec![text("g"), text("h")]),
                _ => request.with_key(text("g")),
            };
            let response = client.call(version, &request).await;
            let (told, at) = match response.coordinators.get(1) {
                Some(second) => (second.error_code, second.port),
                None => (response.error_code, response.port),
            };
            let expected = if version == 0 { None } else { expected };
            assert_eq!((code(told), at), (expected, port), "FindCoordinator {version}");
        }
    }
}

/// The code above does not need it, but it helps readers of the log: a member id contains the
/// client's name.
#[tokio::test]
async fn a_members_id_begins_with_what_its_client_calls_itself() {
    let world = World::with(quick()).await;
    let joined = world.client().await.join_new().await;
    assert!(joined.member_id.starts_with("a test-"), "{}", joined.member_id);
    let other: StrBytes = world.client().await.call(9, &joining("")).await.member_id;
    assert_ne!(other, joined.member_id);
}

#[tokio::test]
async fn new_groups_instances_and_protocols_have_no_control_characters_and_groups_are_not_dots() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    for group in ["..", ".", "a\nb", "a\u{1b}[2Jb", ""] {
        let joined = client.call(7, &joining("").with_group_id(text(group).into())).await;
        assert_eq!(code(joined.error_code), Some(InvalidGroupId), "{group:?}");
        let partition = OffsetCommitRequestPartition::default().with_committed_offset(0);
        let topic =
            OffsetCommitRequestTopic::default().with_name(TopicName(text("t"))).with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(text(group).into())
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        let committed = client.call(8, &request).await;
        assert_eq!(code(committed.topics[0].partitions[0].error_code), Some(InvalidGroupId), "{group:?}");
    }
    let instance = joining("").with_group_instance_id(Some(text("a\nb")));
    let protocol = JoinGroupRequestProtocol::default().with_name(text("ra\nge")).with_metadata(subscription("t"));
    for request in [instance, joining("").with_protocols(vec![protocol]), joining("").with_protocol_type(text("c\n"))] {
        assert_eq!(code(client.call(7, &request).await.error_code), Some(InvalidRequest));
    }
    assert_eq!(world.database.read_published(|view| view.streams.group_count()).expect("readable"), 0);
}

/// In a database from an earlier version.
#[tokio::test]
async fn a_group_of_another_name_in_the_log_continues() {
    let world = World::earlier().await;
    let mut client = world.client().await;
    let joined = client.call(3, &joining("").with_group_id(text("a\nb").into())).await;
    assert_eq!(joined.error_code, 0, "it is the only member, and leads the group");
}

#[tokio::test]
async fn offsets_are_bounded_in_bytes_over_all_groups() {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = quire::Database::builder(directory.path()).durability(quire::Durability::Os).segment_bytes(4 << 20);
    let database = builder.offset_bytes_max(300).open().expect("a database");
    let world = World::over(directory, database, Settings::default()).await;
    let mut client = world.client().await;
    client.topic("t").await;
    let mut commit = async |group: &str, note: &str| {
        let partition = OffsetCommitRequestPartition::default().with_committed_offset(0);
        let partition = partition.with_committed_metadata(Some(text(note)));
        let topic =
            OffsetCommitRequestTopic::default().with_name(TopicName(text("t"))).with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(text(group).into())
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        code(client.call(8, &request).await.topics[0].partitions[0].error_code)
    };
    assert_eq!(commit("a", "").await, None);
    assert_eq!(commit("b", &"x".repeat(100)).await, None);
    assert_eq!(commit("c", "").await, Some(PolicyViolation));
    assert_eq!(commit("a", &"x".repeat(4_096)).await, Some(PolicyViolation));
    assert_eq!(commit("b", "").await, None, "less than before");
    assert_eq!(commit("c", "").await, None);
}
