//! Entries and checkpoints read back as they were written; other bytes are an error, never a panic.

extern crate std;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use proptest::prelude::*;
use quire_model::codec::{Decoder, Encoder};
use quire_model::memory::{MemoryLog, World};
use quire_model::{Creator, Effects, Entry, EntryKind, Model, ModelId, Place, Position, Timestamp};

use crate::bulk::BulkEnd;
use crate::codec::{
    BulkAdvance, BulkChange, Effect, FinalFacts, JobEdit, JobEntry, JobRevival, Run, Step, StoredKey, To,
    push_enqueued, queue_of, user_tags,
};
use crate::id::QueueId;
use crate::{
    Backoff, Cause, Change, Clash, Command, Cursor, Filter, JobId, JobSpec, JobState, Jobs, Order, Priority,
    QueueChange, QueueSettings, Rate, States, Unique, UniqueHold, UniqueScope,
};

/// Puts one entry into a log and reads it.
fn stored(push: impl FnOnce(&mut dyn Effects), read: impl FnOnce(Entry<'_>)) {
    let mut log = MemoryLog::new();
    let mut draft = log.draft(Timestamp::from_micros(1));
    push(&mut draft);
    let draft = draft.finish();
    let entry = log.append(draft).next().expect("an entry");
    read(entry);
}

fn place() -> impl Strategy<Value = Place> {
    (any::<u32>(), any::<u32>()).prop_map(|(position, index)| Place::new(Position::new(position.into()), index))
}

/// A place after another.
fn later(place: Place, by: u32, index: u32) -> Place {
    Place::new(Position::new(place.position.get() + u64::from(by)), index)
}

fn time() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp::from_micros)
}

fn rate() -> impl Strategy<Value = Option<Rate>> {
    prop_oneof![
        Just(None),
        (1..u32::MAX, 1..u64::MAX, 1..u32::MAX).prop_map(|(count, per_micros, burst)| Some(Rate::TokenBucket {
            count,
            per_micros,
            burst
        })),
        (1..u32::MAX, 1..u64::MAX)
            .prop_map(|(count, window_micros)| Some(Rate::SlidingWindow { count, window_micros })),
    ]
}

fn changes<'a>(text: &'a str, bytes: &'a [u8], number: u8, at: Timestamp) -> [Change<'a>; 11] {
    [
        Change::Cancel { reason: text },
        Change::Hold { reason: text },
        Change::Release,
        Change::Reschedule { run_at: at },
        Change::Retry { payload: None },
        Change::Retry { payload: Some(bytes) },
        Change::Delete,
        Change::Move { queue: text },
        Change::Priority(Priority::new(number)),
        Change::AttemptsMax(number.into()),
        Change::Payload(bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_effect_reads_as_it_was_pushed(
        place in place(),
        (by, index) in any::<(u32, u32)>(),
        time in time(),
        text in ".*",
        bytes: Vec<u8>,
        (number, flag) in any::<(u8, bool)>(),
        (active_max, rate, group_rate) in (prop::option::of(1..u32::MAX), rate(), rate()),
    ) {
        let (queue, job, before) = (QueueId(index), JobId::new(place), later(place, by, index));
        let settings = QueueSettings {
            paused: flag, draining: !flag, jobs_max: rate.map(|_| 1 + index / 2), active_max, group_active_max: None, rate, group_rate, retention_micros: flag.then_some(u64::from(number)),
        };
        let (progress, checkpoint) = (flag.then_some(before), (number % 2 == 0).then_some(place));
        let final_facts = FinalFacts { queue, priority: Priority::new(number), attempts_max: 7, content: before, progress, checkpoint };
        let hold = [UniqueHold::UntilFinished, UniqueHold::UntilStarted, UniqueHold::For(7)][usize::from(number % 3)];
        let unique = flag.then_some(StoredKey { scope: UniqueScope::Everywhere, hold, key: &bytes });
        let payload = flag.then_some(bytes.as_slice());
        let cursor = Cursor::from(job);
        let mut effects = Vec::from([
            Effect::QueueCreated { queue, name: &text },
            Effect::QueueSet { queue, settings },
            Effect::QueueCleared { queue },
            Effect::QueueDestroyed { queue },
            Effect::Extended { jobs: Vec::from([(job, time), (JobId::new(before), time)]) },
            Effect::Noted { job, progress: payload, checkpoint: Some(&bytes) },
            Effect::Edited(JobEdit { job, before, final_facts, from: QueueId(9), group: &text, payload }),
            Effect::Revived(JobRevival { job, before, final_facts, from: JobState::Dead, was_in: QueueId(9), group: &text, unique, retention_micros: flag.then_some(300), payload }),
            Effect::MovedOut { job, to: QueueId(7) },
            Effect::KeyHeld { job, scope: flag.then_some(queue), until: time, key: &bytes },
            Effect::BulkAdvanced(BulkAdvance {
                bulk: place, cursor, looked_at: 1, changed: 2, refused: u64::from(number), end: flag.then_some(BulkEnd::Stopped),
            }),
        ]);
        let tags = [text.as_str()];
        let ids = [JobId::new(before), job];
        let filter = Filter {
            jobs: flag.then_some(&ids),
            queue: flag.then_some(text.as_str()),
            states: States::of([JobState::Dead, JobState::Held]),
            kind: Some(&text),
            tags: &tags,
            enqueued_from: Some(time),
            enqueued_before: (!flag).then_some(time),
            finished_from: (!flag).then_some(time),
            finished_before: Some(time),
            attempts_min: Some(number.into()),
            error: flag.then_some("e"),
        };
        let creator = flag.then(|| Creator { name: text.clone(), is_user: !flag, roles: [text.clone()].into() });
        let begun = |change| Effect::BulkBegun(BulkChange::new(filter, change, creator.clone()));
        effects.extend(changes(&text, &bytes, number, time).map(begun));
        for effect in effects {
            // Encodes the steps again and compares the bytes: undecoded steps have no equality.
            stored(|effects| _ = effect.push(effects, Some(queue)), |entry| {
                assert_eq!((queue_of(entry.tags), entry.count), (Some(queue), 1));
                assert_eq!(format!("{:?}", Effect::of(&entry)), format!("{:?}", Ok::<_, ()>(&effect)));
            });
        }
    }

    #[test]
    fn steps_read_as_they_were_pushed(
        places in prop::collection::vec((place(), any::<u32>(), any::<u32>(), any::<u16>()), 1..200),
        time in time(),
        detail: Vec<u8>,
        shared in ".*",
    ) {
        let mut run = Run::default();
        run.begin(Cause::Failed, QueueId(1), &shared);
        let mut steps = Vec::new();
        for (number, (place, by, index, attempt)) in places.into_iter().enumerate() {
            let before = later(place, by, index);
            let final_facts = FinalFacts { queue: QueueId(index), priority: Priority::LOW, attempts_max: 2, content: before, progress: Some(before), checkpoint: None };
            let to = [
                To::Pending,
                To::Scheduled { at: time },
                To::Retrying { at: time },
                To::Active { deadline: time, run_until: None },
                To::Active { deadline: time, run_until: Some(time) },
                To::Held,
                To::Completed(final_facts),
                To::Cancelled(final_facts),
                To::Dead(final_facts),
                To::Deleted(final_facts),
            ][number % 10];
            let step = Step { job: JobId::new(place), before, attempt, to, detail: &detail };
            run.add(&step);
            steps.push(step);
        }
        stored(|effects| run.push(effects), |entry| {
            let Ok(Effect::Steps(read)) = Effect::of(&entry) else { panic!("steps") };
            assert_eq!((read.cause, read.shared), (Cause::Failed, shared.as_str()));
            assert_eq!(read.iter().collect::<Result<Vec<_>, _>>(), Ok(steps));
        });
    }

    #[test]
    fn a_job_reads_as_it_was_pushed(
        queue: u32,
        (run_at, expires_at) in (prop::option::of(time()), prop::option::of(time())),
        timeout_micros: Option<u64>,
        (priority, attempts_max, jitter_percent) in any::<(u8, u16, u8)>(),
        (kind, group) in (".*", ".*"),
        payload: Vec<u8>,
        key: Vec<u8>,
        (shape, base_micros, max_micros) in (0..6usize, any::<u64>(), any::<u64>()),
        hold in prop_oneof![Just(UniqueHold::UntilFinished), Just(UniqueHold::UntilStarted), any::<u64>().prop_map(UniqueHold::For)],
        tags in prop::collection::btree_set(".+", 0..5),
    ) {
        let words: Vec<&str> = tags.iter().map(String::as_str).collect();
        let waits = [base_micros, max_micros];
        let backoff: Backoff<&[u64]> = [
            Backoff::default(),
            Backoff::None,
            Backoff::Fixed { micros: base_micros },
            Backoff::Linear { base_micros, max_micros },
            Backoff::Exponential { base_micros, max_micros },
            Backoff::List(&waits[..]),
        ][shape];
        let priority = Priority::new(priority);
        let unique = Unique { key: &key, scope: UniqueScope::Everywhere, hold, clash: Clash::Keep };
        let unique = (!key.is_empty()).then_some(unique);
        let retention_micros = (key.len() % 2 == 0).then_some(base_micros);
        let new = JobSpec {
            payload: &payload, kind: &kind, priority, run_at: None, expires_at, timeout_micros, attempts_max, backoff,
            jitter_percent, group: &group, unique, retention_micros, tags: &words,
        };
        let owned = match backoff {
            Backoff::None => Backoff::None,
            Backoff::Fixed { micros } => Backoff::Fixed { micros },
            Backoff::Linear { base_micros, max_micros } => Backoff::Linear { base_micros, max_micros },
            Backoff::Exponential { base_micros, max_micros } => Backoff::Exponential { base_micros, max_micros },
            Backoff::List(waits) => Backoff::List(waits.to_vec()),
        };
        stored(
            |effects| _ = push_enqueued(effects, &mut Encoder::new(), QueueId(queue), run_at, &new),
            |entry| {
                assert!(user_tags(entry.tags).eq(words.iter().copied()));
                let Ok(Effect::Enqueued(read)) = Effect::of(&entry) else { panic!("enqueued") };
                let unique = unique.map(|unique| StoredKey { scope: unique.scope, hold: unique.hold, key: unique.key });
                let expected = JobEntry {
                    queue: QueueId(queue), priority, attempts_max, run_at, expires_at, timeout_micros, group: &group, unique,
                    backoff: owned, jitter_percent, kind: &kind, retention_micros, payload: &payload,
                };
                assert_eq!(read, expected);
            },
        );
    }

    #[test]
    fn any_bytes_are_an_effect_or_an_error(kind in 0..40u8, body: Vec<u8>) {
        let entry = Entry {
            place: Place::START,
            time: Timestamp::ZERO,
            kind: EntryKind { model: ModelId::JOBS, kind },
            sequence: None,
            count: 0,
            tags: quire_model::Tags::from_encoded(&[]),
            body: &body,
        };
        if let Ok(Effect::Steps(steps)) = Effect::read(&entry) {
            // An error ends what can be read.
            for step in steps.iter() {
                if step.is_err() {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_damaged_checkpoint_is_an_error_or_another_state(at: prop::sample::Index, byte: u8) {
        let mut world = World::<Jobs>::new();
        let now = Timestamp::from_micros(1);
        let unique = Unique { hold: UniqueHold::For(9), ..Unique::new(b"k") };
        let job = JobSpec { group: "g", unique: Some(unique), expires_at: Some(now.plus_micros(9)), ..JobSpec::new(b"{}") };
        let other = JobSpec { group: "h", ..JobSpec::new(b"{}") };
        let fetch = Command::Fetch { queues: &["q"], order: Order::Strict, count: 1, lease_micros: 1, worker: "w" };
        let set = |change| Command::SetQueue { queue: "q", change };
        let rate = Some(Rate::SlidingWindow { count: 2, window_micros: 5 });
        for command in [
            set(QueueChange::Rate(rate)),
            set(QueueChange::GroupRate(Some(Rate::TokenBucket { count: 2, per_micros: 5, burst: 1 }))),
            Command::Enqueue { queue: "q", job },
            Command::Enqueue { queue: "q", job: other },
            Command::Enqueue { queue: "q", job: JobSpec { run_at: Some(now.plus_micros(8)), ..other } },
            fetch,
            Command::Bulk { filter: Filter::default(), change: Change::Release },
        ] {
            world.commit(now, &[command]).expect("accepted");
        }
        let mut bytes = World::saved(&world.model);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(loaded) = Jobs::load(&mut Decoder::new(&bytes)) {
            loaded.save(&mut Encoder::new());
        }
        prop_assert!(Jobs::load(&mut Decoder::new(&bytes[..at])).is_err(), "cut short");
    }
}

#[test]
fn a_checkpoint_of_the_version_before_is_read() {
    let mut world = World::<Jobs>::new();
    world
        .commit(Timestamp::from_micros(1), &[Command::Enqueue { queue: "q", job: JobSpec::new(b"{}") }])
        .expect("accepted");
    let saved = World::saved(&world.model);
    let before = [&[4], &saved[1..]].concat();
    let loaded = Jobs::load(&mut Decoder::new(&before)).expect("version 4 is read");
    assert_eq!(World::saved(&loaded), saved, "it is saved as the version of today");
    let older = [&[3], &saved[1..]].concat();
    assert!(Jobs::load(&mut Decoder::new(&older)).is_err());
}
