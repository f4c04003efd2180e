//! Entries and checkpoints read back as they were written; other bytes are an error, never a panic.

extern crate std;

use alloc::string::String;
use alloc::vec::Vec;

use proptest::prelude::*;
use quire_model::codec::{Decoder, Encoder};
use quire_model::memory::{MemoryLog, World};
use quire_model::{Effects, Entry, EntryKind, Model, ModelId, Place, Position, Timestamp};

use crate::codec::{Effect, Verdict, push_enqueued, user_tags};
use crate::queue::QueueId;
use crate::{Backoff, Command, JobId, Jobs, NewJob, Priority};

/// Puts one entry into a log and reads it.
fn stored<P>(push: impl FnOnce(&mut dyn Effects) -> P, read: impl FnOnce(P, Entry<'_>)) {
    let mut log = MemoryLog::new();
    let mut draft = log.draft(Timestamp::from_micros(1));
    let pushed = push(&mut draft);
    let draft = draft.finish();
    let entry = log.append(draft).next().expect("an entry");
    read(pushed, entry);
}

fn job() -> impl Strategy<Value = JobId> {
    (any::<u64>(), any::<u32>()).prop_map(|(position, index)| JobId::new(Place::new(Position::new(position), index)))
}

fn time() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp::from_micros)
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![Just(Verdict::Dead), Just(Verdict::Pending), time().prop_map(|due| Verdict::Retrying { due })]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_effect_reads_as_it_was_pushed(
        job in job(),
        jobs in prop::collection::btree_set(job(), 1..255),
        attempt: u16,
        time in time(),
        verdict in verdict(),
        text in ".*",
        bytes: Vec<u8>,
        queue: u32,
    ) {
        let effects = [
            Effect::QueueCreated { queue: QueueId(queue), name: &text },
            Effect::Leased { job, attempt, deadline: time, worker: &text },
            Effect::Extended { job, deadline: time },
            Effect::Completed { job, attempt, result: &bytes },
            Effect::Failed { job, attempt, verdict, error: &text },
            Effect::LeaseExpired { job, attempt, verdict },
            Effect::Due { jobs: jobs.into_iter().collect() },
        ];
        for effect in effects {
            stored(|effects| effect.push(effects), |_, entry| assert_eq!(Effect::of(&entry), Ok(effect.clone())));
        }
    }

    #[test]
    fn a_job_reads_as_it_was_pushed(
        queue: u32,
        run_at in time(),
        (priority, attempts_max, base_micros, max_micros) in any::<(u8, u16, u64, u64)>(),
        kind in ".*",
        payload: Vec<u8>,
        tags in prop::collection::btree_set(".+", 0..5),
    ) {
        let words: Vec<&str> = tags.iter().map(String::as_str).collect();
        let backoff = Backoff { base_micros, max_micros };
        let priority = Priority::new(priority);
        let new = NewJob { payload: &payload, kind: &kind, priority, run_at: None, attempts_max, backoff, tags: &words };
        stored(
            |effects| push_enqueued(effects, QueueId(queue), run_at, &new).1,
            |pushed, entry| {
                assert!(user_tags(entry.tags).eq(words.iter().copied()));
                assert_eq!(Effect::of(&entry), Ok(Effect::Enqueued(pushed)));
            },
        );
    }

    #[test]
    fn any_bytes_are_an_effect_or_an_error(kind in 0..12u8, body: Vec<u8>, tag: Vec<u8>) {
        let mut tags = Vec::from([u8::try_from(tag.len() % 200 + 2).expect("short"), 0, ModelId::JOBS.get(), b'j']);
        tags.extend(tag.iter().copied().chain(core::iter::repeat(0)).take(tag.len() % 200));
        let entry = Entry {
            place: Place::START,
            time: Timestamp::ZERO,
            kind: EntryKind { model: ModelId::JOBS, kind },
            sequence: None,
            count: 0,
            tags: quire_model::Tags::from_encoded(&tags),
            body: &body,
        };
        drop(Effect::read(&entry));
    }

    #[test]
    fn a_damaged_checkpoint_is_an_error_or_another_state(at: prop::sample::Index, byte: u8) {
        let mut world = World::<Jobs>::new();
        let job = NewJob::new(b"{}");
        let later = NewJob { run_at: Some(Timestamp::from_micros(9)), ..job };
        let fetch = Command::Fetch { queues: &["q"], count: 1, lease_micros: 1, worker: "w" };
        let enqueue = |job| Command::Enqueue { queue: "q", job };
        for command in [enqueue(job), enqueue(later), enqueue(job), fetch] {
            world.commit(Timestamp::from_micros(1), &[command]).expect("accepted");
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
