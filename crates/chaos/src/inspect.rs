//! Compares a directory with the answers that clients got: every commit is there, whole, in order,
//! once.
//!
//! The events define the order. The other models have the commits in the same order, so a commit
//! that one of them has is in all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

use quire::events::{Query, ReadOptions};
use quire::graph::{Block, BlockId, Direction, ListCursor, ListPlan};
use quire::jobs::{Filter, JobState};
use quire::tools::{self, Severity};
use quire::{Database, Sequence};

use crate::client::{DONE, GRAPH, MADE, MAKER, QUEUE, STORE, TOPIC, builder};
use crate::ledger::{Ledger, PartPositions};

/// Opens the directory twice, and compares it each time.
///
/// # Errors
/// The inconsistency found.
pub(crate) fn inspect(data: &Path, sync: bool, ledger: &Ledger) -> Result<(), String> {
    for _ in 0..2 {
        let opened = builder(data, sync).open();
        let database = opened.map_err(|error| format!("the attacked database does not open: {error}"))?;
        let story = DatabaseContents::of(&database)
            .map_err(|error| format!("the attacked database can't be read: {error}"))??;
        story.holds(ledger)?;
        drop(database);
        let verified = tools::verify(data, None, &mut |_, _| ())
            .map_err(|error| format!("the attacked database can't be verified: {error}"))?;
        if verified.worst() == Some(Severity::Lost) {
            return Err(format!("verification reports a loss: {:?}", verified.findings));
        }
    }
    Ok(())
}

/// The contents of the database.
#[derive(Debug, Default)]
struct DatabaseContents {
    /// By id: its event, its message and its job.
    made: BTreeMap<String, (u64, u64, String)>,
    /// By claim.
    claimed: BTreeMap<String, (String, u64)>,
    done: BTreeSet<String>,
}

impl DatabaseContents {
    /// Reads the contents, and checks that the models agree.
    fn of(database: &Database) -> quire::Result<Result<Self, String>> {
        let read = database.events(STORE).read(&Query::all(), ReadOptions::default())?;
        let messages = messages(database)?;
        let jobs = jobs(database)?;
        let blocks = blocks(database)?;
        let (mut story, mut made) = (DatabaseContents::default(), Vec::new());
        for (event, expected) in read.events.iter().zip(1..) {
            let (position, text) = (event.position.get(), String::from_utf8_lossy(&event.data).into_owned());
            let tag = event.tags.first().map(|tag| String::from_utf8_lossy(tag).into_owned()).unwrap_or_default();
            if position != expected {
                return Ok(Err(format!("event {expected} is missing, found {position}")));
            }
            let is_new = match event.event_type.as_str() {
                "Made" => {
                    made.push(text);
                    true
                }
                "Claimed" => story.claimed.insert(tag, (text, position)).is_none(),
                "Done" => story.done.insert(text),
                _ => false,
            };
            if !is_new {
                return Ok(Err(format!("event {position} is unexpected: {event:?}")));
            }
        }
        let events = read.events.iter().filter(|event| event.event_type == "Made").map(|event| event.position.get());
        if messages != made {
            return Ok(Err(format!("{} commits do not match the {} messages", made.len(), messages.len())));
        }
        if jobs.iter().map(|(_, id, _)| id).ne(&made) {
            return Ok(Err(format!("{} commits do not match the {} jobs", made.len(), jobs.len())));
        }
        for ((id, event), (offset, (job, _, state))) in made.into_iter().zip(events).zip((0..).zip(jobs)) {
            let ends = state == JobState::Completed;
            let lives = matches!(state, JobState::Pending | JobState::Active | JobState::Retrying);
            if ends != story.done.contains(&id) || !(ends || lives) {
                return Ok(Err(format!("job {job} of {id} is {state}")));
            }
            let maker = id.split('.').next().unwrap_or_default();
            let kind = if ends { DONE } else { MADE };
            let block = blocks.get(&id);
            if block
                .is_none_or(|block| (block.kind.as_str(), block.edges.as_slice()) != (kind, &[BlockId::of_name(maker)]))
            {
                return Ok(Err(format!("the block of {id} must be {kind}, made by {maker}, got {block:?}")));
            }
            if story.made.insert(id.clone(), (event, offset, job)).is_some() {
                return Ok(Err(format!("duplicate commit {id}")));
            }
        }
        let others = blocks.keys().filter(|name| !story.made.contains_key(*name));
        if let Some(other) = others.clone().find(|name| blocks[*name].kind != MAKER) {
            return Ok(Err(format!("block {other} belongs to no commit")));
        }
        Ok(story.in_order())
    }

    /// Commits of a client follow each other.
    fn in_order(self) -> Result<Self, String> {
        let mut numbers: BTreeMap<(&str, &str), BTreeMap<u64, u64>> = BTreeMap::new();
        for (id, (event, ..)) in &self.made {
            let [name, run, number] = id.split('.').collect::<Vec<_>>()[..] else { return Err(format!("an id: {id}")) };
            numbers.entry((name, run)).or_default().insert(*event, number.parse().unwrap_or_default());
        }
        for ((name, run), numbers) in numbers {
            if !numbers.values().is_sorted() {
                return Err(format!("the commits of {name} in run {run} are out of order"));
            }
        }
        Ok(self)
    }

    /// Checks every acknowledgement.
    fn holds(&self, ledger: &Ledger) -> Result<(), String> {
        for (id, told) in &ledger.made {
            let PartPositions { event, offset, job, .. } = told;
            let found = self.made.get(id);
            if found != Some(&(*event, *offset, job.clone())) {
                return Err(format!("commit {id} was acknowledged as {told:?}, found {found:?}"));
            }
        }
        for (claim, told) in &ledger.claimed {
            let found = self.claimed.get(claim);
            if found != Some(told) {
                return Err(format!("{claim} was granted to {told:?}, found {found:?}"));
            }
        }
        match ledger.done.iter().find(|id| !self.done.contains(*id)) {
            Some(id) => Err(format!("the acknowledged end of the job of {id} is missing")),
            None => Ok(()),
        }
    }
}

/// The values of the messages, in order.
fn messages(database: &Database) -> quire::Result<Vec<String>> {
    let topic = database.topic(TOPIC);
    let (mut values, mut next) = (Vec::new(), Sequence::new(0));
    loop {
        let fetched = topic.fetch(0, next, 1 << 20)?;
        if fetched.records.is_empty() {
            return Ok(values);
        }
        let value = |value: Option<Vec<u8>>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        values.extend(fetched.records.into_iter().map(|record| value(record.value)));
        next = fetched.next_offset;
    }
}

/// A block: its kind, and the sources of its incoming edges.
#[derive(Debug)]
struct BlockFacts {
    kind: String,
    edges: Vec<BlockId>,
}

/// The blocks, by name.
fn blocks(database: &Database) -> quire::Result<BTreeMap<String, BlockFacts>> {
    let mut blocks = BTreeMap::new();
    let Some(snapshot) = database.graph(GRAPH).snapshot()? else { return Ok(blocks) };
    let mut show = |block: &Block<'_>| {
        blocks.insert(
            block.name.unwrap_or_default().to_owned(),
            BlockFacts { kind: block.kind.to_owned(), edges: Vec::new() },
        );
        ControlFlow::Continue(())
    };
    snapshot.list(&ListPlan::default(), ListCursor::START, None, &mut show)?;
    for (name, block) in &mut blocks {
        block.edges =
            snapshot.neighbours(BlockId::of_name(name), Direction::Incoming, &[MADE], None, 2, |found| found.block)?;
    }
    Ok(blocks)
}

/// The jobs, in the order in which they were enqueued: their ids, payloads and states.
///
/// One search over all states, so that a job whose lease or backoff ends during the search is found
/// once.
fn jobs(database: &Database) -> quire::Result<Vec<(String, String, JobState)>> {
    let (queue, filter) = (database.queue(QUEUE), Filter { queue: Some(QUEUE), ..Filter::default() });
    let (mut jobs, mut after) = (Vec::new(), None);
    loop {
        let page = database.search_jobs(&filter, after, 1_000)?;
        for id in page.jobs {
            let Some(job) = queue.job(id)? else { continue };
            jobs.push((id.to_string(), String::from_utf8_lossy(&job.payload).into_owned(), job.state()));
        }
        after = page.next;
        if after.is_none() {
            return Ok(jobs);
        }
    }
}
