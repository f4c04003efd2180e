//! The steps of a request: searches that find nothing, conditions, lists and walks end when they
//! have used up their steps, and soon after the request was cancelled.

use quire::events::{self, Condition, EventPosition, NewEvent, Query, QueryItem, ReadOptions};
use quire::graph::{BlockFilter, BlockId, ListCursor, ListPlan, WalkBound, WalkPlan, Wants};
use quire::jobs::Filter;
use quire::{Commit, Database, Durability, ErrorKind, NewBlock, NewEdge, NewJob, ReadError, Reason, StepBudget};

use crate::support::Place;

const EVENTS: u64 = 20_000;

/// The most steps between two claims of a search.
const BETWEEN_CLAIMS: u64 = 300;

/// Events with the tags `even` and `odd` in turn, and an own tag each, in the live segment.
fn alternating() -> (Place, Database) {
    alternating_in(64 << 20)
}

fn alternating_in(segment_bytes: u64) -> (Place, Database) {
    let place = Place::new();
    let database = place.builder(Durability::Os).segment_bytes(segment_bytes).open().expect("opened");
    let event = |number: u64| {
        let tag = if number.is_multiple_of(2) { "even" } else { "odd" };
        NewEvent::new("Counted").tag(tag).tag(format!("number:{number}"))
    };
    for first in (0..EVENTS).step_by(1_000) {
        database.events("numbers").append((first..first + 1_000).map(event)).expect("appended");
    }
    (place, database)
}

fn both() -> Query<'static> {
    Query::from(QueryItem::new().tag("even").tag("odd"))
}

/// A budget that counts the steps of work within a part of it.
fn counted(steps: u64) -> (StepBudget, StepBudget) {
    let whole = StepBudget::unbounded();
    (StepBudget::part_of(Some(&whole), steps), whole)
}

#[test]
fn a_read_without_a_match_ends_with_the_steps_of_its_request() {
    let (_place, database) = alternating();
    let read = |budget: StepBudget| database.within(budget).events("numbers").read(&both(), ReadOptions::default());
    assert_eq!(read(StepBudget::new(2 * EVENTS)).expect("read").events, []);
    for backwards in [false, true] {
        let (budget, whole) = counted(5_000);
        let options = ReadOptions { backwards, ..ReadOptions::default() };
        let error = database.within(budget).events("numbers").read(&both(), options).expect_err("too costly");
        assert_eq!(error.kind(), ErrorKind::TooCostly);
        assert!(error.to_string().contains("more than 5000 steps"), "{error}");
        let steps = u64::MAX - whole.left();
        assert!((4_000..5_000 + BETWEEN_CLAIMS).contains(&steps), "{steps} steps of 5,000");
    }
}

/// Reads in pages of `budget` steps, and continues where a page was refused.
fn read_on(database: &Database, query: &Query<'_>, backwards: bool, steps: u64) -> (Vec<u64>, usize) {
    let (mut found, mut refused) = (Vec::new(), 0);
    let mut options = ReadOptions { backwards, ..ReadOptions::default() };
    loop {
        let bounded = database.within(StepBudget::new(steps));
        let selection = bounded.read_published(|view| view.events.select("numbers", query));
        let selection = selection.expect("readable").expect("a valid query");
        let history = bounded.history();
        let mut given = None;
        let ended = selection.read(&history, options).expect("begun").try_for_each(|event| {
            let position = event?.position;
            found.push(position.get());
            given = Some(position);
            Ok::<_, ReadError>(())
        });
        let Err(error) = ended else { return (found, refused) };
        if let Some(given) = given {
            options.go_on(given, 0);
        }
        let reached = error.reached_place().expect("a place to continue from");
        let resumed = selection.resume_at(&database.history(), &mut options, reached).expect("readable");
        assert!(resumed || given.is_some(), "a page that was refused came further: {options:?}");
        refused += 1;
    }
}

#[test]
fn a_read_that_exceeds_its_budget_continues_at_the_returned_place_on_every_walk() {
    let tagged = |tags: &[&'static str]| tags.iter().fold(QueryItem::new(), |item, tag| item.tag(*tag));
    let rare: &[&'static str] = &["even", "number:15000"];
    let queries = [
        both(),
        Query::from(tagged(rare)),
        Query { items: vec![tagged(&["even", "odd"]), tagged(rare), tagged(&["odd", "even"])] },
        Query { items: vec![tagged(&["even", "odd"]), tagged(&["even"])] },
    ];
    for segment_bytes in [64 << 20, 256 << 10] {
        let (place, database) = alternating_in(segment_bytes);
        drop(database);
        // Full segments are sealed.
        let database = place.builder(Durability::Os).segment_bytes(segment_bytes).open().expect("opened");
        for query in &queries {
            for backwards in [false, true] {
                let options = ReadOptions { backwards, ..ReadOptions::default() };
                let whole = database.events("numbers").read(query, options).expect("read").events;
                let whole: Vec<u64> = whole.iter().map(|event| event.position.get()).collect();
                let (found, refused) = read_on(&database, query, backwards, 3_000);
                assert_eq!(found, whole, "{query:?} backwards {backwards}");
                let needs_pages = query.items.iter().any(|item| item.tags.len() == 2 && item.tags != tagged(rare).tags);
                assert_eq!(refused > 0, needs_pages, "{refused} refused of {query:?}");
            }
        }
    }
}

#[test]
fn a_cancelled_read_ends_at_its_next_claim() {
    let (_place, database) = alternating();
    let (budget, whole) = counted(u64::MAX);
    budget.cancel();
    let error = database.within(budget).events("numbers").read(&both(), ReadOptions::default());
    assert_eq!(error.expect_err("cancelled").kind(), ErrorKind::Cancelled);
    assert!(u64::MAX - whole.left() <= BETWEEN_CLAIMS);
}

/// Two hundred conditions on items without a common event. Each compares every event.
fn costly_conditions() -> Vec<Condition<'static>> {
    let condition = |_| Condition::FailIfMatches { query: both(), after: EventPosition::ZERO };
    (0..200).map(condition).collect()
}

#[test]
fn conditions_that_need_more_steps_are_refused_by_name_and_nothing_is_written() {
    let (_place, database) = alternating();
    let published = database.published();
    let (budget, whole) = counted(3 * EVENTS);
    let commit = Commit::new().enqueue("mails", NewJob::new("one")).append_if(
        "numbers",
        [NewEvent::new("Counted")],
        costly_conditions(),
    );
    let outcome = database.within(budget).commit(&commit).expect("decided");
    let refused = outcome.refused().expect("refused");
    assert_eq!(refused.part, 1);
    let Reason::Events(events::Refusal::TooCostly { condition, steps_max }) = refused.reason else {
        panic!("not too costly: {refused}")
    };
    assert_eq!((condition, steps_max), (2, 3 * EVENTS), "each condition takes a step for each event");
    assert!(u64::MAX - whole.left() <= 3 * EVENTS + BETWEEN_CLAIMS);
    assert_eq!(database.published(), published);
    let error = database.within(StepBudget::new(5)).commit(&commit).and_then(quire::Outcome::committed);
    assert_eq!(error.expect_err("refused").kind(), ErrorKind::TooCostly);
    // The owner's own commits have no bound.
    assert!(database.commit(&commit).expect("decided").committed().is_ok());
}

#[test]
fn a_repeated_append_is_answered_whatever_its_conditions_cost() {
    let (_place, database) = alternating();
    let id = events::EventId::from_bytes([7; 16]);
    let append = |database: &Database| {
        database.events("numbers").append_if([NewEvent::new("Counted").id(id)], costly_conditions())
    };
    let first = append(&database).expect("appended");
    let again = append(&database.within(StepBudget::new(1_000))).expect("answered");
    assert_eq!((again.first, again.duplicate), (first.first, true));
}

#[test]
fn a_search_of_jobs_ends_in_short_pages_that_together_hold_every_job() {
    let place = Place::new();
    let database = place.builder(Durability::Os).segment_bytes(16 << 20).open().expect("opened");
    for number in 0..3_000 {
        let tags: &[&str] = match number % 3 {
            _ if number == 2_500 => &["even", "odd"],
            0 => &["even"],
            _ => &["odd"],
        };
        let job = tags.iter().fold(NewJob::new("job"), |job, tag| job.tag(*tag));
        database.queue("numbers").enqueue(job).expect("enqueued");
    }
    let filter = Filter { tags: &["even", "odd"], ..Filter::default() };
    let all = database.search_jobs(&filter, None, 10).expect("searched");
    assert_eq!((all.jobs.len(), all.next), (1, None));
    let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = database.within(StepBudget::new(700)).search_jobs(&filter, after, 10).expect("a page");
        found.extend(page.jobs);
        (after, pages) = (page.next, pages + 1);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, all.jobs);
    assert!(pages >= 2, "{pages} pages");
    let everything = database.search_jobs(&Filter::default(), None, 5_000).expect("searched");
    assert_eq!(everything.jobs.len(), 3_000);
}

/// A chain of blocks of two kinds in turn, with a tag that only the last one has.
fn chain(blocks: usize) -> (Place, Database) {
    let place = Place::new();
    let database = place.builder(Durability::Os).segment_bytes(16 << 20).open().expect("opened");
    for first in (0..blocks).step_by(500) {
        let mut commit = Commit::new();
        for number in first..first + 500 {
            let kind = if number.is_multiple_of(2) { "even" } else { "odd" };
            let block = NewBlock::new(number.to_string(), kind).tag(kind);
            commit = commit.put_block("chain", block);
            if number > 0 {
                let edge = NewEdge::new((number - 1).to_string(), "next", number.to_string());
                commit = commit.put_edge("chain", edge);
            }
        }
        database.commit(&commit).expect("decided").committed().expect("accepted");
    }
    (place, database)
}

#[test]
fn a_walk_and_a_list_of_a_graph_stop_with_the_steps_of_their_request() {
    let (_place, database) = chain(20_000);
    let plan = WalkPlan { depth_max: usize::MAX, visited_max: usize::MAX, ..WalkPlan::default() };
    let walk = |database: &Database| {
        let snapshot = database.graph("chain").snapshot().expect("readable").expect("a graph");
        snapshot.walk(&[BlockId::of_name("0")], plan, None).expect("walked")
    };
    let whole = walk(&database);
    assert_eq!((whole.visited(), whole.bound()), (20_000, None));
    let part = walk(&database.within(StepBudget::new(12_000)));
    assert_eq!(part.bound(), Some(WalkBound::Steps));
    assert!((4_000..12_000).contains(&part.visited()), "{} blocks", part.visited());

    let filter = BlockFilter { kinds: &["even"], tags: &["odd"], ..BlockFilter::default() };
    let list_plan = ListPlan { filter, source_prefix: "" };
    let list = |database: &Database, from| {
        let snapshot = database.graph("chain").snapshot().expect("readable").expect("a graph");
        snapshot.list(&list_plan, from, None, |_| Wants::Continue(()))
    };
    assert_eq!(list(&database, ListCursor::START).expect("listed"), None);
    let (mut from, mut pages) = (ListCursor::START, 0);
    while let Some(next) = list(&database.within(StepBudget::new(9_000)), from).expect("a page") {
        assert!(next > from, "a page moves the cursor");
        (from, pages) = (next, pages + 1);
    }
    assert!(pages >= 1, "{pages} pages");
}
