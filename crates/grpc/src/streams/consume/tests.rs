//! Pages that wait, and members that left, hung or lost their partitions.

use quire::streams::TopicSettings;
use quire::streams::wire::Codec;
use quire::{Durability, ErrorKind, Message};
use quire_access::budget::{ByteBudget, FrontEnd};
use tempfile::TempDir;
use tokio::sync::watch;

use super::member::{ends_renewal, lock};
use super::*;
use crate::app::DatabaseEnd;

const TOPIC: &str = "t";

const BUDGET_BYTES: usize = 256 << 20;

/// The components over a database of the test's own, which end last.
struct TestApp {
    app: Arc<App>,
    budget: ByteBudget,
    _end: (DatabaseEnd, watch::Sender<bool>, TempDir),
}

impl TestApp {
    fn new(partitions: u32) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let database = quire::Database::builder(directory.path()).durability(Durability::Os).open();
        let database = database.expect("opened");
        let settings = TopicSettings { compression: Codec::Zstd, ..TopicSettings::default() };
        let create = Command::CreateTopic { name: TOPIC, partitions, settings };
        let created = database.commit(&Commit::new().part(Part::Streams(create))).expect("no error");
        created.committed().expect("accepted");
        let budget = ByteBudget::new(BUDGET_BYTES as u64);
        let (close, closed) = watch::channel(false);
        let (app, end) = App::open(database, budget.caller(FrontEnd::Grpc, None), closed);
        TestApp { app, budget, _end: (end, close, directory) }
    }

    fn produce(&self, partition: u32, value: Vec<u8>) {
        let message = Message::new(value).partition(partition);
        self.app.database().topic(TOPIC).produce(message).expect("produced");
    }

    fn consumer(&self, handling_max: Duration) -> ConsumerPages {
        let name = String::new();
        let place = MemberPlace { group: "g".to_owned(), topic: TOPIC.to_owned(), name, lease_ms: 60_000 };
        ConsumerPages::new(Arc::clone(&self.app), place, handling_max, 10, false)
    }
}

fn next(app: &TestApp, consumer: &mut ConsumerPages) -> Option<ConsumeResponse> {
    consumer.next(&app.app).expect("it does not end")
}

fn open(consumer: &ConsumerPages) -> Vec<u32> {
    let state = lock(&consumer.member.as_ref().expect("it has joined").state);
    state.open.keys().copied().collect()
}

#[tokio::test]
async fn the_pages_of_a_partition_that_moved_away_are_not_awaited() {
    let app = TestApp::new(2);
    (0..2).for_each(|partition| app.produce(partition, b"a".to_vec()));
    let mut first = app.consumer(Duration::MAX);
    let pages = [next(&app, &mut first), next(&app, &mut first)];
    assert!(pages.iter().all(Option::is_some));
    assert_eq!(open(&first), [0, 1]);
    let mut second = app.consumer(Duration::MAX);
    let moved = next(&app, &mut second).expect("it has a partition").partition;
    assert_eq!(next(&app, &mut first), None);
    assert_eq!(open(&first), [1 - moved]);
}

#[tokio::test]
async fn a_client_that_hung_does_not_join_again() {
    let app = TestApp::new(1);
    app.produce(0, b"a".to_vec());
    let mut consumer = app.consumer(Duration::ZERO);
    next(&app, &mut consumer).expect("a page");
    let member = consumer.member.as_ref().expect("it has joined");
    let MemberPlace { group, topic, .. } = &*consumer.place;
    let leave = Command::LeaveGroup { group, topic: TopicRef::Name(topic), member: member.id() };
    let left = app.app.database().commit(&Commit::new().part(Part::Streams(leave))).expect("no error");
    left.committed().expect("accepted");
    let ended = consumer.next(&app.app).expect_err("the client hangs");
    assert!(ended.message().contains("handling_max_ms"), "{ended:?}");
}

#[tokio::test]
async fn a_page_waits_for_memory_and_for_its_turn_outside_of_the_read() {
    let app = TestApp::new(1);
    app.produce(0, vec![7; 200 << 10]);
    let mut others = app.budget.caller(FrontEnd::Http, None).claim();
    others.grow_anyway(BUDGET_BYTES);
    let mut consumer = app.consumer(Duration::MAX);
    assert_eq!(next(&app, &mut consumer), None);
    assert!(matches!(consumer.need, Some(PageNeed::Memory(_))));
    drop(others);
    assert!(consumer.more(&app.app).await.expect("there is memory"));
    assert!(next(&app, &mut consumer).is_some());

    // Its batch decompresses to more than is cheap.
    app.produce(0, vec![7; 2 << 20]);
    assert_eq!(next(&app, &mut consumer), None);
    assert!(matches!(consumer.need, Some(PageNeed::Turn)));
    assert!(consumer.more(&app.app).await.expect("it has its turn"));
    assert!(next(&app, &mut consumer).is_some());
    assert!(consumer.turn.is_none(), "the turn ends with the read");
}

#[test]
fn only_a_failed_database_ends_the_renewals() {
    for kind in ErrorKind::ALL {
        assert_eq!(ends_renewal(&quire::Error::new(kind, "it failed")), kind == ErrorKind::Failed, "{kind:?}");
    }
}
