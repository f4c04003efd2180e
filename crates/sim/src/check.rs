//! Everything that can be read, held against the naive models.

use std::fmt;

use quire::events::{Query, QueryItem, ReadOptions};
use quire::graph::{BlockId, Direction};
use quire::jobs::{JobId, JobState};
use quire::{Database, History, Place, Reply, Sequence, Timestamp, graph, jobs, streams};

use crate::book::{BLOCKS, Book, GRAPH, NAMES, TAGS, text};
use crate::naive::{Answer, Event, Naive, Phase};

/// What a check found.
#[derive(Debug)]
pub(crate) enum Found {
    /// What was read is not what should be.
    Wrong(String),
    /// It could not be read.
    Error(quire::Error),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Wrong(message) => f.write_str(message),
            Found::Error(error) => write!(f, "{:?}: {error}", error.kind()),
        }
    }
}

impl From<quire::Error> for Found {
    fn from(error: quire::Error) -> Self {
        Found::Error(error)
    }
}

/// As [`Found`], from under the database's lock.
enum Unread<E> {
    Wrong(String),
    Error(E),
}

type Result<T> = std::result::Result<T, Found>;

fn same<T: PartialEq + fmt::Debug>(what: impl fmt::Display, found: &T, expected: &T) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(Found::Wrong(format!("{what}: found {found:?}, expected {expected:?}")))
    }
}

/// What is read from the published log alone: event stores and topics.
/// Messages that were let go of are hidden by the commit that says so, published or not: `seen` is what the process knows of.
pub(crate) fn published(database: &Database, naive: &Naive, seen: &Naive) -> Result<()> {
    for (number, name) in NAMES.into_iter().enumerate() {
        let (events, seen_events) = (events_of(naive, number), events_of(seen, number));
        let there = (1..).zip(events.iter().zip(seen_events)).filter(|(_, (_, seen))| !seen.gone);
        let numbered: Vec<_> = there.map(|(at, (event, _))| (at, event)).collect();
        let of_tag = |tag: Option<usize>| {
            let wanted = numbered.iter().filter(|(_, event)| tag.is_none_or(|tag| event.tag == tag));
            let expected: Vec<_> =
                wanted.map(|(at, event)| (*at, TAGS[event.tag].as_bytes().to_vec(), text(event.value))).collect();
            let query = tag.map_or_else(Query::all, |tag| Query::from(QueryItem::new().tag(TAGS[tag])));
            let found = database.events(name).read(&query, ReadOptions::default())?.events;
            let found: Vec<(u64, _, _)> = found
                .into_iter()
                .map(|event| (event.position.get(), event.tags[0].clone(), utf8(event.data)))
                .collect();
            same(format_args!("events of store {name} with {tag:?}"), &found, &expected)
        };
        of_tag(None)?;
        (0..TAGS.len()).try_for_each(|tag| of_tag(Some(tag)))?;

        if let Some((topic, seen)) = naive.topics.get(&number).zip(seen.topics.get(&number)) {
            let offsets = database.topic(name).offsets(0)?;
            let next = seen.start.max(topic.messages.len() as u64);
            same(
                format_args!("where topic {name} begins"),
                &(offsets.start.get(), offsets.next.get()),
                &(seen.start, next),
            )?;
            let fetched = database.topic(name).fetch(0, Sequence::new(seen.start), usize::MAX)?;
            let found: Vec<_> =
                fetched.records.into_iter().map(|record| (record.offset.get(), record.value.map(utf8))).collect();
            let expected = (0..).zip(topic.messages.iter().map(|message| Some(text(message.value))));
            let expected: Vec<_> = expected.filter(|(offset, _)| *offset >= seen.start).collect();
            same(format_args!("records of topic {name}"), &found, &expected)?;
        }
    }
    Ok(())
}

/// Everything, also what rests on commits that were not published before: they are now.
pub(crate) fn everything(database: &Database, naive: &Naive) -> Result<()> {
    let lines = database.read(|view| {
        let (mut last, mut from) = (Timestamp::ZERO, Place::START);
        while let Some(entry) = view.history.next(&[], from).map_err(Unread::Error)? {
            if entry.time < last {
                let (place, time) = (entry.place, entry.time);
                return Err(Unread::Wrong(format!("entry {place} is of {time:?}, and the one before it of {last:?}")));
            }
            last = entry.time;
            from = entry.place.after();
        }
        // What the last record held may be gone with a compaction.
        let is_there = from > Place::new(view.position, 0);
        Ok((is_there || !naive.compacted).then_some(last.as_micros()))
    })?;
    let time = lines.wait()?.map_err(|unread| match unread {
        Unread::Wrong(message) => Found::Wrong(message),
        Unread::Error(error) => Found::Error(error.into()),
    })?;
    time.map_or(Ok(()), |time| same("the time of the last record", &time, &naive.time))?;
    published(database, naive, naive)?;
    for (number, name) in NAMES.into_iter().enumerate() {
        if naive.topics.contains_key(&number) {
            for (group, group_name) in NAMES.into_iter().enumerate() {
                let committed = database.topic(name).committed_offset(group_name, 0)?.map(Sequence::get);
                let expected = naive.offsets.get(&(group, number)).copied();
                same(format_args!("offset of {group_name} in {name}"), &committed, &expected)?;
            }
        } else if database.topic(name).offsets(0).is_ok() {
            return Err(Found::Wrong(format!("topic {name} is there")));
        }
        queue(database, naive, number)?;
    }
    graph(database, naive)
}

fn queue(database: &Database, naive: &Naive, number: usize) -> Result<()> {
    let name = NAMES[number];
    let stats = database.queue(name).stats()?;
    same(format_args!("whether queue {name} is there"), &stats.is_some(), &naive.queues.contains(&number))?;
    for state in JobState::ALL {
        let jobs = naive.jobs.iter().filter(|job| job.queue == number && state_of(job.phase) == state);
        let expected: Vec<_> = jobs.map(|job| (text(job.value), job.attempt, job.priority)).collect();
        let mut ids = database.queue(name).list(state, None, usize::MAX)?.jobs;
        if state.is_finished() {
            // They come in the order in which they finished, which the naive model does not know.
            ids.sort();
        }
        let mut found = Vec::new();
        for id in ids {
            let job = database.queue(name).job(id)?;
            found.extend(job.map(|job| (utf8(job.payload), job.attempt, job.priority.get())));
        }
        if naive.compacted && matches!(state, JobState::Completed | JobState::Cancelled) {
            // Some may be gone, and none is another.
            let mut all = expected.iter();
            if found.iter().all(|job| all.any(|expected| expected == job)) {
                continue;
            }
        }
        same(format_args!("{state} jobs of queue {name}"), &found, &expected)?;
    }
    Ok(())
}

fn graph(database: &Database, naive: &Naive) -> Result<()> {
    let read = database.graph(GRAPH).read(|graph, view| {
        let mut blocks = Vec::new();
        for (number, name) in BLOCKS.iter().enumerate() {
            let block = graph.block(view.history, BlockId::of_name(name))?;
            blocks.extend(block.map(|block| (number, utf8(block.content.to_vec()))));
        }
        let number_of = |id| BLOCKS.iter().position(|name| BlockId::of_name(name) == id);
        let mut edges = Vec::new();
        let mut incoming = Vec::new();
        for (number, name) in BLOCKS.iter().enumerate() {
            let id = BlockId::of_name(name);
            let out = graph.neighbours(id, Direction::Outgoing, &["knows"], None);
            edges.extend(out.map(|neighbour| (number, number_of(neighbour.block))));
            let into = graph.neighbours(id, Direction::Incoming, &["knows"], None);
            incoming.extend(into.map(|neighbour| (number_of(neighbour.block), Some(number))));
        }
        Ok::<_, quire::Error>((blocks, edges, incoming))
    })?;
    let (blocks, mut edges, mut incoming) = read.transpose()?.unwrap_or_default();
    let expected: Vec<_> = naive.blocks.iter().map(|(block, value)| (*block, text(*value))).collect();
    same("blocks", &blocks, &expected)?;
    edges.sort_unstable();
    let expected: Vec<_> = naive.edges.iter().map(|(source, target)| (*source, Some(*target))).collect();
    same("edges, from their sources", &edges, &expected)?;
    incoming.sort_unstable();
    let expected: Vec<_> = naive.edges.iter().map(|(source, target)| (Some(*source), Some(*target))).collect();
    same("edges, from their targets", &incoming, &expected)
}

/// Finds out the ids of jobs that nobody was told of, by what they carry.
pub(crate) fn learn(database: &Database, naive: &Naive, book: &mut Book) -> Result<()> {
    for (number, name) in NAMES.into_iter().enumerate() {
        for state in JobState::ALL {
            for id in database.queue(name).list(state, None, usize::MAX)?.jobs {
                let Some(job) = database.queue(name).job(id)? else { continue };
                let payload = utf8(job.payload);
                let known = naive.jobs.iter().position(|job| job.queue == number && text(job.value) == payload);
                note_job(book, known, id)?;
            }
        }
    }
    Ok(())
}

fn note_job(book: &mut Book, job: Option<usize>, id: JobId) -> Result<()> {
    let Some(job) = job else { return Err(Found::Wrong(format!("job {id} was never enqueued"))) };
    let known = *book.jobs.entry(job).or_insert(id);
    same(format_args!("the id of job {job}"), &id, &known)
}

/// Holds the answer to a part against the naive one, and notes ids and tokens.
pub(crate) fn answer(book: &mut Book, naive: &Naive, answer: &Answer, reply: &Reply) -> Result<()> {
    match (answer, reply) {
        (Answer::Appended { positions, duplicate }, Reply::Events(appended)) => {
            let told = appended.first.zip(appended.last).map(|(first, last)| (first.get(), last.get()));
            same("positions of events", &(told, appended.duplicate), &(*positions, *duplicate))
        }
        (Answer::Produced(offset), Reply::Streams(streams::Reply::Produced(produced))) => {
            same("offsets", &(produced.base_offset.get(), produced.last_offset.get()), &(*offset, *offset))
        }
        (Answer::Starts(start), Reply::Streams(streams::Reply::RecordsDeleted(deleted))) => {
            same("where a topic begins", &deleted.start.get(), start)
        }
        (
            Answer::Done,
            Reply::Streams(
                streams::Reply::OffsetCommitted(_)
                | streams::Reply::TopicAltered(_)
                | streams::Reply::UnreadProtected(_),
            )
            | Reply::Jobs(
                jobs::Reply::Acked
                | jobs::Reply::Failed { .. }
                | jobs::Reply::Extended { .. }
                | jobs::Reply::Snoozed { .. }
                | jobs::Reply::Changed { .. },
            ),
        ) => Ok(()),
        (Answer::Enqueued(number), Reply::Jobs(jobs::Reply::Enqueued { job, .. })) => {
            note_job(book, Some(*number), *job)
        }
        (Answer::Fetched(expected), Reply::Jobs(jobs::Reply::Fetched(fetched))) => {
            let payloads: Vec<_> = fetched.iter().map(|job| utf8(job.payload.clone())).collect();
            let values: Vec<_> = expected.iter().map(|(number, _)| text(naive.jobs[*number].value)).collect();
            same("fetched jobs", &payloads, &values)?;
            for ((number, lease), fetched) in expected.iter().zip(fetched) {
                note_job(book, Some(*number), fetched.job)?;
                // Jobs that one fetch leased share its token.
                if book.leases.values().any(|(job, token)| job == number && *token == fetched.token) {
                    return Err(Found::Wrong(format!("token {} was given twice", fetched.token)));
                }
                book.leases.insert(*lease, (*number, fetched.token));
            }
            Ok(())
        }
        (Answer::Was(was), Reply::Graph(reply)) => {
            let told = match reply {
                graph::Reply::BlockPut { created, .. } | graph::Reply::EdgePut { created } => !created,
                graph::Reply::BlockDeleted { version, .. } => *version != graph::Version::ABSENT,
                graph::Reply::EdgeDeleted { existed } => *existed,
            };
            same("whether it was there", &told, was)
        }
        (answer, reply) => Err(Found::Wrong(format!("{answer:?} is not answered by {reply:?}"))),
    }
}

fn state_of(phase: Phase) -> JobState {
    match phase {
        Phase::Scheduled { .. } => JobState::Scheduled,
        Phase::Pending => JobState::Pending,
        Phase::Active { .. } => JobState::Active,
        Phase::Retrying { .. } => JobState::Retrying,
        Phase::Completed => JobState::Completed,
        Phase::Dead => JobState::Dead,
        Phase::Cancelled => JobState::Cancelled,
    }
}

/// Up to where each store was trimmed, which must be gone already.
pub(crate) fn trimmed(database: &Database, naive: &mut Naive) -> Result<()> {
    for (number, name) in NAMES.into_iter().enumerate() {
        let up_to = trim_of(database, number);
        if !naive.trimmed_up_to(number, up_to) {
            return Err(Found::Wrong(format!("store {name} was trimmed up to {up_to}")));
        }
    }
    Ok(())
}

/// Up to where a store was trimmed.
pub(crate) fn trim_of(database: &Database, store: usize) -> u64 {
    let mut trimmed = 0;
    // Nobody is told, so nobody waits for it.
    let _ = database
        .read(|view| trimmed = view.events.store(NAMES[store]).map_or(0, |store| view.events.trimmed(store).get()));
    trimmed
}

fn events_of(naive: &Naive, store: usize) -> &[Event] {
    naive.stores.get(&store).map_or(&[], |store| &store.events)
}

fn utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| format!("{:?}", error.into_bytes()))
}
