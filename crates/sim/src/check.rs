//! Compares everything readable with the naive models.

mod graphs;

use std::fmt;

use quire::events::{Query, QueryItem, ReadOptions};
use quire::jobs::{JobId, JobState};
use quire::{Database, History, Place, Position, Reply, Sequence, Timestamp, graph, jobs, streams};

use crate::book::{Book, NAMES, STORES, TAGS, key_text, payload, rival_topic, text};
use crate::naive::{Event, Message, Naive, NaiveReply, Phase, Rival, Subscription, Topic};

/// The result of a check.
#[derive(Debug)]
pub(crate) enum CheckError {
    /// A read returned a wrong result.
    Wrong(String),
    /// A read failed.
    Error(quire::Error),
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckError::Wrong(message) => f.write_str(message),
            CheckError::Error(error) => write!(f, "{:?}: {error}", error.kind()),
        }
    }
}

impl From<quire::Error> for CheckError {
    fn from(error: quire::Error) -> Self {
        CheckError::Error(error)
    }
}

/// Like [`CheckError`], inside a callback of the database.
enum UnreadableData<E> {
    Wrong(String),
    Error(E),
}

type Result<T> = std::result::Result<T, CheckError>;

fn same<T: PartialEq + fmt::Debug>(what: impl fmt::Display, found: &T, expected: &T) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(CheckError::Wrong(format!("{what}: found {found:?}, expected {expected:?}")))
    }
}

/// Checks the reads of the published log alone: event stores and topics. A commit that trims
/// messages hides them as soon as the process knows of it, published or not; `seen` is what the
/// process knows.
pub(crate) fn published(database: &Database, naive: &Naive, seen: &Naive) -> Result<()> {
    (0..NAMES.len()).try_for_each(|number| published_of(database, naive, seen, number))
}

/// The same for the store and the topic with this number.
fn published_of(database: &Database, naive: &Naive, seen: &Naive, number: usize) -> Result<()> {
    let (name, store) = (NAMES[number], STORES[number]);
    let (events, seen_events) = (events_of(naive, number), events_of(seen, number));
    let there = (1..).zip(events.iter().zip(seen_events)).filter(|(_, (_, seen))| !seen.gone);
    let numbered: Vec<_> = there.map(|(at, (event, _))| (at, event)).collect();
    let of_tag = |tag: Option<usize>| {
        let wanted = numbered.iter().filter(|(_, event)| tag.is_none_or(|tag| event.tag == tag));
        let expected: Vec<_> =
            wanted.map(|(at, event)| (*at, TAGS[event.tag].as_bytes().to_vec(), text(event.value))).collect();
        let query = tag.map_or_else(Query::all, |tag| Query::from(QueryItem::new().tag(TAGS[tag])));
        let found = database.events(store).read(&query, ReadOptions::default())?.events;
        let found: Vec<(u64, _, _)> =
            found.into_iter().map(|event| (event.position.get(), event.tags[0].clone(), utf8(event.data))).collect();
        same(format_args!("events of store {store} with {tag:?}"), &found, &expected)
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
        // A fetch ends before an unreadable record, and the next fetch reports it.
        let (mut found, mut from) = (Vec::new(), seen.start);
        loop {
            let fetched = database.topic(name).fetch(0, Sequence::new(from), usize::MAX)?;
            found.extend(fetched.records);
            let begun = std::mem::replace(&mut from, fetched.next_offset.get());
            if from <= begun || from >= next {
                break;
            }
        }
        let found = found.into_iter();
        let found: Vec<_> = found
            .map(|record| (record.offset.get(), record.key.map(utf8).unwrap_or_default(), record.value.map(utf8)))
            .collect();
        messages(name, &found, topic, seen, naive.compacted)?;
    }
    Ok(())
}

/// A message as read: its offset, its key, and its value.
type ReadStep = (u64, String, Option<String>);

/// The messages of a topic: all that are not deleted. After a possible compaction, at least the
/// newest of each key.
fn messages(name: &str, found: &[ReadStep], topic: &Topic, seen: &Topic, compacted: bool) -> Result<()> {
    let of = |(offset, message): (u64, &Message)| (offset, message.key().to_owned(), message.text());
    let expected: Vec<ReadStep> = (0..).zip(&topic.messages).map(of).filter(|(at, ..)| *at >= seen.start).collect();
    let what = format!("records of topic {name}");
    if !(compacted && seen.compacts) {
        return same(what, &found.to_vec(), &expected);
    }
    let mut all = expected.iter();
    let has_gained = !found.iter().all(|record| all.any(|expected| expected == record));
    let newest = |(at, key, _): &&ReadStep| !expected.iter().any(|(later, other, _)| later > at && other == key);
    // A deletion marker is kept for a limited time.
    let lost = expected.iter().filter(newest).find(|record| record.2.is_some() && !found.contains(record));
    match lost {
        None if !has_gained => Ok(()),
        _ => Err(CheckError::Wrong(format!("{what}: found {found:?} of {expected:?}, without {lost:?}"))),
    }
}

/// Checks everything, including state that rests on unpublished commits: they are published now.
pub(crate) fn everything(database: &Database, naive: &Naive) -> Result<()> {
    parts(database, naive, &mut |found| found)
}

/// Like [`everything`], for a database with a damaged file. Unreadable data is skipped, and all
/// other data must be right. Returns the number of failed reads.
pub(crate) fn all_else(database: &Database, naive: &Naive) -> Result<usize> {
    let mut refused = 0;
    parts(database, naive, &mut |found| match found {
        Err(CheckError::Error(error)) if error.kind() == quire::ErrorKind::Damaged => {
            refused += 1;
            Ok(())
        }
        found => found,
    })?;
    Ok(refused)
}

/// Reads everything part by part; `passes` decides after each part whether to continue.
fn parts(database: &Database, naive: &Naive, passes: &mut dyn FnMut(Result<()>) -> Result<()>) -> Result<()> {
    passes(times(database, naive))?;
    for number in 0..NAMES.len() {
        passes(published_of(database, naive, naive, number))?;
        passes(topic(database, naive, number))?;
        passes(queue(database, naive, number))?;
        passes(subscription(database, naive, number))?;
    }
    passes(members(database, naive))?;
    passes(keys(database, naive))?;
    passes(graphs::all(database, naive))
}

/// The idempotency keys, and the positions of their commits.
fn keys(database: &Database, naive: &Naive) -> Result<()> {
    let found = database.read(|view| {
        let positions = naive.keys.iter().map(|known| view.answered_commit(&key_text(known.key.key)));
        (view.idempotency_keys().keys, positions.map(|position| position.map_or(0, Position::get)).collect::<Vec<_>>())
    })?;
    // A key that had expired may be there twice. The newest commit counts.
    let newest = |key: u64| naive.keys.iter().rev().find(|known| known.key.key == key).map_or(0, |known| known.record);
    let expected = naive.keys.iter().map(|known| newest(known.key.key)).collect();
    same("the number and the positions of keys", &found.wait()?, &(naive.keys.len() as u64, expected))
}

/// The times of all records.
fn times(database: &Database, naive: &Naive) -> Result<()> {
    let lines = database.read(|view| {
        let (mut last, mut from) = (Timestamp::ZERO, Place::START);
        while let Some(entry) = view.history.next(&[], from).map_err(UnreadableData::Error)? {
            if entry.time < last {
                let (place, time) = (entry.place, entry.time);
                return Err(UnreadableData::Wrong(format!(
                    "entry {place} is of {time:?}, and the one before it of {last:?}"
                )));
            }
            last = entry.time;
            from = entry.place.after();
        }
        // A compaction may have removed the last record.
        let is_there = from > Place::new(view.position, 0);
        Ok((is_there || !naive.compacted).then_some(last.as_micros()))
    })?;
    let time = lines.wait()?.map_err(|unread| match unread {
        UnreadableData::Wrong(message) => CheckError::Wrong(message),
        UnreadableData::Error(error) => CheckError::Error(error.into()),
    })?;
    time.map_or(Ok(()), |time| {
        let expected = if naive.is_time_known { naive.time } else { naive.time.max(time) };
        same("the time of the last record", &time, &expected)
    })
}

/// Whether a topic exists, and the committed offsets of each group.
fn topic(database: &Database, naive: &Naive, number: usize) -> Result<()> {
    let name = NAMES[number];
    if naive.topics.contains_key(&number) {
        for (group, group_name) in NAMES.into_iter().enumerate() {
            let committed = database.topic(name).committed_offset(group_name, 0)?.map(Sequence::get);
            let expected = naive.offsets.get(&(group, number)).copied();
            same(format_args!("offset of {group_name} in {name}"), &committed, &expected)?;
        }
    } else if database.topic(name).offsets(0).is_ok() {
        return Err(CheckError::Wrong(format!("topic {name} is there")));
    }
    for rival in [Rival::Store(number), Rival::Queue(number)] {
        let is_there = database.topic(rival_topic(rival)).offsets(0).is_ok();
        same(format_args!("whether {rival:?} has a rival"), &is_there, &naive.rivals.contains(&rival))?;
    }
    Ok(())
}

fn subscription(database: &Database, naive: &Naive, number: usize) -> Result<()> {
    let ticket = database.read(|view| {
        let found = view.events.subscription(NAMES[number])?;
        let store = STORES.iter().position(|name| view.events.store(name) == Some(found.store))?;
        Some((store, found.position.get()))
    })?;
    let expected = naive.subscriptions.get(&number).map(|Subscription { store, position, .. }| (*store, *position));
    same(format_args!("subscription {}", NAMES[number]), &ticket.wait()?, &expected)
}

/// The position up to which a subscription has delivered.
pub(crate) fn delivered_by(database: &Database, name: usize) -> Option<u64> {
    let mut position = None;
    // The result is not shown to a client, so it need not be durable.
    let _ = database.read(|view| position = view.events.subscription(NAMES[name]).map(|found| found.position.get()));
    position
}

/// The members of each group and topic, the ends of their leases, and the reading member.
fn members(database: &Database, naive: &Naive) -> Result<()> {
    for (group, group_name) in NAMES.into_iter().enumerate() {
        for (topic, topic_name) in NAMES.into_iter().enumerate() {
            let ticket = database.read(|view| {
                let Some(id) = view.streams.topic_named(topic_name).map(|topic| topic.id) else {
                    return (0, Vec::new());
                };
                let members = view.streams.members(group_name, id).map(|member| {
                    let share = view.streams.share(group_name, id, member.id).into_iter().flatten();
                    let since: Vec<u64> = share.map(|owned| owned.epoch.get()).collect();
                    (member.id.get(), member.name.to_owned(), member.lease_ms, member.until.as_micros(), since)
                });
                (view.streams.shared_out(group_name, id), members.collect())
            })?;
            let roster = naive.rosters.get(&(group, topic)).cloned().unwrap_or_default();
            let member = |(id, member): (&u64, &crate::naive::Member)| {
                let since = roster.reader.filter(|(reader, _)| reader == id).map(|(_, since)| since);
                let name = member.name.map_or("", |name| NAMES[name]).to_owned();
                (*id, name, member.lease_ms, member.until, since.into_iter().collect::<Vec<_>>())
            };
            let expected = (roster.version, roster.members.iter().map(member).collect::<Vec<_>>());
            same(format_args!("members of {group_name} in {topic_name}"), &ticket.wait()?, &expected)?;
        }
    }
    Ok(())
}

fn queue(database: &Database, naive: &Naive, number: usize) -> Result<()> {
    let name = NAMES[number];
    let stats = database.queue(name).stats()?;
    same(format_args!("whether queue {name} is there"), &stats.is_some(), &naive.queues.contains(&number))?;
    for state in JobState::ALL {
        let jobs = naive.jobs.iter().filter(|job| job.queue == number && state_of(job.phase) == state);
        let expected: Vec<_> = jobs.map(|job| (payload(job.carries), job.attempt, job.priority)).collect();
        let mut ids = database.queue(name).list(state, None, usize::MAX)?.jobs;
        if state.is_finished() {
            // They are ordered by when they finished, which the naive model does not record.
            ids.sort();
        }
        let mut found = Vec::new();
        for id in ids {
            let job = database.queue(name).job(id)?;
            found.extend(job.map(|job| (utf8(job.payload), job.attempt, job.priority.get())));
        }
        if naive.compacted && matches!(state, JobState::Completed | JobState::Cancelled) {
            // Some may be deleted, and no other may exist.
            let mut all = expected.iter();
            if found.iter().all(|job| all.any(|expected| expected == job)) {
                continue;
            }
        }
        same(format_args!("{state} jobs of queue {name}"), &found, &expected)?;
    }
    Ok(())
}

/// Finds the ids of jobs whose commits got no answer, by their payloads.
pub(crate) fn learn(database: &Database, naive: &Naive, book: &mut Book) -> Result<()> {
    for (number, name) in NAMES.into_iter().enumerate() {
        for state in JobState::ALL {
            for id in database.queue(name).list(state, None, usize::MAX)?.jobs {
                let Some(job) = database.queue(name).job(id)? else { continue };
                let found = utf8(job.payload);
                let known = naive.jobs.iter().position(|job| job.queue == number && payload(job.carries) == found);
                note_job(book, known, id)?;
            }
        }
    }
    Ok(())
}

fn note_job(book: &mut Book, job: Option<usize>, id: JobId) -> Result<()> {
    let Some(job) = job else { return Err(CheckError::Wrong(format!("job {id} was never enqueued"))) };
    let known = *book.jobs.entry(job).or_insert(id);
    same(format_args!("the id of job {job}"), &id, &known)
}

/// Compares the answer to a part with the naive one, and records ids and tokens.
pub(crate) fn answer(book: &mut Book, naive: &Naive, answer: &NaiveReply, reply: &Reply) -> Result<()> {
    match (answer, reply) {
        (NaiveReply::Appended { positions, duplicate }, Reply::Events(appended)) => {
            let told = appended.first.zip(appended.last).map(|(first, last)| (first.get(), last.get()));
            same("positions of events", &(told, appended.duplicate), &(*positions, *duplicate))
        }
        (NaiveReply::Produced(offset), Reply::Streams(streams::Reply::Produced(produced))) => {
            same("offsets", &(produced.base_offset.get(), produced.last_offset.get()), &(*offset, *offset))
        }
        (NaiveReply::Joined(member), Reply::Streams(streams::Reply::MemberJoined(joined))) => {
            same("the id of a member", &joined.member.get(), member)
        }
        (NaiveReply::Starts(start), Reply::Streams(streams::Reply::RecordsDeleted(deleted))) => {
            same("where a topic begins", &deleted.start.get(), start)
        }
        (NaiveReply::Starts(start), Reply::Graph(graph::Reply::HistoryTrimmed { from })) => {
            same("where the history of a graph begins", &from.get(), start)
        }
        (
            NaiveReply::Done,
            Reply::Streams(
                streams::Reply::OffsetCommitted(_)
                | streams::Reply::TopicCreated(_)
                | streams::Reply::TopicDeleted(_)
                | streams::Reply::TopicAltered(_)
                | streams::Reply::UnreadProtected(_)
                | streams::Reply::MemberRenewed(_)
                | streams::Reply::MemberLeft(_),
            )
            | Reply::Jobs(
                jobs::Reply::Acked
                | jobs::Reply::Failed { .. }
                | jobs::Reply::Extended { .. }
                | jobs::Reply::Snoozed { .. }
                | jobs::Reply::Changed { .. },
            )
            | Reply::Graph(graph::Reply::RetentionSet),
        ) => Ok(()),
        (NaiveReply::Enqueued(number), Reply::Jobs(jobs::Reply::Enqueued { job, .. })) => {
            note_job(book, Some(*number), *job)
        }
        (NaiveReply::Fetched(expected), Reply::Jobs(jobs::Reply::Fetched(fetched))) => {
            let payloads: Vec<_> = fetched.iter().map(|job| utf8(job.payload.clone())).collect();
            let values: Vec<_> = expected.iter().map(|(number, _)| payload(naive.jobs[*number].carries)).collect();
            same("fetched jobs", &payloads, &values)?;
            for ((number, lease), fetched) in expected.iter().zip(fetched) {
                note_job(book, Some(*number), fetched.job)?;
                // Jobs of one fetch share its token.
                let is_of_another = |(known, (job, token)): (&u64, &(usize, _))| {
                    known != lease && job == number && *token == fetched.token
                };
                if book.leases.iter().any(is_of_another) {
                    return Err(CheckError::Wrong(format!("token {} was granted twice", fetched.token)));
                }
                book.leases.insert(*lease, (*number, fetched.token));
            }
            Ok(())
        }
        (NaiveReply::Was(was), Reply::Graph(reply)) => {
            let told = match reply {
                graph::Reply::BlockPut { created, .. } | graph::Reply::EdgePut { created } => !created,
                graph::Reply::BlockDeleted { version, .. } => *version != graph::Version::ABSENT,
                graph::Reply::EdgeDeleted { existed } => *existed,
                other => return Err(CheckError::Wrong(format!("unexpected reply {other:?}"))),
            };
            same("whether it existed", &told, was)
        }
        (answer, reply) => Err(CheckError::Wrong(format!("expected {answer:?}, got {reply:?}"))),
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

/// The position up to which each store was trimmed; its events are already hidden.
pub(crate) fn trimmed(database: &Database, naive: &mut Naive) -> Result<()> {
    for (number, name) in STORES.into_iter().enumerate() {
        let up_to = trim_of(database, number);
        if !naive.trimmed_up_to(number, up_to) {
            return Err(CheckError::Wrong(format!("store {name} was trimmed up to {up_to}")));
        }
    }
    Ok(())
}

/// The position up to which a store was trimmed.
pub(crate) fn trim_of(database: &Database, store: usize) -> u64 {
    let mut trimmed = 0;
    // The result is not shown to a client, so it need not be durable.
    let _ = database
        .read(|view| trimmed = view.events.store(STORES[store]).map_or(0, |store| view.events.trimmed(store).get()));
    trimmed
}

fn events_of(naive: &Naive, store: usize) -> &[Event] {
    naive.stores.get(&store).map_or(&[], |store| &store.events)
}

fn utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| format!("{:?}", error.into_bytes()))
}
