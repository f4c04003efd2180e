//! A process that dies at any step of trimming a graph's history: the trim, the checkpoints, the
//! sealing of segments and their rewriting. The rest reads as before, or is refused, and the next
//! process finishes the removal.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use quire::graph::{BlockId, Direction, PutEdge, Retention, Wants};
use quire::{
    Background, Builder, Database, Durability, Duty, ErrorKind, ManualClock, NewBlock, NewEdge, Place as LogPlace,
    Position, Timestamp,
};

use crate::dying::DyingDisk;
use crate::support::{Place, files};

const HOUR_MS: u64 = 3_600_000;
const ROUNDS: u64 = 100;
/// Number of rounds that are kept.
const KEPT_ROUNDS: u64 = 30;
/// Number of rewrites of the segments: a hidden entry is removed after the entry that hides it.
const COMPACTIONS: usize = 3;

fn builder(place: &Place, clock: &Arc<ManualClock>) -> Builder {
    place.builder(Durability::Sync).clock(clock.clone()).background(Background::Caller)
}

/// Commits [`ROUNDS`] rounds, an hour each, in which blocks and edges are put, put again, and
/// deleted.
fn fill(database: &Database, clock: &ManualClock) {
    let graph = database.graph("g");
    let put = |name: &str, round: u64| {
        let content = [u8::try_from(round).expect("few"); 900];
        graph.put_block(NewBlock::new(name, "kind").content(content)).expect("accepted");
    };
    put("old", 0);
    for round in 1..=ROUNDS {
        clock.set(Timestamp::from_millis(HOUR_MS * round));
        put("hot", round);
        put(&passing(round), round);
        graph.put_edge(NewEdge::new("hot", "to", &*passing(round))).expect("accepted");
        let properties = format!("{round:300}");
        let edge = PutEdge { properties: properties.as_bytes(), ..PutEdge::new("g", "old", "to", "hot") };
        graph.put_edge(edge).expect("accepted");
        if round.is_multiple_of(5) {
            graph.delete_edge("old", "to", "hot").expect("accepted");
        }
        if round > 6 {
            graph.delete_block(&*passing(round - 6)).expect("accepted");
        }
        if round.is_multiple_of(3) {
            put("blinking", round);
        } else {
            graph.delete_block("blinking").expect("accepted");
        }
    }
    graph.set_retention(Retention { history_ms: Some(HOUR_MS * KEPT_ROUNDS), versions: 2 }).expect("accepted");
}

fn passing(round: u64) -> String {
    format!("passing {round}")
}

/// The whole graph as of a position, one line for each fact.
fn told_at(database: &Database, at: u64) -> Result<Vec<String>, ErrorKind> {
    let told = || {
        let snapshot = database.graph("g").snapshot_at(Position::new(at))?.expect("there is a graph");
        let names = ["old", "hot", "blinking"].map(ToOwned::to_owned).into_iter().chain((1..=ROUNDS).map(passing));
        let mut lines = Vec::new();
        for name in names {
            let id = BlockId::of_name(&name);
            let block = snapshot.block(id, |block| (block.version, block.content.to_vec()))?;
            let edges = snapshot.neighbours(id, Direction::Both, &[], None, usize::MAX, |it| (it.end, it.block))?;
            if block.is_some() || !edges.is_empty() {
                lines.push(format!("{name} {block:?} {edges:?}"));
            }
        }
        let (old, hot) = (BlockId::of_name("old"), BlockId::of_name("hot"));
        let edge = snapshot.look(|graph| {
            let edge = graph.edge_at(snapshot.history(), old, "to", hot, snapshot.at())?;
            Ok(edge.map(|edge| (edge.place, edge.properties.to_vec())))
        })?;
        lines.push(format!("{edge:?}"));
        Ok::<_, quire::Error>(lines)
    };
    told().map_err(|error| error.kind())
}

/// Returns every change from a position on.
fn changes_from(database: &Database, from: u64) -> Vec<String> {
    let read = database.graph("g").read(|graph, view| {
        let mut lines = Vec::new();
        let from = LogPlace::new(Position::new(from), 0);
        graph.changes(view.history, view.position, from, &mut |change| {
            lines.push(format!("{change:?}"));
            Wants::Continue(())
        })?;
        Ok::<_, quire::Error>(lines)
    });
    read.expect("durable").expect("there is a graph").expect("readable")
}

/// The graph before anything was removed.
struct Whole {
    last: u64,
    /// As of each position.
    told: Vec<Vec<String>>,
    changes: Vec<Vec<String>>,
}

impl Whole {
    fn of(database: &Database) -> Self {
        let last = database.published().get();
        let told = (0..=last).map(|at| told_at(database, at).expect("readable")).collect();
        Whole { last, told, changes: (0..=last).map(|from| changes_from(database, from)).collect() }
    }

    /// Checks that a database reads as before from the start of its history, and refuses earlier
    /// positions. Returns the start.
    fn check(&self, database: &Database) -> u64 {
        let from = database.graph("g").read(|graph, _| graph.history_from().get()).expect("durable").expect("there");
        for at in (0..=self.last).rev().step_by(7).chain([from.saturating_sub(1), from, from + 1]) {
            let expected = if at < from { Err(ErrorKind::Gone) } else { Ok(self.told[at as usize].clone()) };
            assert!(told_at(database, at) == expected, "as of {at}, with a history from {from}");
        }
        assert!(changes_from(database, from) == self.changes[from as usize], "the changes from {from} on");
        from
    }
}

/// Trims the graph, and frees its disk space. Returns the number of removed entries.
fn let_go(database: &Database) -> quire::Result<u64> {
    database.carry_out(Duty::Retain)?;
    database.sync()?;
    while database.carry_out(Duty::Seal)? {}
    let mut dropped = 0;
    for _ in 0..COMPACTIONS {
        dropped += database.compact()?.entries_dropped;
    }
    Ok(dropped)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("known").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

fn bytes(place: &Place) -> u64 {
    files(&place.shard(), ".log").iter().map(|path| path.metadata().expect("there").len()).sum()
}

#[test]
fn a_death_at_any_step_of_letting_go_of_a_past_leaves_the_graph_as_it_was_or_refuses_it() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(HOUR_MS)));
    let filled = Place::new();
    let database = builder(&filled, &clock).open().expect("opened");
    fill(&database, &clock);
    let whole = Whole::of(&database);
    drop(database);
    let copied = || {
        let place = Place::new();
        copy(&filled.path(), &place.path());
        place
    };
    // The entries that are removed without a crash.
    let undisturbed = copied();
    let database = builder(&undisturbed, &clock).open().expect("opened");
    let all = let_go(&database).expect("nobody dies");
    let begins = whole.check(&database);
    let bytes_left = bytes(&undisturbed);
    assert!(
        all > 200 && begins > whole.last * 2 / 3,
        "{all} went, and the history begins at {begins} of {}",
        whole.last
    );
    drop(database);

    let (mut not_trimmed, mut not_compacted, mut in_part) = (0, 0, 0);
    for step in 0.. {
        let place = copied();
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let dying = Arc::new(DyingDisk::after(Arc::clone(&left)));
        let database = builder(&place, &clock).storage(dying).open().expect("opened");
        left.store(step, Ordering::SeqCst);
        let outcome = let_go(&database);
        let is_done = left.load(Ordering::SeqCst) >= 0;
        assert_eq!(is_done, outcome.is_ok(), "step {step}: {outcome:?}");
        drop(database);

        let database = builder(&place, &clock).open().expect("what a death leaves opens");
        let from = whole.check(&database);
        assert!(from == 0 || from == begins, "step {step}: the history begins at {from}");
        let more = let_go(&database).expect("nobody dies");
        assert_eq!(whole.check(&database), begins, "step {step}");
        assert!(more <= all, "step {step}: {more} more entries went, of {all}");
        match (from, more) {
            (0, _) => not_trimmed += 1,
            (_, more) if more == all => not_compacted += 1,
            _ => in_part += 1,
        }
        drop(database);
        assert_eq!(whole.check(&builder(&place, &clock).open().expect("opened")), begins);
        let is_rest = |path: &Path| path.extension().is_some_and(|extension| extension == "new");
        assert!(!files(&place.shard(), "").iter().any(|path| is_rest(path)), "step {step}");
        let now = bytes(&place);
        assert!(
            now <= bytes_left + (64 << 10),
            "step {step}: {now} bytes are left, and {bytes_left} where nobody dies"
        );
        if is_done {
            assert!(not_trimmed > 0 && not_compacted > 3 && in_part > 3, "{not_trimmed}, {not_compacted}, {in_part}");
            return;
        }
    }
}
