//! Copies of commits, through restarts, checkpoints and compactions; and the keys against a naive
//! model.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use quire_log::{Clock, Durability, ManualClock};
use quire_model::codec::Decoder;
use quire_model::memory::MemoryLog;
use quire_model::{At, Place, Position, Timestamp};

use super::keys::{IdempotencyKeys, KeyLookup};
use super::{Fingerprint, IDEMPOTENCY_KEY_BYTES_MAX, IdempotencyKey, IdempotencyRefusal, IdempotencySettings};
use crate::commands::{Commands, Replies};
use crate::decide::DecidedCommit;
use crate::events::{Append, Condition, NewEvent, QueryItem};
use crate::jobs::{JobSpec, Order};
use crate::permitted::PermittedCommands;
use crate::refusal::Reason;
use crate::shard::Shard;
use crate::{events, jobs, testing};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(1_790_000_000_000)))
}

fn open(directory: &Path, clock: &Arc<ManualClock>) -> Shard {
    testing::open(directory, 50, Arc::clone(clock) as Arc<dyn Clock>)
}

fn pass(clock: &ManualClock, ms: u64) {
    clock.set(clock.now().plus_micros(ms * 1_000));
}

/// Commits commands with a key.
#[track_caller]
fn keyed(shard: &Shard, key: &str, commands: Commands<'_, '_>) -> (DecidedCommit, Replies) {
    let fingerprint = commands.fingerprint();
    let commands = Commands { idempotency_key: Some(IdempotencyKey { principal: "", key, fingerprint }), ..commands };
    let mut replies = Replies::default();
    let decided =
        shard.commit(shard.log().clock().now(), &PermittedCommands::by_owner(commands), &mut replies).expect("decided");
    (decided, replies)
}

/// Enqueues a job with a key. Returns the position, the job, and whether it was a copy.
#[track_caller]
fn enqueue(shard: &Shard, key: &str, payload: &[u8]) -> (At, jobs::JobId, bool) {
    let command = [jobs::Command::Enqueue { queue: "mails", job: JobSpec::new(payload) }];
    let (decided, replies) = keyed(shard, key, Commands { jobs: &command, ..Commands::default() });
    let at = decided.verdict.expect("accepted");
    let [jobs::Reply::Enqueued { job, .. }] = &replies.jobs[..] else { panic!("{replies:?}") };
    (at, *job, decided.is_replay)
}

fn refusal(decided: DecidedCommit) -> Reason {
    decided.verdict.expect_err("refused").reason
}

fn pending(shard: &Shard) -> u64 {
    shard.read(None, |view| view.jobs.queue_stats("mails").map_or(0, |stats| stats.pending)).expect("read").1
}

fn keys_of(shard: &Shard) -> u64 {
    shard.read(None, |view| view.idempotency_keys().keys).expect("read").1
}

#[test]
fn a_copy_gets_the_first_answer_also_after_a_restart_with_and_without_a_checkpoint() {
    let (directory, clock) = (tempfile::tempdir().expect("a directory"), clock());
    let shard = open(directory.path(), &clock);
    let first = enqueue(&shard, "a", b"1");
    assert!(!first.2);
    let other = enqueue(&shard, "b", b"1");
    assert_ne!(first.1, other.1, "another key is another commit");
    pass(&clock, 3_000);
    assert_eq!(enqueue(&shard, "a", b"1"), (first.0, first.1, true));
    let state = shard.read(None, |view| view.idempotency_keys()).expect("read").1;
    assert_eq!(state.keys, 2);
    drop(shard);

    let shard = open(directory.path(), &clock);
    assert_eq!(shard.replayed(), 2, "the keys come from the log");
    assert_eq!(enqueue(&shard, "a", b"1"), (first.0, first.1, true));
    shard.checkpoint().expect("saved");
    drop(shard);
    let shard = open(directory.path(), &clock);
    assert_eq!(shard.replayed(), 0, "the keys come from the checkpoint");
    assert_eq!(enqueue(&shard, "a", b"1"), (first.0, first.1, true));
    assert_eq!(enqueue(&shard, "b", b"1"), (other.0, other.1, true));
    assert_eq!(pending(&shard), 2);
}

#[test]
fn a_copy_rests_on_the_record_of_the_first_answer() {
    let (directory, clock) = (tempfile::tempdir().expect("a directory"), clock());
    let shard = testing::open_with(directory.path(), 50, Arc::clone(&clock) as Arc<dyn Clock>, Durability::Sync);
    let (first, ..) = enqueue(&shard, "a", b"1");
    assert!(shard.log().published() < first.position, "nothing is synced");
    let command = [jobs::Command::Enqueue { queue: "mails", job: JobSpec::new(b"1") }];
    let (decided, _) = keyed(&shard, "a", Commands { jobs: &command, ..Commands::default() });
    assert!(decided.is_replay && decided.rests_on.position() >= first.position);
}

#[test]
fn another_request_with_the_key_is_refused_and_names_the_first() {
    let (directory, clock) = (tempfile::tempdir().expect("a directory"), clock());
    let shard = open(directory.path(), &clock);
    let (first, ..) = enqueue(&shard, "a", b"1");
    let command = [jobs::Command::Enqueue { queue: "mails", job: JobSpec::new(b"2") }];
    let (decided, _) = keyed(&shard, "a", Commands { jobs: &command, ..Commands::default() });
    let expected = IdempotencyRefusal::KeyReused { key: "a".into(), position: first.position };
    assert_eq!(refusal(decided), Reason::Idempotency(expected));
    assert_eq!((pending(&shard), keys_of(&shard)), (1, 1));
}

#[test]
fn text_that_cannot_be_a_key_is_refused() {
    let (directory, clock) = (tempfile::tempdir().expect("a directory"), clock());
    let shard = open(directory.path(), &clock);
    let long = "é".repeat(IDEMPOTENCY_KEY_BYTES_MAX);
    for key in ["", "a\nb", &long] {
        let command = [jobs::Command::Enqueue { queue: "mails", job: JobSpec::new(b"2") }];
        let (decided, _) = keyed(&shard, key, Commands { jobs: &command, ..Commands::default() });
        let Reason::Idempotency(IdempotencyRefusal::InvalidKey { key: shown, bytes }) = refusal(decided) else {
            panic!("{key:?}")
        };
        assert!(key.starts_with(&*shown) && shown.len() <= IDEMPOTENCY_KEY_BYTES_MAX && bytes == key.len());
    }
    enqueue(&shard, &long[..IDEMPOTENCY_KEY_BYTES_MAX - 1], b"2");
    assert_eq!(keys_of(&shard), 1);
}

#[test]
fn a_refused_commit_keeps_no_key_and_is_decided_again() {
    let (directory, clock) = (tempfile::tempdir().expect("a directory"), clock());
    let shard = open(directory.path(), &clock);
    // The first record creates the queue, and then enqueues.
    let token = jobs::LeaseToken::new(Place::new(Position::new(1), 1));
    let ack = [jobs::Command::Ack { job: jobs::JobId::new(token.place()), token, result: b"" }];
    let acknowledge = || keyed(&shard, "a", Commands { jobs: &ack, ..Commands::default() }).0;
    assert!(matches!(refusal(acknowledge()), Reason::Jobs(jobs::Refusal::UnknownJob { .. })));
    assert_eq!(keys_of(&shard), 0);
    enqueue(&shard, "b", b"");
    assert!(matches!(refusal(acknowledge()), Reason::Jobs(jobs::Refusal::StaleLease { .. })), "decided again");
    enqueue(&shard, "a", b"other");
}

#[test]
fn a_commit_without_effects_keeps_its_answer_and_an_empty_fetch_keeps_none() {
    let (directory, clock) = (tempfile::tempdir().expect("a directory"), clock());
    let shard = open(directory.path(), &clock);
    let fetch = || {
        let fetch = jobs::Command::Fetch {
            queues: &["mails"],
            order: Order::Strict,
            count: 5,
            lease_micros: 30_000_000,
            worker: "w",
        };
        let (decided, replies) = keyed(&shard, "fetch", Commands { jobs: &[fetch], ..Commands::default() });
        (decided.verdict.expect("accepted").position, replies.jobs, decided.is_replay)
    };
    assert_eq!(fetch(), (Position::ZERO, vec![jobs::Reply::Fetched(Vec::new())], false));

    // A condition alone holds, and is not checked again for a copy.
    let guard = || {
        let absent = Condition::fail_if_matches(QueryItem::new().event_type("Registered"));
        let guard = events::Command::Append(Append { store: "accounts", events: Vec::new(), conditions: vec![absent] });
        let (decided, _) = keyed(&shard, "guard", Commands { events: &[guard], ..Commands::default() });
        (decided.verdict, decided.is_replay)
    };
    let (first, is_replay) = guard();
    assert!(first.is_ok() && !is_replay);
    let event = events::Command::Append(Append {
        store: "accounts",
        events: vec![NewEvent::new("Registered")],
        conditions: Vec::new(),
    });
    testing::commit(&shard, &Commands { events: &[event], ..Commands::default() });
    assert_eq!(guard(), (first, true));

    enqueue(&shard, "job", b"payload");
    let (position, jobs, is_replay) = fetch();
    let [jobs::Reply::Fetched(fetched)] = &jobs[..] else { panic!("{jobs:?}") };
    assert!(fetched.len() == 1 && fetched[0].payload == b"payload" && !is_replay);
    assert_eq!(fetch(), (position, jobs.clone(), true), "the same lease");
}

#[test]
fn a_key_expires_with_the_time_of_records_and_with_the_number_of_keys() {
    let (directory, clock) = (tempfile::tempdir().expect("a directory"), clock());
    let settings = || {
        let mut settings = testing::settings(50, Durability::Os);
        settings.idempotency = IdempotencySettings { retention_ms: DAY_MS, keys_max: 3 };
        settings
    };
    let open = || testing::open_as(directory.path(), Arc::clone(&clock) as Arc<dyn Clock>, settings());
    let shard = open();
    let (_, first, _) = enqueue(&shard, "a", b"");
    pass(&clock, DAY_MS - 1);
    assert_eq!(enqueue(&shard, "a", b"").1, first);
    pass(&clock, 1);
    let (_, second, is_replay) = enqueue(&shard, "a", b"other");
    assert!(second != first && !is_replay, "the key had expired");
    assert_eq!(keys_of(&shard), 1);

    for key in ["b", "c"] {
        enqueue(&shard, key, b"");
    }
    assert_eq!(enqueue(&shard, "a", b"other").1, second);
    enqueue(&shard, "d", b"");
    assert_eq!(keys_of(&shard), 3);
    drop(shard);
    let shard = open();
    let (_, third, is_replay) = enqueue(&shard, "a", b"other");
    assert!(third != second && !is_replay, "three later keys had come");
    assert!(enqueue(&shard, "d", b"").2 && enqueue(&shard, "c", b"").2);
    assert!(!enqueue(&shard, "b", b"").2);
}

#[test]
fn a_compaction_keeps_the_answers_of_kept_keys_and_drops_the_others() {
    let (directory, clock) = (tempfile::tempdir().expect("a directory"), clock());
    let mut settings = testing::settings(50, Durability::Os);
    settings.idempotency.keys_max = 50;
    let shard = testing::open_as(directory.path(), Arc::clone(&clock) as Arc<dyn Clock>, settings);
    let filler = |number: u32| {
        let events = vec![NewEvent::new("T").data(vec![7; 1_000])];
        let append = [events::Command::Append(Append { store: "filler", events, conditions: Vec::new() })];
        let (decided, replies) =
            keyed(&shard, &number.to_string(), Commands { events: &append, ..Commands::default() });
        (decided.verdict.expect("accepted"), replies.events, decided.is_replay)
    };
    let answers: Vec<_> = (0..200).map(filler).collect();
    let trim = events::Command::Trim { store: "filler", up_to: events::EventPosition::new(200) };
    testing::commit(&shard, &Commands { events: &[trim], ..Commands::default() });
    testing::seal(&shard);
    for _ in 0..2 {
        let later = events::Command::Append(Append {
            store: "later",
            events: vec![NewEvent::new("T")],
            conditions: Vec::new(),
        });
        testing::commit(&shard, &Commands { events: &[later], ..Commands::default() });
        shard.checkpoint().expect("saved");
    }
    let compaction = shard.compact_whole().expect("compacted");
    assert!(compaction.entries_dropped > 200, "{compaction:?}");
    for number in 160..200 {
        let (at, replies, _) = answers[number as usize].clone();
        assert_eq!(filler(number), (at, replies, true));
    }
    assert!(!filler(10).2);
}

/// The keys over a log in memory.
struct KeyWorld {
    log: MemoryLog,
    keys: IdempotencyKeys,
}

impl KeyWorld {
    /// Commits a key, as the shard does when the key is unknown.
    fn store(&mut self, settings: IdempotencySettings, key: IdempotencyKey<'_>, time: Timestamp) {
        let mut draft = self.log.draft(time);
        self.keys.store(settings, key, &Replies::default(), &mut draft);
        let draft = draft.finish();
        self.log.append(draft).for_each(|entry| self.keys.apply(&entry));
    }

    /// The position of the first answer.
    fn look_up(&self, key: IdempotencyKey<'_>, time: Timestamp) -> Result<Option<Position>, IdempotencyRefusal> {
        let at = At { position: self.log.tail().next(), time };
        match self.keys.look_up(&self.log, at, &key, &mut Replies::default()).expect("readable") {
            KeyLookup::Unknown => Ok(None),
            KeyLookup::Answered(at) => Ok(Some(at.position)),
            KeyLookup::Refused(refusal) => Err(refusal),
        }
    }
}

fn saved(keys: &IdempotencyKeys) -> Vec<u8> {
    let mut bytes = Vec::new();
    keys.save_in_parts(&mut |part| bytes.extend_from_slice(part));
    bytes
}

/// Reads saved keys, as a checkpoint does after it has read the header of the section.
fn loaded(bytes: &[u8], seed: u64) -> IdempotencyKeys {
    if bytes.is_empty() {
        return IdempotencyKeys::new(seed);
    }
    let mut from = Decoder::new(&bytes[9..]);
    let keys = IdempotencyKeys::load(&mut from, seed).expect("saved keys");
    from.end().expect("nothing is left");
    keys
}

#[test]
fn the_keys_equal_those_of_a_naive_map_through_saves_replays_and_compactions() {
    const SEED: u64 = 0x5eed;
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = KeyWorld { log: MemoryLog::new(), keys: IdempotencyKeys::new(SEED) };
        // By position: the key, its fingerprint, and the time of its end.
        let mut naive: BTreeMap<u64, (String, u128, u64)> = BTreeMap::new();
        let mut time = 1_000_000;
        for _ in 0..random.usize(1..120) {
            time += random.u64(0..40) * 1_000;
            let at = Timestamp::from_micros(time);
            let text = random.u8(0..12).to_string();
            let key = IdempotencyKey { principal: "", key: &text, fingerprint: Fingerprint(random.u128(0..3)) };
            let newest = naive.iter().rev().find(|(_, (known, ..))| *known == text);
            let expected = match newest.filter(|(_, (_, _, end))| time < *end) {
                None => Ok(None),
                Some((position, (_, print, _))) if Fingerprint(*print) == key.fingerprint => {
                    Ok(Some(Position::new(*position)))
                }
                Some((position, _)) => {
                    let (key, position) = (text.as_str().into(), Position::new(*position));
                    Err(IdempotencyRefusal::KeyReused { key, position })
                }
            };
            assert_eq!(world.look_up(key, at), expected, "seed {seed}");
            if expected == Ok(None) {
                // Processes may have other settings.
                let keys_max = random.u32(1..8);
                let settings = IdempotencySettings { retention_ms: random.u64(1..200), keys_max };
                world.store(settings, key, at);
                while let Some(oldest) = naive.first_entry().filter(|oldest| oldest.get().2 <= time) {
                    oldest.remove();
                }
                while naive.len() >= keys_max as usize {
                    naive.pop_first();
                }
                let end = time + settings.retention_ms * 1_000;
                naive.insert(world.log.tail().get(), (text.clone(), key.fingerprint.0, end));
                assert_eq!(world.keys.memory().keys, naive.len() as u64);
            }
            match random.u8(0..8) {
                0 => world.keys = loaded(&saved(&world.keys), SEED),
                1 => {
                    let (keys, tail) = (&world.keys, world.log.tail());
                    world.log.compact(tail.next(), |entry| keys.survives(entry));
                    assert_eq!(world.log.entries().count(), naive.len(), "seed {seed}");
                    let mut replayed = IdempotencyKeys::new(SEED);
                    world.log.entries().for_each(|entry| replayed.apply(&entry));
                    assert_eq!(saved(&replayed), saved(&world.keys), "seed {seed}");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_key_takes_at_most_a_hundred_bytes_of_memory_and_the_number_of_keys_is_bounded() {
    let settings = IdempotencySettings { retention_ms: DAY_MS, keys_max: 10_000 };
    let mut world = KeyWorld { log: MemoryLog::new(), keys: IdempotencyKeys::new(7) };
    let time = Timestamp::from_millis(1_790_000_000_000);
    for number in 0..40_000u32 {
        let key = IdempotencyKey { principal: "", key: &format!("{number:0>200}"), fingerprint: Fingerprint(0) };
        world.store(settings, key, time);
        let memory = world.keys.memory();
        assert!(memory.keys <= 10_000);
        if number >= 1_000 {
            assert!(memory.bytes <= 100 * memory.keys, "{memory:?}");
        }
    }
}

#[test]
fn no_part_of_saved_keys_can_be_read() {
    let mut world = KeyWorld { log: MemoryLog::new(), keys: IdempotencyKeys::new(7) };
    for key in ["a", "b"] {
        let key = IdempotencyKey { principal: "", key, fingerprint: Fingerprint(1) };
        world.store(IdempotencySettings::default(), key, Timestamp::from_millis(1_790_000_000_000));
    }
    let bytes = saved(&world.keys);
    assert_eq!(saved(&loaded(&bytes, 7)), bytes);
    for length in 9..bytes.len() {
        let read = IdempotencyKeys::load(&mut Decoder::new(&bytes[9..length]), 7);
        assert!(read.is_err(), "up to byte {length}");
    }
    let mut other = bytes.clone();
    other[9] = 2;
    assert!(IdempotencyKeys::load(&mut Decoder::new(&other[9..]), 7).is_err(), "another version");
    let nothing = IdempotencyKeys::new(7);
    assert!(saved(&nothing).is_empty(), "programs that know no keys read such a checkpoint");
}
