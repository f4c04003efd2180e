//! Names, ids and limits: what is refused, and with which words.

use proptest::prelude::*;
use quire_jobs::{AckItem, Command, JobId, LeaseToken, Limit, NewJob, Refusal, Reply};
use quire_model::{Place, Position};

use crate::yard::Yard;

fn enqueue<'c>(queue: &'c str, job: NewJob<'c>) -> Command<'c> {
    Command::Enqueue { queue, job }
}

#[test]
fn a_queue_may_have_a_name_that_needs_no_escape_anywhere() {
    let longest = "n".repeat(255);
    for name in ["q", "air/delays", "A-Z_0.9/x", longest.as_str()] {
        let mut yard = Yard::new();
        assert!(matches!(yard.one(enqueue(name, NewJob::new(b""))), Reply::Enqueued { .. }), "{name}");
    }
    let too_long = "é".repeat(128);
    for name in ["", "/", "/q", "q/", "a//b", "a b", "q\n", "ü", too_long.as_str()] {
        let mut yard = Yard::new();
        for command in [
            enqueue(name, NewJob::new(b"")),
            Command::Fetch { queues: &["q", name], count: 1, lease_micros: 1, worker: "" },
        ] {
            assert!(matches!(yard.refusal(command), Refusal::InvalidName { .. }), "{name:?}");
        }
    }
}

#[test]
fn each_limit_lets_its_edge_pass_and_refuses_what_is_beyond() {
    let text = "x".repeat(256);
    let tags: Vec<String> = (0..33).map(|number| format!("t{number}")).collect();
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let (tag_of_255, tag_of_256) = (["x", &text[1..]], [text.as_str()]);
    let queues = ["q"; 65];
    let anyone = AckItem { job: JobId::new(Place::END), token: LeaseToken::new(Place::END), result: b"" };
    let items = vec![anyone; 1_025];
    let job = NewJob::new(b"{}");
    let week = 7 * 24 * 3_600 * 1_000_000;
    let fetch = |queues, count, lease_micros, worker| Command::Fetch { queues, count, lease_micros, worker };

    let cases: [(Limit, Vec<Command<'_>>, Vec<Command<'_>>); 9] = [
        (
            Limit::KindBytes,
            vec![enqueue("q", NewJob { kind: &text[1..], ..job })],
            vec![enqueue("q", NewJob { kind: &text, ..job })],
        ),
        (
            Limit::AttemptsMax,
            vec![enqueue("q", NewJob { attempts_max: u16::MAX, ..job })],
            vec![enqueue("q", NewJob { attempts_max: 0, ..job })],
        ),
        (
            Limit::Tags,
            vec![enqueue("q", NewJob { tags: &tags[1..], ..job })],
            vec![enqueue("q", NewJob { tags: &tags, ..job })],
        ),
        (
            Limit::TagBytes,
            vec![enqueue("q", NewJob { tags: &tag_of_255, ..job })],
            vec![enqueue("q", NewJob { tags: &[""], ..job }), enqueue("q", NewJob { tags: &tag_of_256, ..job })],
        ),
        (Limit::FetchQueues, vec![fetch(&queues[1..], 1, 1, "")], vec![fetch(&[], 1, 1, ""), fetch(&queues, 1, 1, "")]),
        (
            Limit::FetchCount,
            vec![fetch(&["q"], 1_024, 1, "")],
            vec![fetch(&["q"], 0, 1, ""), fetch(&["q"], 1_025, 1, "")],
        ),
        (
            Limit::LeaseMicros,
            vec![fetch(&["q"], 1, week, "")],
            vec![
                fetch(&["q"], 1, 0, ""),
                fetch(&["q"], 1, week + 1, ""),
                Command::Heartbeat { job: anyone.job, token: anyone.token, lease_micros: 0 },
            ],
        ),
        (Limit::WorkerBytes, vec![fetch(&["q"], 1, 1, &text[1..])], vec![fetch(&["q"], 1, 1, &text)]),
        (Limit::AckItems, vec![Command::AckMany { items: &items[1..] }], vec![Command::AckMany { items: &items }]),
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
fn the_number_of_queues_is_limited() {
    let mut yard = Yard::new();
    let names: Vec<String> = (0..65_537).map(|number| format!("q{number}")).collect();
    let commands: Vec<Command<'_>> = names.iter().map(|name| enqueue(name, NewJob::new(b""))).collect();
    let refused = yard.commit(&commands);
    assert_eq!(refused, Err((65_536, Refusal::OutOfRange { limit: Limit::Queues, given: 65_537 })));
}

#[test]
fn refusals_speak_in_sentences() {
    let job: JobId = "4711-2".parse().expect("an id");
    let text = |refusal: Refusal| refusal.to_string();
    assert_eq!(
        text(Refusal::StaleLease { job, state: quire_jobs::JobState::Retrying }),
        "the lease of job 4711-2 no longer holds: the job is retrying"
    );
    assert_eq!(text(Refusal::UnknownJob { job }), "there is no job 4711-2");
    assert_eq!(
        text(Refusal::OutOfRange { limit: Limit::FetchCount, given: 0 }),
        "the jobs of a fetch must be 1 to 1024, not 0"
    );
}

#[test]
fn texts_that_are_no_ids_are_refused() {
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
