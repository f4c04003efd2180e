//! Names that all models share: a topic name has one owner, names are bounded in number, and new
//! ones have no control characters. Databases from before these rules open and work.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use quire::events::{self, Attempts, EventPosition, NewEvent, PutSubscription, Query, SaveProjection, Upstream};
use quire::jobs::{self, Change, QueueChange};
use quire::streams::{self, Committer, Despite, Generation, StaticMember, TopicNameProblem, TopicRef, TopicSettings};
use quire::{
    ClaimLimit, ClaimRefusal, Commit, Database, Durability, Duty, Message, NameKind, NewBlock, NewEdge, NewJob,
    Outcome, Part, Reason, Sequence, graph,
};

use crate::support::Place;

/// The refusal of a commit by a claim.
fn claim_of(reason: &Reason) -> Option<&ClaimRefusal> {
    match reason {
        Reason::Streams(streams::Refusal::Claim(refusal))
        | Reason::Events(events::Refusal::Claim(refusal))
        | Reason::Jobs(jobs::Refusal::Claim(refusal))
        | Reason::Graph(graph::Refusal::Claim(refusal)) => Some(refusal),
        _ => None,
    }
}

#[track_caller]
fn refused(database: &Database, commit: &Commit<'_>) -> Reason {
    match database.commit(commit).expect("an answer") {
        Outcome::Refused(refused) => refused.reason,
        Outcome::Committed(committed) => panic!("committed: {committed:?}"),
    }
}

#[track_caller]
fn taken_by(database: &Database, commit: &Commit<'_>, owner: (NameKind, &str)) {
    let reason = refused(database, commit);
    match claim_of(&reason) {
        Some(ClaimRefusal::NameTaken { kind, name, .. }) => assert_eq!((*kind, &**name), owner),
        _ => panic!("not taken, but {reason:?}"),
    }
}

fn create_topic(name: &str) -> Part<'_> {
    let settings = TopicSettings::default();
    Part::Streams(streams::Command::CreateTopic { name, partitions: 1, settings })
}

fn delete_topic(name: &str) -> Part<'_> {
    Part::Streams(streams::Command::DeleteTopic { topic: TopicRef::Name(name) })
}

fn destroy(queue: &str) -> Part<'_> {
    Part::Jobs(jobs::Command::Destroy { queue })
}

fn subscribe<'c>(store: &'c str, name: &'c str) -> Part<'c> {
    let attempts = Attempts::default();
    Part::Events(events::Command::PutSubscription(PutSubscription {
        store,
        name,
        query: Query::all(),
        after: None,
        attempts,
    }))
}

/// Every form of a commit that creates a store, or a queue, of this name.
fn stores(name: &str) -> Vec<Commit<'_>> {
    let upstream = Upstream { store: name, source: "s", position: 1 };
    let projection = SaveProjection {
        store: name,
        name: "p",
        version: 1,
        base: EventPosition::ZERO,
        position: EventPosition::ZERO,
        state: b"",
    };
    let parts = [
        Part::Events(events::Command::Upstream(upstream)),
        Part::Events(events::Command::SetRetention { store: name, retention_ms: Some(1) }),
        Part::Events(events::Command::SaveProjection(projection)),
        subscribe(name, "free"),
    ];
    let parts = parts.into_iter().map(|part| Commit::new().part(part));
    parts.chain([Commit::new().append(name, [NewEvent::new("Happened")])]).collect()
}

fn queues(name: &str, job: jobs::JobId) -> Vec<Commit<'_>> {
    let parts = [
        Part::Jobs(jobs::Command::SetQueue { queue: name, change: QueueChange::Paused(true) }),
        Part::Jobs(jobs::Command::Change { job, change: Change::Move { queue: name } }),
        subscribe("free", name),
    ];
    let parts = parts.into_iter().map(|part| Commit::new().part(part));
    parts.chain([Commit::new().enqueue(name, NewJob::new(b""))]).collect()
}

fn topics(name: &str) -> Vec<Commit<'_>> {
    vec![Commit::new().part(create_topic(name)), Commit::new().produce(name, Message::new("forged"))]
}

#[test]
fn a_topic_name_is_refused_to_the_second_object_in_every_form_of_a_commit() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let job = database.queue("work").enqueue(NewJob::new(b"")).expect("accepted");
    database.events("pay/orders").append([NewEvent::new("Paid")]).expect("accepted");
    database.queue("mail/out").enqueue(NewJob::new(b"")).expect("accepted");
    database.topic("air.flights").create(1).expect("accepted");
    database.topic("jobs.a.b").create(1).expect("accepted");
    let check = |database: &Database| {
        for commit in topics("pay.orders").into_iter().chain(stores("pay.orders")) {
            taken_by(database, &commit, (NameKind::Store, "pay/orders"));
        }
        for commit in topics("jobs.mail.out").into_iter().chain(stores("jobs/mail.out")) {
            taken_by(database, &commit, (NameKind::Queue, "mail/out"));
        }
        for commit in queues("mail.out", job) {
            taken_by(database, &commit, (NameKind::Queue, "mail/out"));
        }
        for commit in stores("air/flights").into_iter().chain(stores("air.flights")) {
            taken_by(database, &commit, (NameKind::Topic, "air.flights"));
        }
        for commit in queues("a/b", job) {
            taken_by(database, &commit, (NameKind::Topic, "jobs.a.b"));
        }
        assert_eq!(database.read(|view| view.hidden_objects()).expect("readable").wait().expect("durable"), []);
    };
    check(&database);
    drop(database);
    let database = place.open(Durability::Os);
    check(&database);
    drop(database);
    place.remove_checkpoints();
    check(&place.open(Durability::Os));
}

#[test]
fn a_subscription_has_the_topic_name_of_its_queue_before_the_queue_is_there() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database
        .commit(&Commit::new().part(subscribe("store", "mail/out")))
        .expect("durable")
        .committed()
        .expect("accepted");
    for commit in topics("jobs.mail.out") {
        taken_by(&database, &commit, (NameKind::Queue, "mail/out"));
    }
    database.events("store").append([NewEvent::new("Happened")]).expect("accepted");
    while database.queue("mail/out").stats().expect("readable").is_none() {
        std::thread::yield_now();
    }
    taken_by(&database, &Commit::new().part(create_topic("jobs.mail.out")), (NameKind::Queue, "mail/out"));
}

#[test]
fn a_name_is_free_again_once_its_object_is_deleted_also_within_the_commit() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let happened = || [NewEvent::new("Happened")];
    database.topic("a.b").create(1).expect("accepted");
    let both = Commit::new().part(delete_topic("a.b")).append("a/b", happened());
    database.commit(&both).expect("durable").committed().expect("the name is free within the commit");
    taken_by(&database, &Commit::new().part(create_topic("a.b")), (NameKind::Store, "a/b"));

    database.queue("q").enqueue(NewJob::new(b"")).expect("accepted");
    database.commit(&Commit::new().part(destroy("q"))).expect("durable").committed().expect("accepted");
    database.topic("jobs.q").create(1).expect("the queue is destroyed");

    let twice = Commit::new().part(create_topic("x.y")).append("x/y", happened());
    taken_by(&database, &twice, (NameKind::Topic, "x.y"));
    let freed = Commit::new().part(create_topic("x.y")).part(delete_topic("x.y")).append("x/y", happened());
    database.commit(&freed).expect("durable").committed().expect("the topic is deleted before");
}

#[test]
fn one_of_two_openings_that_race_for_a_topic_name_gets_it() {
    let place = Place::new();
    let (first, second) = (place.open(Durability::Os), place.open(Durability::Os));
    let start = std::sync::Barrier::new(2);
    let race = |database: &Database, commit: &dyn Fn(usize) -> Commit<'static>| -> Vec<bool> {
        start.wait();
        let committed = (0..200).map(|number| database.commit(&commit(number)).expect("durable").committed().is_ok());
        committed.collect()
    };
    let produce = |number| Commit::new().produce(format!("a.{number}"), Message::new("m"));
    let append = |number| Commit::new().append(format!("a/{number}"), [NewEvent::new("Happened")]);
    let (topics, stores) = std::thread::scope(|scope| {
        let topics = scope.spawn(|| race(&first, &produce));
        let stores = race(&second, &append);
        (topics.join().expect("no panic"), stores)
    });
    assert!(topics.iter().zip(&stores).all(|(topic, store)| topic != store), "{topics:?} {stores:?}");
    for database in [first, second] {
        let hidden = database.read(|view| view.hidden_objects()).expect("readable").wait().expect("durable");
        assert_eq!(hidden, []);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<(NameKind, usize)>),
    Delete(NameKind, usize),
    Restart { with_checkpoint: bool },
}

/// Names that collide in each way.
const SHARED: [[&str; 4]; 3] =
    [["a.b", "jobs.a.b", "c", "jobs.c"], ["a/b", "a.b", "jobs/a.b", "c"], ["a/b", "a.b", "c", "d/e"]];

fn name_of(kind: NameKind, number: usize) -> &'static str {
    SHARED[kind as usize][number]
}

fn step() -> impl Strategy<Value = Step> {
    let object = (prop_oneof![Just(NameKind::Topic), Just(NameKind::Store), Just(NameKind::Queue)], 0..4_usize);
    prop_oneof![
        8 => prop::collection::vec(object.clone(), 1..4).prop_map(Step::Commit),
        3 => object.prop_map(|(kind, number)| Step::Delete(kind, number)),
        1 => any::<bool>().prop_map(|with_checkpoint| Step::Restart { with_checkpoint }),
    ]
}

fn topic_of(kind: NameKind, name: &str) -> String {
    match kind {
        NameKind::Topic => name.to_owned(),
        NameKind::Store => name.replace('/', "."),
        NameKind::Queue => format!("jobs.{}", name.replace('/', ".")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_topic_name_has_one_owner_whatever_the_order_of_commits(steps in prop::collection::vec(step(), 1..40)) {
        let place = Place::new();
        let mut database = place.open(Durability::Os);
        let mut owners: BTreeMap<String, (NameKind, &str)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Commit(mut objects) => {
                    // The order in which the models decide.
                    objects.sort_by_key(|(kind, _)| *kind);
                    let (mut after, mut is_accepted) = (owners.clone(), true);
                    let mut commit = Commit::new();
                    for (kind, number) in objects {
                        let name = name_of(kind, number);
                        let owner = *after.entry(topic_of(kind, name)).or_insert((kind, name));
                        is_accepted &= owner == (kind, name);
                        commit = match kind {
                            NameKind::Topic => commit.produce(name, Message::new("m")),
                            NameKind::Store => commit.append(name, [NewEvent::new("Happened")]),
                            NameKind::Queue => commit.enqueue(name, NewJob::new(b"")),
                        };
                    }
                    let outcome = database.commit(&commit).expect("durable");
                    prop_assert_eq!(matches!(outcome, Outcome::Committed(_)), is_accepted, "{:?}", outcome);
                    if is_accepted {
                        owners = after;
                    }
                }
                Step::Delete(kind, number) => {
                    let name = name_of(kind, number);
                    let part = match kind {
                        NameKind::Topic => delete_topic(name),
                        NameKind::Queue => destroy(name),
                        // A store stays.
                        NameKind::Store => continue,
                    };
                    let is_there = owners.get(&topic_of(kind, name)) == Some(&(kind, name));
                    let outcome = database.commit(&Commit::new().part(part)).expect("durable");
                    prop_assert_eq!(matches!(outcome, Outcome::Committed(_)), is_there);
                    if is_there {
                        owners.remove(&topic_of(kind, name));
                    }
                }
                Step::Restart { with_checkpoint } => {
                    drop(database);
                    if !with_checkpoint {
                        place.remove_checkpoints();
                    }
                    database = place.open(Durability::Os);
                }
            }
            let shown = database.read_published(|view| {
                let shown = owners.keys().map(|topic| {
                    let owner = view.topic_owner(topic).expect("it has an owner");
                    (owner.kind(), owner.name().to_owned())
                });
                (shown.collect::<Vec<_>>(), view.hidden_objects())
            });
            let (shown, hidden) = shown.expect("readable");
            let expected: Vec<_> = owners.values().map(|(kind, name)| (*kind, (*name).to_owned())).collect();
            prop_assert_eq!((shown, hidden), (expected, Vec::new()));
        }
    }
}

/// Opens a database with a limit of 3, and checks that what `create` makes is bounded by it: at the
/// limit nothing new, everything else, and again what `delete` makes space for.
#[track_caller]
fn bounded(
    limit: ClaimLimit,
    set: fn(quire::Builder, u64) -> quire::Builder,
    create: impl Fn(usize) -> Commit<'static>,
    delete: Option<Commit<'static>>,
) {
    let place = Place::new();
    let database = set(place.builder(Durability::Os), 3).open().expect("opens");
    let full = |database: &Database, number: usize| {
        let reason = refused(database, &create(number));
        let expected = ClaimRefusal::OverLimit { limit, count: 3, more: 1, count_max: 3 };
        assert_eq!(claim_of(&reason), Some(&expected), "{reason:?}");
        let message = reason.to_string();
        assert!(message.contains(limit.setting()) && message.contains("has 3 "), "{message}");
    };
    let counted = |database: &Database| {
        let all = database.read_published(|view| view.limited().collect::<Vec<_>>()).expect("readable");
        let found = all.into_iter().find(|(known, ..)| *known == limit).expect("every limit is there");
        (found.1, found.2)
    };
    for number in 0..3 {
        database.commit(&create(number)).expect("durable").committed().expect("below the limit");
    }
    full(&database, 3);
    let three = Commit::new();
    assert!(matches!(database.commit(&three).expect("durable"), Outcome::Committed(_)));
    assert_eq!(counted(&database), (3, 3));
    if let Some(delete) = delete {
        database.commit(&delete).expect("durable").committed().expect("accepted");
        assert_eq!(counted(&database), (2, 3));
        database.commit(&create(4)).expect("durable").committed().expect("there is space again");
    }
    drop(database);

    // With a lower limit, new names are refused, and a database with more names opens.
    place.remove_checkpoints();
    let database = set(place.builder(Durability::Os), 1).open().expect("opens");
    assert_eq!(counted(&database), (3, 1));
    let reason = refused(&database, &create(5));
    assert!(matches!(claim_of(&reason), Some(ClaimRefusal::OverLimit { count: 3, count_max: 1, .. })), "{reason:?}");
    drop(database);
    let database = set(place.builder(Durability::Os), 4).open().expect("opens");
    database.commit(&create(5)).expect("durable").committed().expect("below the limit");
    assert_eq!(counted(&database), (4, 4));
}

#[test]
fn the_number_of_queues_is_limited() {
    let create = |number| Commit::new().enqueue(format!("q{number}"), NewJob::new(b""));
    bounded(ClaimLimit::Queues, quire::Builder::queues_max, create, Some(Commit::new().part(destroy("q1"))));
}

#[test]
fn the_bytes_of_jobs_are_limited() {
    let place = Place::new();
    let (group, key) = ("g".repeat(200), "k".repeat(200));
    let named = |number: usize| {
        let job = NewJob::new(b"").group(format!("{number}{group}")).unique(format!("{number}{key}"));
        Commit::new().enqueue("q", job)
    };
    // 96 for the job, 512 for the group, 208 for rare fields, 176 for the key, and both names
    // twice.
    let (each, plain) = (96 + 512 + 208 + 176 + 4 * 201, 96);
    let most = 3 * each + plain;
    let open = || place.builder(Durability::Os).job_bytes_max(most).open().expect("opens");
    let accepted = |database: &Database, commit: &Commit<'_>| {
        database.commit(commit).expect("durable").committed().expect("accepted");
    };
    let used = |database: &Database| database.read_published(|view| view.jobs.memory_bytes()).expect("readable");
    let mut database = open();
    for number in 0..3 {
        accepted(&database, &named(number));
        assert_eq!(used(&database), (number as u64 + 1) * each);
    }
    let over =
        |count, more| Some(ClaimRefusal::OverLimit { limit: ClaimLimit::JobBytes, count, more, count_max: most });
    for remove_checkpoints in [false, true] {
        assert_eq!(claim_of(&refused(&database, &named(3))), over(3 * each, each).as_ref());
        drop(database);
        if remove_checkpoints {
            place.remove_checkpoints();
        }
        database = open();
        assert_eq!(used(&database), 3 * each, "after an opening");
    }
    // The parts of a commit count together, and a job of a known group and without a key is small.
    let two = Commit::new().enqueue("q", NewJob::new(b"")).enqueue("q", NewJob::new(b""));
    assert_eq!(claim_of(&refused(&database, &two)), over(3 * each + plain, plain).as_ref());
    accepted(&database, &Commit::new().enqueue("q", NewJob::new(b"").group(format!("0{group}"))));
    // What a commit ends makes space for what follows in it.
    assert_eq!(used(&database), most);
    let job = database.queue("q").fetch("w", 1).expect("accepted").remove(0);
    accepted(&database, &Commit::new().ack(job.job, job.token, "").enqueue("q", NewJob::new(b"")));
    // The first group still has a job. The first key is free.
    assert_eq!(used(&database), most - 208 - 176 - 2 * 201);
    let found = database.read_published(|view| view.jobs.queue_stats("q")).expect("readable").expect("it is there");
    assert_eq!((found.pending, found.completed), (4, 1));
}

#[test]
fn the_number_of_stores_is_limited() {
    let create = |number| Commit::new().append(format!("s{number}"), [NewEvent::new("Happened")]);
    bounded(ClaimLimit::Stores, quire::Builder::stores_max, create, None);
}

#[test]
fn the_number_of_graphs_is_limited() {
    let create = |number| Commit::new().put_block(format!("g{number}"), NewBlock::new("a", "thing"));
    bounded(ClaimLimit::Graphs, quire::Builder::graphs_max, create, None);
}

#[test]
fn the_number_of_partitions_is_limited_over_all_topics() {
    let create = |number| Commit::new().produce(format!("t{number}"), Message::new("m"));
    bounded(
        ClaimLimit::Partitions,
        quire::Builder::partitions_max,
        create,
        Some(Commit::new().part(delete_topic("t1"))),
    );

    let place = Place::new();
    let database = place.builder(Durability::Os).partitions_max(10).open().expect("opens");
    database.topic("t").create(6).expect("accepted");
    let more = |partitions| {
        Commit::new().part(Part::Streams(streams::Command::AddPartitions { topic: TopicRef::Name("t"), partitions }))
    };
    let over =
        |count, more| Some(ClaimRefusal::OverLimit { limit: ClaimLimit::Partitions, count, more, count_max: 10 });
    assert_eq!(claim_of(&refused(&database, &more(11))), over(6, 5).as_ref());
    database.commit(&more(10)).expect("durable").committed().expect("as many as there may be");
    let anew = Commit::new().part(delete_topic("t")).produce("u", Message::new("m"));
    database.commit(&anew).expect("durable").committed().expect("the commit frees ten before");
    let two = Commit::new().produce("v", Message::new("m")).part(Part::Streams(streams::Command::CreateTopic {
        name: "w",
        partitions: 9,
        settings: TopicSettings::default(),
    }));
    assert_eq!(claim_of(&refused(&database, &two)), over(2, 9).as_ref(), "the parts of a commit count together");
}

fn offset(group: &str, metadata: &'static str) -> Commit<'static> {
    let group = group.to_owned().leak();
    Commit::new().part(Part::Streams(streams::Command::CommitOffset {
        group,
        topic: TopicRef::Name("t"),
        partition: 0,
        offset: Sequence::new(0),
        leader_epoch: None,
        metadata,
        by: Committer::Anyone,
    }))
}

#[test]
fn the_number_of_groups_is_limited() {
    let join = |group: &'static str| {
        Commit::new().produce("t", Message::new("m")).part(Part::Streams(streams::Command::ProtectUnread {
            group,
            topic: TopicRef::Name("t"),
            protects: true,
        }))
    };
    let create = |number| join(["g0", "g1", "g2", "g3", "g4", "g5"][number]);
    let delete = streams::Command::DeleteGroup { group: "g1", despite: Despite::Nobody };
    let delete = Commit::new().part(Part::Streams(delete));
    bounded(ClaimLimit::Groups, quire::Builder::groups_max, create, Some(delete));
}

#[test]
fn the_bytes_of_committed_offsets_are_limited_and_those_that_replace_others_count_once() {
    let place = Place::new();
    let most = 2 * 96 + 10;
    let open = || place.builder(Durability::Os).offset_bytes_max(most).open().expect("opens");
    let mut database = open();
    database.topic("t").create(1).expect("accepted");
    let accepted = |database: &Database, commit: &Commit<'_>| {
        database.commit(commit).expect("durable").committed().expect("accepted");
    };
    let used = |database: &Database| database.read_published(|view| view.streams.offset_bytes()).expect("readable");
    for _ in 0..3 {
        accepted(&database, &offset("a", "five."));
        accepted(&database, &offset("b", "five."));
        assert_eq!(used(&database), most);
        drop(database);
        database = open();
    }
    let over =
        |count, more| Some(ClaimRefusal::OverLimit { limit: ClaimLimit::OffsetBytes, count, more, count_max: most });
    assert_eq!(claim_of(&refused(&database, &offset("a", "longer."))), over(most, 2).as_ref());
    assert_eq!(claim_of(&refused(&database, &offset("c", ""))), over(most, 96).as_ref());
    accepted(&database, &offset("a", "3.."));
    accepted(&database, &offset("b", "longer."));
    assert_eq!(used(&database), most);
    let delete = streams::Command::DeleteOffset { group: "b", topic: TopicRef::Name("t"), partition: 0 };
    accepted(&database, &Commit::new().part(Part::Streams(delete)));
    accepted(&database, &offset("c", "longer."));
    let delete = streams::Command::DeleteGroup { group: "a", despite: Despite::Nobody };
    accepted(&database, &Commit::new().part(Part::Streams(delete)));
    assert_eq!(used(&database), 96 + 7);
    accepted(&database, &Commit::new().part(delete_topic("t")));
    assert_eq!(used(&database), 0);
}

#[test]
fn new_names_have_no_control_characters() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    database.topic("t").create(1).expect("accepted");
    let job = |job: fn(NewJob<'static>) -> NewJob<'static>| Commit::new().enqueue("q", job(NewJob::new(b"")));
    let kind = |kind: &'static str| Commit::new().enqueue("q", NewJob::new(b"").kind(kind));
    let streams = |command| Commit::new().part(Part::Streams(command));
    let events = |command| Commit::new().part(Part::Events(command));
    let member = StaticMember { instance: "a\nb", member: "m" };
    let members = [member];
    let generation = |protocol, members| streams::Command::BeginGeneration {
        group: "g",
        generation: Generation::new(1),
        protocol_type: "consumer",
        protocol,
        members,
    };
    let join = |name| streams::Command::JoinGroup { group: "g", topic: TopicRef::Name("t"), name, lease_ms: 1_000 };
    let upstream = Upstream { store: "s", source: "a\nb", position: 1 };
    let projection = SaveProjection {
        store: "s",
        name: "a\nb",
        version: 1,
        base: EventPosition::ZERO,
        position: EventPosition::ZERO,
        state: b"",
    };
    let attempts = Attempts { group_by: "a\nb".into(), ..Attempts::default() };
    let subscription = PutSubscription { store: "s", name: "n", query: Query::all(), after: None, attempts };
    let fetch = jobs::Command::Fetch {
        queues: &["q"],
        order: jobs::Order::Strict,
        count: 1,
        lease_micros: 1,
        worker: "w\u{1b}[2J",
    };
    let commits = [
        kind("a\0b"),
        kind("a\u{85}b"),
        job(|job| job.group("g\n")),
        job(|job| job.tag("t\u{7f}")),
        Commit::new().part(Part::Jobs(fetch)),
        Commit::new().append("s", [NewEvent::new("A\nB")]),
        Commit::new().append("s", [NewEvent::new("A").tag("a\rb")]),
        events(events::Command::Upstream(upstream)),
        events(events::Command::SaveProjection(projection)),
        events(events::Command::PutSubscription(subscription)),
        Commit::new().put_block("g", NewBlock::new("a\nb", "thing")),
        Commit::new().put_block("g", NewBlock::new("a", "th\ting")),
        Commit::new().put_block("g", NewBlock::new("a", "thing").tag("a\nb")),
        Commit::new().put_block("g", NewBlock::new("a", "thing")).put_edge("g", NewEdge::new("a", "to\n", "a")),
        streams(generation("ra\nge", &[])),
        streams(generation("range", &members)),
        streams(join("a\nb")),
        offset("a\nb", ""),
        Commit::new().produce("t\n", Message::new("m")),
    ];
    for commit in &commits {
        let message = refused(&database, commit).to_string();
        assert!(message.contains("control character") || message.contains("only A-Z"), "{message}");
    }
    for dots in [".", ".."] {
        let reason = refused(&database, &offset(dots, ""));
        assert_eq!(reason, Reason::Streams(streams::Refusal::InvalidGroupName(TopicNameProblem::Dots)));
    }
    // Text of any language, and binary tags, are names.
    let others = offset("gruppe ä\u{202e}", "")
        .append("s", [NewEvent::new("geschehen ä").tag(b"\xff\x01").tag("größe:1")])
        .enqueue("q", NewJob::new(b"").kind("späte Arbeit").tag("名"));
    database.commit(&others).expect("durable").committed().expect("accepted");
}

/// The database of an earlier version in `tests/corpus/names`.
fn earlier(with_checkpoint: bool) -> (Place, Database) {
    let place = Place::new();
    let corpus = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/names"));
    fs::create_dir_all(place.shard()).expect("created");
    fs::copy(corpus.join("quire.meta"), place.path().join("quire.meta")).expect("copied");
    let log = "00000000000000000001.log";
    fs::copy(corpus.join(log), place.shard().join(log)).expect("copied");
    let segment = fs::OpenOptions::new().write(true).open(place.shard().join(log)).expect("there");
    segment.set_len(4 << 20).expect("as long as it was");
    if with_checkpoint {
        let checkpoint = "00000000000000000010.checkpoint";
        fs::copy(corpus.join(checkpoint), place.shard().join(checkpoint)).expect("copied");
    }
    let database = Database::builder(place.path()).durability(Durability::Os).segment_bytes(4 << 20).open();
    (place, database.expect("a database of an earlier version opens"))
}

#[test]
fn a_database_whose_objects_share_a_topic_name_opens_and_lists_the_hidden_ones() {
    for with_checkpoint in [true, false] {
        let (_place, database) = earlier(with_checkpoint);
        let hidden = database.read_published(|view| view.hidden_objects()).expect("readable");
        let hidden: Vec<String> = hidden.iter().map(ToString::to_string).collect();
        assert_eq!(
            hidden,
            [
                r#"Kafka clients do not see event store "air/flights": its topic name "air.flights" shows event store "air.flights""#,
                r#"Kafka clients do not see event store "pay.orders": its topic name "pay.orders" shows topic "pay.orders""#,
                r#"Kafka clients do not see event store "pay/orders": its topic name "pay.orders" shows topic "pay.orders""#,
                r#"Kafka clients do not see queue "mail.out": its topic name "jobs.mail.out" shows topic "jobs.mail.out""#,
                r#"Kafka clients do not see queue "mail/out": its topic name "jobs.mail.out" shows topic "jobs.mail.out""#,
            ]
        );
        // All of them are written to as before.
        let commit = Commit::new()
            .produce("pay.orders", Message::new("m"))
            .append("pay/orders", [NewEvent::new("Paid")])
            .append("pay.orders", [NewEvent::new("Paid")])
            .enqueue("mail/out", NewJob::new(b""))
            .enqueue("mail.out", NewJob::new(b""));
        database.commit(&commit).expect("durable").committed().expect("accepted");
        let again = Commit::new().part(delete_topic("pay.orders")).part(create_topic("pay.orders"));
        taken_by(&database, &again, (NameKind::Store, "pay.orders"));
        database
            .commit(&Commit::new().part(delete_topic("pay.orders")))
            .expect("durable")
            .committed()
            .expect("accepted");
        let shown = database.read_published(|view| view.topic_owner("pay.orders").map(|owner| owner.name().to_owned()));
        assert_eq!(shown.expect("readable").as_deref(), Some("pay.orders"));
    }
}

#[test]
fn names_with_control_characters_in_the_log_still_apply() {
    for with_checkpoint in [true, false] {
        let (_place, database) = earlier(with_checkpoint);
        // Existing groups with such names continue to work.
        for group in ["..", "a\nb"] {
            assert_eq!(database.topic("pay.orders").committed_offset(group, 0).expect("there"), Some(Sequence::new(0)));
            database.commit(&offset_in_orders(group)).expect("durable").committed().expect("accepted");
        }
        let job = database.queue("mail/out").fetch("w", 1).expect("readable").remove(0);
        assert_eq!((&*job.kind, &*job.group), ("a\0b", "g\n1"));
        database.commit(&Commit::new().ack(job.job, job.token, b"")).expect("durable").committed().expect("accepted");
        // An event with such a type is delivered as a job with a valid kind.
        let commit = Commit::new().part(subscribe("pay.orders", "later"));
        database.commit(&commit).expect("durable").committed().expect("accepted");
        database.carry_out(Duty::Deliver).expect("delivered");
        let delivered = loop {
            if let Some(job) = database.queue("later").fetch("w", 1).expect("readable").pop() {
                break job;
            }
            std::thread::yield_now();
        };
        assert_eq!(&*delivered.kind, "Paid?forged");
    }
}

fn offset_in_orders(group: &'static str) -> Commit<'static> {
    Commit::new().commit_offset(group, "pay.orders", 0, Sequence::new(1))
}
