//! The memory of what clients name in event stores: sources, saved projections, forgotten tags and
//! subscriptions.

use quire::events::{
    self, Attempts, Command, EventPosition, NewEvent, PutSubscription, Query, QueryItem, SaveProjection, Upstream,
};
use quire::{ClaimLimit, ClaimRefusal, Commit, Database, Durability, Outcome, Part, Reason};

use crate::support::Place;

fn used(database: &Database) -> u64 {
    database.read_published(|view| view.events.memory_bytes()).expect("readable")
}

fn with<'c>(commands: impl IntoIterator<Item = Command<'c>>) -> Commit<'c> {
    commands.into_iter().fold(Commit::new(), |commit, command| commit.part(Part::Events(command)))
}

fn source(name: &str) -> Command<'_> {
    Command::Upstream(Upstream { store: "s", source: name, position: 1 })
}

fn projection(name: &str) -> Command<'_> {
    let (base, position) = (EventPosition::ZERO, EventPosition::ZERO);
    Command::SaveProjection(SaveProjection { store: "s", name, version: 1, base, position, state: b"state" })
}

fn subscription<'c>(name: &'c str, types: &[&'c str]) -> Command<'c> {
    let item = types.iter().fold(QueryItem::new(), |item, event_type| item.event_type(*event_type));
    let attempts = Attempts::default().group_by("x:");
    Command::PutSubscription(PutSubscription { store: "s", name, query: Query::from(item), after: None, attempts })
}

#[track_caller]
fn accepted<'c>(database: &Database, commands: impl IntoIterator<Item = Command<'c>>) {
    database.commit(&with(commands)).expect("durable").committed().expect("accepted");
}

/// The count, the bytes of the refused command and the limit.
#[track_caller]
fn refused<'c>(database: &Database, commands: impl IntoIterator<Item = Command<'c>>) -> (u64, u64, u64) {
    match database.commit(&with(commands)).expect("an answer") {
        Outcome::Refused(refused) => match refused.reason {
            Reason::Events(events::Refusal::Claim(ClaimRefusal::OverLimit { limit, count, more, count_max })) => {
                assert_eq!(limit, ClaimLimit::StoreBytes);
                (count, more, count_max)
            }
            reason => panic!("refused for another reason: {reason:?}"),
        },
        Outcome::Committed(committed) => panic!("committed: {committed:?}"),
    }
}

#[test]
fn the_bytes_of_names_in_stores_are_limited() {
    let place = Place::new();
    let (a, b) = ("a".repeat(200), "b".repeat(200));
    let put = subscription("mails", &[&a, &b]);
    // A source, a projection, a forgotten tag, a subscription with an item of two types.
    let (source_bytes, projection_bytes, forgotten_bytes) = (96 + 200, 128 + 200, 160 + 200);
    let put_bytes = 512 + 5 + 2 + 80 + 2 * (48 + 200);
    let most = source_bytes + projection_bytes + forgotten_bytes + put_bytes;
    let open = || place.builder(Durability::Os).store_bytes_max(most).open().expect("opens");
    let mut database = open();
    database.events("s").append([NewEvent::new("A")]).expect("appended");
    assert_eq!(used(&database), 0, "events take none");
    let forget = Command::Forget { store: "s", tag: a.as_bytes() };
    accepted(&database, [source(&a), projection(&a), forget.clone(), put.clone()]);
    for remove_checkpoints in [false, true] {
        assert_eq!(used(&database), most);
        drop(database);
        if remove_checkpoints {
            place.remove_checkpoints();
        }
        database = open();
    }
    assert_eq!(used(&database), most, "after each opening");
    for (command, more) in
        [(source(&b), source_bytes), (projection(&b), projection_bytes), (subscription("other", &[]), 512 + 5 + 2 + 80)]
    {
        assert_eq!(refused(&database, [command]), (most, more, most));
    }
    // What is there already takes nothing more, and what replaces a subscription counts once.
    let further = Command::Upstream(Upstream { store: "s", source: &a, position: 2 });
    accepted(&database, [further, projection(&a), forget, put.clone()]);
    assert_eq!(used(&database), most);
    let small = subscription("mails", &[&a]);
    accepted(&database, [small.clone(), put.clone(), small]);
    assert_eq!(used(&database), most - 248);
    let (count, _, _) = refused(&database, [put.clone(), source("c")]);
    assert_eq!(count, most, "the parts of a commit count together");
    // What a commit drops makes space for what follows in it.
    let drop_projection = Command::DropProjection { store: "s", name: &a };
    accepted(&database, [drop_projection, put, projection(&b)]);
    assert_eq!(used(&database), most);
    accepted(&database, [Command::DropSubscription { name: "mails" }, source(&b)]);
    assert_eq!(used(&database), most - put_bytes + source_bytes);
    // A tag is forgotten also at the limit, and counts.
    let fill = subscription("mails", &[&a, &b]);
    accepted(&database, [Command::DropProjection { store: "s", name: &b }, fill]);
    let before = used(&database);
    assert!(before + forgotten_bytes > most, "{before}");
    accepted(&database, [Command::Forget { store: "s", tag: b.as_bytes() }]);
    assert_eq!(used(&database), before + forgotten_bytes);
    assert_eq!(refused(&database, [source("d")]).0, before + forgotten_bytes);
    let limits = database.read_published(|view| view.limited().collect::<Vec<_>>()).expect("readable");
    assert!(limits.contains(&(ClaimLimit::StoreBytes, used(&database), most)));
}
