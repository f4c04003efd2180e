//! A node of a cluster without the others: a stopped one that becomes a cluster alone, and reads of
//! one that stands down.

use std::num::NonZeroU64;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use quire::tools::StoppedNode;
use quire::{Background, Builder, Database, Disk, Durability, ErrorKind, MemberFile, Position};
use quire_log::{Office, Term};
use quire_system::{ClusterMember, MemberAddresses, MemberRecord, MemberRole};

use crate::dying::DyingDisk;
use crate::support::Place;

const MEMBER: MemberFile =
    MemberFile { node: 2, incarnation: 2, is_founder: false, cluster: 1, since: Position::ZERO, has_voted: true };

const VOTE: Office = Office { term: Term::new(9), vote: NonZeroU64::new(1), incarnation: 2, boot: 0, is_clean: false };

fn builder(place: &Place) -> Builder {
    place.builder(Durability::Sync).background(Background::Caller)
}

/// Node 2 of the voters 1, 2 and 3. Its last two records are of term 7, and it does not know that
/// they are published.
fn fill(place: &Place, own: MemberRole) {
    let database = builder(place).member(true).open().expect("created");
    let shard = database.replicated();
    let begun = shard.begin_term(Term::new(7), 1).expect("begun");
    for (node, role) in [(1, MemberRole::Voter), (2, own), (3, MemberRole::Voter)] {
        let member = ClusterMember { role, incarnation: node.into(), addresses: MemberAddresses::default() };
        shard.append_member(&MemberRecord { node, member }).expect("appended");
    }
    shard.log().sync().expect("synced");
    shard.log().publish(begun).expect("published");
    shard.log().save_office(&VOTE).expect("saved");
    MEMBER.write(&Disk, &place.path()).expect("written");
}

fn file(data: &Path) -> MemberFile {
    MemberFile::read(&Disk, data).expect("readable").expect("a node")
}

fn office(place: &Place) -> Office {
    let database = builder(place).member(true).open().expect("opened");
    database.replicated().log().office().expect("whole").expect("saved")
}

#[test]
fn a_crash_at_any_step_of_a_recovery_leaves_the_old_cluster_or_the_new_one() {
    let (mut old, mut new) = (0, 0);
    for step in 0.. {
        let place = Place::new();
        fill(&place, MemberRole::Voter);
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let dying = Arc::new(DyingDisk::after(Arc::clone(&left)));
        let node = StoppedNode::open(builder(&place).storage(dying)).expect("opened");
        left.store(step, Ordering::SeqCst);
        let recovered = node.recover();

        let found = file(&place.path());
        let vote = office(&place);
        let node = StoppedNode::open(builder(&place)).expect("what a death leaves opens");
        let report = node.report().expect("readable");
        assert_eq!((report.last, report.term, report.unused), (Position::new(4), 7, 4), "unpublished records stay");
        let others: Vec<u64> = report.others.iter().map(|(node, _)| *node).collect();
        if found == MEMBER {
            old += 1;
            assert!(recovered.is_err(), "step {step}");
            assert!(vote == VOTE || vote.term > VOTE.term, "a vote stays within its term: {vote:?}");
            assert_eq!(others, [1, 3]);
            node.recover().expect("no death");
        } else {
            new += 1;
            assert!(others.is_empty(), "{others:?}");
            drop(node);
        }
        let found = file(&place.path());
        assert_eq!((found.node, found.incarnation, found.is_founder, found.since), (2, 2, true, Position::new(4)));
        assert!(![0, MEMBER.cluster].contains(&found.cluster), "a cluster of its own");
        let vote = office(&place);
        assert!(vote.term >= Term::new(1_009) && vote.vote.is_none(), "{vote:?}");
        if recovered.is_ok() {
            assert!(old > 5 && new > 0, "{old} old, {new} new");
            return;
        }
    }
}

#[test]
fn a_read_of_a_node_that_stands_down_may_be_repeated() {
    let place = Place::new();
    let database = builder(&place).member(true).open().expect("created");
    let shard = database.replicated();
    shard.begin_term(Term::new(7), 1).expect("begun");
    let mut read = pin!(database.local().read(|view| view.position).expect("read").into_future());
    let mut poll = || read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending(), "the record is not published");
    shard.stand_down(None).expect("stood down");
    let Poll::Ready(Err(refused)) = poll() else { panic!("the record may never be published") };
    assert_eq!(refused.kind(), ErrorKind::NotLeader, "{refused}");
}

#[test]
fn a_database_that_is_no_stopped_member_is_not_recovered() {
    let place = Place::new();
    let missing = StoppedNode::open(builder(&place)).expect_err("nothing is there");
    assert_eq!(missing.kind(), ErrorKind::Invalid);
    assert!(!place.path().exists());
    drop(Database::open(place.path()).expect("created"));
    let alone = StoppedNode::open(builder(&place)).expect_err("a database alone");
    assert!(alone.to_string().contains("is no node of a cluster"), "{alone}");

    let place = Place::new();
    fill(&place, MemberRole::Removed);
    let runs = builder(&place).member(true).open().expect("opened");
    assert_eq!(StoppedNode::open(builder(&place)).expect_err("it runs").kind(), ErrorKind::InUse);
    drop(runs);
    let removed = StoppedNode::open(builder(&place)).expect("opened").recover().expect_err("removed");
    assert!(removed.to_string().contains("node 2 was removed from the cluster"), "{removed}");
    assert_eq!(file(&place.path()), MEMBER);
}
