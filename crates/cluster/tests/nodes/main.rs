//! Nodes on loopback, with real sockets, files and threads.

#![cfg(target_os = "linux")]

mod support;

use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use quire::events::NewEvent;
use quire::jobs::{Cursor, LifeFilter};
use quire::{Commit, Database, ErrorKind, Message, NewJob, Outcome};
use quire_cluster::{ClusterIdentity, JoinError, NodeRole, discover};
use support::{Cluster, SEGMENT_BYTES, data, identity};

fn produce(cluster: &Cluster, node: u64, value: &str) {
    let database = cluster.database(node);
    let outcome = database.commit(&Commit::new().produce("topic", Message::new(value)));
    assert!(matches!(outcome.expect("the leader commits"), Outcome::Committed(_)));
}

#[test]
fn three_nodes_have_the_same_records_and_another_leads_after_the_leader() {
    let mut cluster = Cluster::default();
    cluster.found(1);
    cluster.join(2);
    cluster.join(3);
    cluster.wait_until_voters(3);
    assert_eq!(cluster.wait_for_leader(&[1, 2, 3]), 1, "the founder leads");
    (0..200).for_each(|number| produce(&cluster, 1, &format!("first {number}")));
    let refused = cluster.database(2).commit(&Commit::new().produce("topic", Message::new("no"))).expect_err("follows");
    assert_eq!(refused.kind(), ErrorKind::NotLeader);
    assert!(refused.to_string().contains("send the request to node 1"), "{refused}");
    cluster.wait_until_level(&[1, 2, 3]);

    // The others continue without it.
    cluster.stop(1);
    let leader = cluster.wait_for_leader(&[2, 3]);
    (0..50).for_each(|number| produce(&cluster, leader, &format!("second {number}")));
    cluster.wait_until_level(&[2, 3]);

    // It has what it missed after its restart, without a flag.
    cluster.restart(1);
    cluster.wait_until_level(&[1, 2, 3]);
    let states = [1, 2, 3].map(|node| cluster.saved_state(node));
    assert!(states.iter().all(|state| *state == states[0]), "the states are equal");
    let topic = cluster.database(cluster.wait_for_leader(&[1, 2, 3])).topic("topic").statistics().expect("it is there");
    assert_eq!(topic.partitions.iter().map(|partition| partition.next.get()).sum::<u64>(), 250);
}

#[test]
fn a_leader_hands_its_office_over_and_a_member_is_removed() {
    let mut cluster = Cluster::default();
    cluster.found(1);
    cluster.join(2);
    cluster.join(3);
    cluster.wait_until_voters(3);
    cluster.wait_for_leader(&[1]);
    cluster.block_on(cluster.node(1).hand_over(Some(1.try_into().expect("not zero")))).expect("nothing to do");
    produce(&cluster, 1, "one");
    cluster.wait_until_level(&[1, 2, 3]);
    cluster.block_on(cluster.node(1).hand_over(Some(2.try_into().expect("not zero")))).expect("begun");
    let leader = cluster.wait_for_leader(&[2, 3]);
    assert_eq!(leader, 2);
    produce(&cluster, 2, "two");
    let refused = cluster.block_on(cluster.node(1).remove(3.try_into().expect("not zero"))).expect_err("no leader");
    assert_eq!(refused.to_string(), "this node is not the leader");
    let own = cluster.block_on(cluster.node(2).remove(2.try_into().expect("not zero"))).expect_err("it leads");
    assert!(own.to_string().contains("hand its office over first"), "{own}");
    cluster.block_on(cluster.node(2).remove(3.try_into().expect("not zero"))).expect("removed");
    cluster.wait_until_voters(2);
    assert!(!cluster.node(2).status().members.iter().any(|member| member.node.get() == 3));
    produce(&cluster, 2, "three");
    cluster.wait_until_level(&[1, 2]);
    let again = cluster.block_on(discover(&cluster.connector(), &cluster.addresses(&[2]), identity(3, 3), None));
    let Err(JoinError::Refused(reason)) = again else { panic!("it was removed: {again:?}") };
    assert!(reason.contains("node 3 was removed from the cluster"), "{reason}");
}

/// Flips a byte of a record in the first sealed segment of a node, and has the node find it.
fn damage(cluster: &Cluster, node: u64) {
    let log = cluster.database(node).replicated().log().clone();
    let segment = log.directory().join("00000000000000000001.log");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(segment).expect("a segment");
    let mut byte = [0];
    file.read_exact_at(&mut byte, 300 << 10).expect("read");
    file.write_all_at(&[byte[0] ^ 0x10], 300 << 10).expect("written");
    assert_eq!(log.scrub().len(), 1, "the record is damaged");
}

#[test]
fn a_node_with_damage_hands_its_office_over_and_leads_only_without_any_other_leader() {
    let mut cluster = Cluster::default();
    cluster.found(1);
    cluster.join(2);
    cluster.join(3);
    cluster.wait_until_voters(3);
    cluster.wait_for_leader(&[1]);
    let text = "x".repeat(64 << 10);
    (0..40).for_each(|_| produce(&cluster, 1, &text));
    cluster.wait_until_level(&[1, 2, 3]);
    cluster.wait_until_sealed(1);
    damage(&cluster, 1);
    let leader = cluster.wait_for_leader(&[2, 3]);
    let other = 5 - leader;
    let status = cluster.node(1).status();
    assert_eq!((status.damaged, status.is_held_back), (1, true));
    produce(&cluster, leader, "after the damage");
    cluster.wait_until_level(&[1, 2, 3]);

    // The office that is handed over to it stays where it is.
    cluster.block_on(cluster.node(leader).hand_over(Some(1.try_into().expect("not zero")))).expect("begun");
    let again = Commit::new().produce("topic", Message::new("after the attempt"));
    while cluster.database(leader).commit(&again).is_err_and(|error| error.kind() == ErrorKind::NotLeader) {
        std::thread::yield_now();
    }
    assert_eq!(cluster.wait_for_leader(&[1, 2, 3]), leader);
    cluster.wait_until_level(&[1, 2, 3]);

    // It votes for the other, and does not ask for votes.
    cluster.stop(leader);
    assert_eq!(cluster.wait_for_leader(&[1, other]), other);
    produce(&cluster, other, "with one less");
    cluster.wait_until_level(&[1, other]);
    assert_eq!(cluster.node(1).status().elections_won, 1);
}

#[test]
fn a_node_with_another_directory_is_refused_and_garbage_ends_its_own_connection_only() {
    let mut cluster = Cluster::default();
    cluster.found(1);
    cluster.join(2);
    cluster.wait_until_voters(2);
    for (wiped, expected) in [
        (identity(2, 77), "node 2 has another data directory than the member"),
        (identity(1, 77), "number 1 belongs to another node"),
    ] {
        let found = cluster.block_on(discover(&cluster.connector(), &cluster.addresses(&[1]), wiped, None));
        let Err(JoinError::Refused(reason)) = found else { panic!("it is not the member: {found:?}") };
        assert!(reason.contains(expected), "{reason}");
    }
    let other = ClusterIdentity { database: 99, founder: 1 };
    let other = cluster.block_on(discover(&cluster.connector(), &cluster.addresses(&[1]), identity(5, 5), Some(other)));
    assert!(other.expect_err("another database").to_string().contains("belongs to database"));
    let free = cluster.block_on(discover(&cluster.connector(), &cluster.addresses(&[1]), identity(5, 5), None));
    assert_eq!(free.expect("a free number").database, cluster.database(1).id());

    for garbage in [&b"GET / HTTP/1.1\r\nhost: quire\r\n\r\n"[..], &[0; 64], &[0xff; 64], b"\x05\0\0\0\0\0\0\0\x01abcd"]
    {
        let mut stream = std::net::TcpStream::connect(&cluster.addresses(&[1])[0]).expect("it listens");
        stream.write_all(garbage).expect("sent");
        let mut answer = Vec::new();
        // The node may reset the connection.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.windows(5).any(|bytes| bytes == b"frame"), "{answer:?}");
    }
    produce(&cluster, 1, "after the garbage");
    cluster.wait_until_level(&[1, 2]);
    assert_eq!(cluster.node(1).status().role, NodeRole::Leader);
}

/// Fills several segments with events, and trims all of them.
fn append_and_trim(database: &Database) {
    let (store, payload) = (database.events("notes"), vec![b'n'; 64 << 10]);
    for _ in 0..8 * SEGMENT_BYTES / payload.len() as u64 {
        store.append([NewEvent::new("noted").data(&payload)]).expect("appended");
    }
    store.trim(store.head().expect("read")).expect("trimmed");
}

#[test]
fn a_database_that_was_compacted_becomes_a_cluster() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let alone = Database::builder(data(&directory)).segment_bytes(SEGMENT_BYTES).open().expect("opened");
    alone.topic("topic").produce(Message::new("before")).expect("produced");
    append_and_trim(&alone);
    alone.compact().expect("compacted");
    alone.compact().expect("compacted");
    assert!(alone.replicated().log().compacted_end().get() > 100);
    drop(alone);

    let mut cluster = Cluster::default();
    cluster.found_with(1, directory);
    cluster.wait_for_leader(&[1]);
    cluster.wait_until_voters(1);
    cluster.join(2);
    cluster.join(3);
    cluster.wait_until_voters(3);
    produce(&cluster, 1, "after");
    cluster.wait_until_level(&[1, 2, 3]);
    let states = [1, 2, 3].map(|node| cluster.saved_state(node));
    assert!(states.iter().all(|state| *state == states[0]), "the states are equal");
    cluster.stop(1);
    let leader = cluster.wait_for_leader(&[2, 3]);
    produce(&cluster, leader, "without the founder");
    cluster.restart(1);
    cluster.wait_until_level(&[1, 2, 3]);
    let topic = cluster.database(cluster.wait_for_leader(&[1, 2, 3])).topic("topic").statistics().expect("it is there");
    assert_eq!(topic.partitions.iter().map(|partition| partition.next.get()).sum::<u64>(), 3);
}

#[test]
fn a_node_whose_next_records_were_compacted_gets_all_files() {
    let mut cluster = Cluster::default();
    cluster.found(1);
    cluster.join(2);
    cluster.join(3);
    cluster.wait_until_voters(3);
    produce(&cluster, 1, "before");
    cluster.wait_until_level(&[1, 2, 3]);
    let last = cluster.database(3).replicated().log().appended();
    cluster.stop(3);
    append_and_trim(cluster.database(1));
    cluster.wait_until_level(&[1, 2]);
    cluster.compact_beyond(1, last);
    cluster.compact_beyond(2, last);
    produce(&cluster, 1, "meanwhile");

    cluster.restart(3);
    cluster.wait_until_files_are_needed(3);
    cluster.stop(3);
    cluster.restart_with_files(3);
    cluster.wait_until_level(&[1, 2, 3]);
    let states = [1, 2, 3].map(|node| cluster.saved_state(node));
    assert!(states.iter().all(|state| *state == states[0]), "the states are equal");

    // It votes and leads with the files.
    cluster.stop(2);
    cluster.block_on(cluster.node(1).hand_over(Some(3.try_into().expect("not zero")))).expect("begun");
    assert_eq!(cluster.wait_for_leader(&[3]), 3);
    produce(&cluster, 3, "after");
    cluster.restart(2);
    cluster.wait_until_level(&[1, 2, 3]);
}

#[test]
fn a_leader_without_a_majority_confirms_no_read_and_refuses_no_commit() {
    let mut cluster = Cluster::default();
    cluster.found(1);
    cluster.join(2);
    cluster.join(3);
    cluster.wait_until_voters(3);
    assert_eq!(cluster.wait_for_leader(&[1, 2, 3]), 1, "the founder leads");
    let confirm = |cluster: &Cluster, node: u64| {
        cluster.block_on(cluster.database(node).cluster_control().expect("a node").confirm())
    };
    (0..100).for_each(|_| confirm(&cluster, 1).expect("it leads"));
    let refused = confirm(&cluster, 2).expect_err("it follows");
    assert_eq!(refused.kind(), ErrorKind::NotLeader);
    // These commits append no record: the first one is refused, and the second one changes nothing.
    let refusal = Commit::new().produce("missing", Message::new("a").partition(7));
    let nothing = Commit::new();
    let submit = |cluster: &Cluster, commit: &Commit<'_>| cluster.database(1).submit(commit).expect("it still leads");
    assert!(matches!(submit(&cluster, &refusal).wait(), Ok(Outcome::Refused(_))), "a majority confirms it");
    let mut events = cluster.database(1).life_events(LifeFilter::default(), Cursor::START).expect("it leads");
    events.visit_next(1, 1, |_| ()).expect("it leads");
    // They are decided while the node leads. A confirmation begins with the first wait.
    let (first, second) = (submit(&cluster, &refusal), submit(&cluster, &nothing));
    cluster.stop(2);
    cluster.stop(3);
    assert_eq!(first.wait().expect_err("it is alone").kind(), ErrorKind::NotLeader);
    assert_eq!(cluster.block_on(second.into_future()).expect_err("it is alone").kind(), ErrorKind::NotLeader);
    let refused = confirm(&cluster, 1).expect_err("it is alone");
    assert_eq!(refused.kind(), ErrorKind::NotLeader);
    let refused = events.visit_next(1, 1, |_| ()).expect_err("the leader may have more events");
    assert_eq!(refused.kind(), ErrorKind::NotLeader);
    let refused = cluster.database(1).life_events(LifeFilter::default(), Cursor::START).expect_err("it is alone");
    assert_eq!(refused.kind(), ErrorKind::NotLeader);
}

#[test]
fn a_connected_follower_keeps_the_records_that_it_lacks() {
    let mut cluster = Cluster::default();
    cluster.found(1);
    cluster.join(2);
    cluster.wait_until_voters(2);
    append_and_trim(cluster.database(1));
    cluster.wait_until_level(&[1, 2]);
    // The newest segments stay also when all nodes have them.
    cluster.compact_beyond(1, quire::Position::new(1));
    let log = cluster.database(1).replicated().log().clone();
    assert!(log.compacted_end() <= log.newest_sealed_from(4));
    cluster.compact_beyond(2, quire::Position::new(1));
}

#[test]
fn any_node_answers_local_reads_from_its_published_records() {
    let mut cluster = Cluster::default();
    cluster.found(1);
    cluster.join(2);
    cluster.wait_until_voters(2);
    assert_eq!(cluster.wait_for_leader(&[1, 2]), 1, "the founder leads");
    cluster.database(1).queue("mails").enqueue(NewJob::new("a")).expect("it leads");
    let (position, patience) = (cluster.database(1).published(), Duration::from_secs(60));
    let follower = cluster.database(2).clone();
    let refused = follower.queue("mails").stats().expect_err("it follows");
    assert_eq!(refused.kind(), ErrorKind::NotLeader);
    let local = follower.local_at(position, patience).expect("it reads").expect("it is published");
    let pending = |database: &Database| database.queue("mails").stats().expect("it reads").expect("it exists").pending;
    assert_eq!((pending(&local), pending(&cluster.database(1).local())), (1, 1));
    let later = quire::Position::new(position.get() + 100);
    assert!(follower.local_at(later, Duration::from_millis(10)).expect("it reads").is_none());
    assert!(local.life_events(LifeFilter::default(), Cursor::START).expect("it reads").next(patience).is_ok());
    cluster.stop(1);
    assert_eq!(pending(&local), 1, "without a leader");
    let refused = local.queue("mails").enqueue(NewJob::new("b")).expect_err("it does not lead");
    assert_eq!(refused.kind(), ErrorKind::NotLeader);
}
