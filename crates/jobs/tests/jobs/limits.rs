//! Names, ids and limits: refusals and their texts.

use proptest::prelude::*;
use quire_jobs::{
    Backoff, Change, Command, Filter, JobId, JobLimit, JobSpec, LeaseToken, Order, QueueChange, Rate, Refusal, Reply,
    Retry, Unique, UniqueHold,
};
use quire_model::{Place, Position, Timestamp};

use crate::yard::Yard;

fn enqueue<'c>(queue: &'c str, job: JobSpec<'c>) -> Command<'c> {
    Command::Enqueue { queue, job }
}

#[test]
fn a_queue_may_have_a_name_that_needs_no_escape_anywhere() {
    let longest = "n".repeat(255);
    for name in ["q", "air/delays", "A-Z_0.9/x", "./..", "...", longest.as_str()] {
        let mut yard = Yard::new();
        assert!(matches!(yard.one(enqueue(name, JobSpec::new(b""))), Reply::Enqueued { .. }), "{name}");
    }
    let too_long = "é".repeat(128);
    for name in ["", "/", "/q", "q/", "a//b", "a b", "q\n", "ü", ".", "..", too_long.as_str()] {
        let mut yard = Yard::new();
        for command in [
            enqueue(name, JobSpec::new(b"")),
            Command::Fetch { queues: &["q", name], order: Order::Strict, count: 1, lease_micros: 1, worker: "" },
        ] {
            assert!(matches!(yard.refusal(command), Refusal::InvalidName { .. }), "{name:?}");
        }
    }
}

#[test]
fn a_fetch_ends_with_the_job_that_takes_it_to_16_mib_of_payloads_and_checkpoints() {
    let (mut yard, large) = (Yard::new(), vec![b'x'; 9 << 20]);
    let ids: Vec<_> = (0..3).map(|_| yard.enqueue("q", JobSpec::new(&large))).collect();
    let fetched = |yard: &mut Yard| yard.fetch(&["q"], 9).iter().map(|job| job.job).collect::<Vec<_>>();
    assert_eq!(fetched(&mut yard), ids[..2]);
    assert_eq!(fetched(&mut yard), ids[2..]);
}

#[test]
fn each_limit_accepts_its_exact_value_and_refuses_more() {
    let text = "x".repeat(1 << 20 | 1);
    let bytes = text.as_bytes();
    let tags: Vec<String> = (0..33).map(|number| format!("t{number}")).collect();
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let (tag_of_255, tag_of_256) = ([&text[..255]], [&text[..256]]);
    let queues = ["q"; 65];
    let waits = [1; 65];
    let job = JobSpec::new(b"{}");
    let day: u64 = 24 * 3_600 * 1_000_000;
    let fetch = |queues, count, lease_micros, worker| Command::Fetch {
        queues,
        order: Order::Strict,
        count,
        lease_micros,
        worker,
    };
    let heartbeat = |lease_micros, progress, checkpoint| {
        let (job, token) = (JobId::new(Place::END), LeaseToken::new(Place::END));
        Command::Heartbeat { job, token, lease_micros, progress, checkpoint }
    };
    let unique = |key| enqueue("q", JobSpec { unique: Some(Unique::new(key)), ..job });
    let held = |micros| {
        let unique = Unique { hold: UniqueHold::For(micros), ..Unique::new(b"k") };
        enqueue("q", JobSpec { unique: Some(unique), ..job })
    };
    let set = |change| Command::SetQueue { queue: "q", change };
    let bucket =
        |count, per_micros, burst| set(QueueChange::Rate(Some(Rate::TokenBucket { count, per_micros, burst })));
    let window = |count, window_micros| set(QueueChange::GroupRate(Some(Rate::SlidingWindow { count, window_micros })));
    let (year_9999, never) = (Timestamp::from_micros(253_402_300_799_999_999), Timestamp::from_micros(u64::MAX));
    let (id, token) = (JobId::new(Place::END), LeaseToken::new(Place::END));
    let reschedule = |run_at| Command::Change { job: id, change: Change::Reschedule { run_at } };
    let cancel = |reason| Command::Change { job: JobId::new(Place::END), change: Change::Cancel { reason } };
    let too_long = [1, 366 * day + 1];
    let (ids, all) = ([JobId::new(Place::END); 10_001], Filter::default());
    let bulk = Command::Bulk { filter: Filter::default(), change: Change::Release };
    let ticks = vec![Command::Tick; 1_025];

    let cases: [(JobLimit, Vec<Command<'_>>, Vec<Command<'_>>); 26] = [
        (
            JobLimit::KindBytes,
            vec![enqueue("q", JobSpec { kind: &text[..255], ..job })],
            vec![enqueue("q", JobSpec { kind: &text[..256], ..job })],
        ),
        (
            JobLimit::GroupBytes,
            vec![enqueue("q", JobSpec { group: &text[..255], ..job })],
            vec![enqueue("q", JobSpec { group: &text[..256], ..job })],
        ),
        (JobLimit::KeyBytes, vec![unique(&bytes[..255])], vec![unique(b""), unique(&bytes[..256])]),
        (JobLimit::KeyMicros, vec![held(366 * day)], vec![held(0), held(366 * day + 1)]),
        (
            JobLimit::AttemptsMax,
            vec![enqueue("q", JobSpec { attempts_max: u16::MAX, ..job })],
            vec![enqueue("q", JobSpec { attempts_max: 0, ..job })],
        ),
        (
            JobLimit::TimeoutMicros,
            vec![enqueue("q", JobSpec { timeout_micros: Some(366 * day), ..job })],
            vec![
                enqueue("q", JobSpec { timeout_micros: Some(0), ..job }),
                enqueue("q", JobSpec { timeout_micros: Some(366 * day + 1), ..job }),
            ],
        ),
        (
            JobLimit::BackoffWaits,
            vec![enqueue("q", JobSpec { backoff: Backoff::List(&waits[..64]), ..job })],
            vec![
                enqueue("q", JobSpec { backoff: Backoff::List(&[]), ..job }),
                enqueue("q", JobSpec { backoff: Backoff::List(&waits), ..job }),
            ],
        ),
        (
            JobLimit::BackoffMicros,
            vec![
                enqueue("q", JobSpec { backoff: Backoff::Fixed { micros: 366 * day }, ..job }),
                enqueue("q", JobSpec { backoff: Backoff::Linear { base_micros: 0, max_micros: 366 * day }, ..job }),
            ],
            vec![
                enqueue("q", JobSpec { backoff: Backoff::Fixed { micros: 366 * day + 1 }, ..job }),
                enqueue("q", JobSpec { backoff: Backoff::Linear { base_micros: u64::MAX, max_micros: 1 }, ..job }),
                enqueue("q", JobSpec { backoff: Backoff::Exponential { base_micros: 1, max_micros: u64::MAX }, ..job }),
                enqueue("q", JobSpec { backoff: Backoff::List(&too_long), ..job }),
            ],
        ),
        (
            JobLimit::FilterJobs,
            vec![Command::Bulk { filter: Filter { jobs: Some(&ids[..10_000]), ..all }, change: Change::Release }],
            vec![Command::Bulk { filter: Filter { jobs: Some(&ids), ..all }, change: Change::Release }],
        ),
        (
            JobLimit::TimeMicros,
            vec![enqueue("q", JobSpec { run_at: Some(year_9999), expires_at: Some(year_9999), ..job })],
            vec![
                enqueue("q", JobSpec { run_at: Some(never), ..job }),
                enqueue("q", JobSpec { expires_at: Some(never), ..job }),
                reschedule(never),
                Command::Snooze { job: id, token, until: never },
                Command::Fail { job: id, token, error: "", retry: Retry::At(year_9999.plus_micros(1)) },
            ],
        ),
        (
            JobLimit::JitterPercent,
            vec![enqueue("q", JobSpec { jitter_percent: 100, ..job })],
            vec![enqueue("q", JobSpec { jitter_percent: 101, ..job })],
        ),
        (
            JobLimit::Tags,
            vec![enqueue("q", JobSpec { tags: &tags[1..], ..job })],
            vec![enqueue("q", JobSpec { tags: &tags, ..job })],
        ),
        (
            JobLimit::TagBytes,
            vec![enqueue("q", JobSpec { tags: &tag_of_255, ..job })],
            vec![enqueue("q", JobSpec { tags: &[""], ..job }), enqueue("q", JobSpec { tags: &tag_of_256, ..job })],
        ),
        (
            JobLimit::FetchQueues,
            vec![fetch(&queues[1..], 1, 1, "")],
            vec![fetch(&[], 1, 1, ""), fetch(&queues, 1, 1, "")],
        ),
        (
            JobLimit::FetchCount,
            vec![fetch(&["q"], 1_024, 1, "")],
            vec![fetch(&["q"], 0, 1, ""), fetch(&["q"], 1_025, 1, "")],
        ),
        (
            JobLimit::LeaseMicros,
            vec![fetch(&["q"], 1, 7 * day, "")],
            vec![fetch(&["q"], 1, 0, ""), fetch(&["q"], 1, 7 * day + 1, ""), heartbeat(Some(0), None, None)],
        ),
        (JobLimit::WorkerBytes, vec![fetch(&["q"], 1, 1, &text[..255])], vec![fetch(&["q"], 1, 1, &text[..256])]),
        (JobLimit::ProgressBytes, vec![], vec![heartbeat(None, Some(&bytes[..(64 << 10) + 1]), None)]),
        (JobLimit::CheckpointBytes, vec![], vec![heartbeat(None, None, Some(bytes))]),
        (JobLimit::ReasonBytes, vec![], vec![cancel(&text[..1_025])]),
        (
            JobLimit::ActiveMax,
            vec![set(QueueChange::ActiveMax(Some(u32::MAX))), set(QueueChange::GroupActiveMax(Some(1)))],
            vec![set(QueueChange::ActiveMax(Some(0))), set(QueueChange::GroupActiveMax(Some(0)))],
        ),
        (
            JobLimit::RateCount,
            vec![bucket(1, day, 1_000_000), bucket(1_000_000, 1, 1)],
            vec![bucket(0, 1, 1), bucket(1, 1, 0), bucket(1_000_001, 1, 1), bucket(1, 1, 1_000_001)],
        ),
        (JobLimit::WindowCount, vec![window(1, 1), window(10_000, day)], vec![window(0, 1), window(10_001, 1)]),
        (JobLimit::RateMicros, vec![], vec![bucket(1, 0, 1), bucket(1, day + 1, 1), window(1, 0), window(1, day + 1)]),
        (JobLimit::EachCommands, vec![Command::Each(&ticks[1..])], vec![Command::Each(&ticks)]),
        (JobLimit::Bulks, vec![bulk; 64], vec![bulk]),
    ];
    for (expected, allowed, refused) in cases {
        let mut yard = Yard::new();
        for command in allowed {
            assert!(yard.commit(&[command]).is_ok(), "{expected}: the edge passes");
        }
        for command in refused {
            let refusal = yard.refusal(command);
            assert!(
                matches!(refusal, Refusal::OutOfRange { limit, .. } if limit == expected),
                "{expected}, not {refusal}"
            );
        }
    }
}

#[test]
fn refusals_speak_in_sentences() {
    let job: JobId = "4711-2".parse().expect("an id");
    let text = |refusal: Refusal| refusal.to_string();
    assert_eq!(
        text(Refusal::StaleLease { job, state: quire_jobs::JobState::Retrying }),
        "the lease of job 4711-2 is stale: the job is retrying"
    );
    assert_eq!(text(Refusal::UnknownJob { job }), "unknown job 4711-2");
    assert_eq!(
        text(Refusal::OutOfRange { limit: JobLimit::FetchCount, given: 0 }),
        "number of jobs in a fetch must be between 1 and 1024, got 0"
    );
}

#[test]
fn invalid_texts_of_ids_are_refused() {
    for text in ["", "-", "1", "1-", "-1", "1-2-3", "+1-2", "01-2", "1-02", "1 -2", "1-4294967296", "1/2"] {
        assert!(text.parse::<JobId>().is_err(), "{text:?}");
        assert!(text.parse::<LeaseToken>().is_err(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn ids_and_tokens_read_as_they_were_written(position: u64, index: u32) {
        let place = Place::new(Position::new(position), index);
        prop_assert_eq!(JobId::new(place).to_string().parse(), Ok(JobId::new(place)));
        prop_assert_eq!(LeaseToken::new(place).to_string().parse(), Ok(LeaseToken::new(place)));
    }
}
