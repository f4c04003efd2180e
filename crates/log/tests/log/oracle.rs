//! The log compared with a naive log in memory: after any commits, drops and reopenings, both
//! return the same.

use proptest::prelude::*;
use quire_log::{Clock, Durability, Error, LogDuty, Mark, OpenedLog, Reader, Settings};
use quire_model::memory::MemoryLog;
use quire_model::{Effects, Entry, History, Place, Position, Sequence, Tag, Timestamp};

use crate::scans::scanned;
use crate::shard::{BOTH, Item, Read, Shard, contents, settings};

#[derive(Debug, Clone)]
enum Step {
    Commit {
        items: Vec<Item>,
        time: u64,
        wait: bool,
    },
    Drop(Vec<Item>),
    Reopen(Durability),
    /// Reopens with or without packing, and with a limit of unpacked bytes.
    Pack {
        packs: bool,
        unpacked_bytes_max: u64,
    },
    /// Seals the full segments that are synced.
    Seal {
        sync: bool,
    },
    /// Truncates unpublished records: those after one of them, or after the last published one.
    Truncate(usize),
    /// Saves a checkpoint.
    Checkpoint,
    /// Drops entries before the oldest checkpoint whose hashed place has this remainder; 3 drops
    /// none.
    Compact {
        rest: u64,
        joined: bool,
    },
    /// Reopens with every second index file removed.
    LoseIndexes(Durability),
    Ask(Question),
}

#[derive(Debug, Clone)]
struct Question {
    place: Place,
    /// A scan from the place ends before this one, or after `most` entries.
    before: Place,
    most: usize,
    tags: Vec<Vec<u8>>,
    sequence: Sequence,
}

/// Tags with numbers and without, of different lengths, one a prefix of another.
const NUMBERED: [&str; 3] = ["n", "no", "number three, which is longer"];
const PLAIN: [&str; 4] = ["a", "ab", "plane:N14228", "never"];

fn item() -> impl Strategy<Value = Item> {
    let body = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..40),
        2 => (any::<u8>(), 0..2000_usize).prop_map(|(byte, length)| vec![byte; length]),
    ];
    let numbered = proptest::option::of((0..NUMBERED.len(), 1..=5_u32));
    (any::<u8>(), numbered, proptest::sample::subsequence(&PLAIN[..3], 0..=3), body).prop_map(
        |(kind, numbered, plain, body)| {
            let first = numbered.map(|(tag, _)| NUMBERED[tag]);
            let tags = first.into_iter().chain(plain).map(|tag| tag.as_bytes().to_vec()).collect();
            // Each tag has its own first number.
            let sequenced = numbered.map(|(tag, count)| (tag as u64 % 2, count));
            Item { kind, tags, sequenced, body }
        },
    )
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        8 => (0..60_u64, 0..7_u32).prop_map(|(position, index)| Place::new(Position::new(position), index)),
        1 => Just(Place::START),
        1 => Just(Place::END),
    ]
}

fn question() -> impl Strategy<Value = Question> {
    let tag = (0..7_usize).prop_map(|tag| NUMBERED.iter().chain(&PLAIN).nth(tag).unwrap().as_bytes().to_vec());
    let most = prop_oneof![Just(usize::MAX), 1..6_usize];
    (place(), place(), most, proptest::collection::vec(tag, 0..4), 0..150_u64).prop_map(
        |(place, before, most, tags, sequence)| Question {
            place,
            before,
            most,
            tags,
            sequence: Sequence::new(sequence),
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let items = || proptest::collection::vec(item(), 1..6);
    let step = prop_oneof![
        10 => (items(), 0..1000_u64, any::<bool>())
            .prop_map(|(items, time, wait)| Step::Commit { items, time, wait }),
        2 => items().prop_map(Step::Drop),
        1 => proptest::sample::select(&BOTH[..]).prop_map(Step::Reopen),
        1 => proptest::sample::select(&BOTH[..]).prop_map(Step::LoseIndexes),
        2 => any::<bool>().prop_map(|sync| Step::Seal { sync }),
        2 => any::<usize>().prop_map(Step::Truncate),
        2 => Just(Step::Checkpoint),
        1 => (any::<bool>(), proptest::sample::select(&[0, 40_000, 64 << 20][..]))
            .prop_map(|(packs, unpacked_bytes_max)| Step::Pack { packs, unpacked_bytes_max }),
        2 => (0..4_u64, any::<bool>()).prop_map(|(rest, joined)| Step::Compact { rest, joined }),
        10 => question().prop_map(Step::Ask),
    ];
    proptest::collection::vec(step, 1..150)
}

/// The results of a query, one for each way of reading.
fn answers(history: &impl History, question: &Question) -> Vec<Option<Read>> {
    let tags: Vec<Tag<'_>> = question.tags.iter().map(|tag| Tag::new(tag)).collect();
    let mut answers = vec![
        history.entry(question.place).unwrap().map(Read::from),
        history.next(&tags, question.place).unwrap().map(Read::from),
        history.previous(&tags, question.place).unwrap().map(Read::from),
    ];
    let scanned = scanned(history, &tags, question.place..question.before, question.most);
    answers.extend(scanned.into_iter().map(Some));
    for tag in NUMBERED.iter().chain(&PLAIN) {
        answers.push(history.seek(Tag::new(tag.as_bytes()), question.sequence).unwrap().map(Read::from));
    }
    answers
}

struct Run {
    shard: Shard,
    opened: Option<OpenedLog>,
    /// Every appended record, and which of them are certainly published.
    appended: MemoryLog,
    published: MemoryLog,
    /// The log after each record that may be unpublished, and after the record before them.
    unpublished: Vec<(Mark, MemoryLog)>,
}

impl Run {
    fn new(durability: Durability, pack_segments: bool) -> Self {
        let shard = Shard::new(Settings { pack_segments, ..settings(durability) });
        let opened = shard.open();
        let unpublished = vec![(opened.writer.mark(), MemoryLog::new())];
        Run { shard, opened: Some(opened), appended: MemoryLog::new(), published: MemoryLog::new(), unpublished }
    }

    fn opened(&mut self) -> &mut OpenedLog {
        self.opened.as_mut().expect("open between the steps")
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Commit { items, time, wait } => self.commit(items, *time, *wait),
            Step::Drop(items) => {
                let (_, mut draft) = self.opened().writer.begin().unwrap();
                for item in items {
                    item.push(&mut draft);
                }
            }
            Step::Reopen(durability) => self.reopen(*durability),
            Step::Pack { packs, unpacked_bytes_max } => {
                self.shard.settings.pack_segments = *packs;
                self.shard.settings.unpacked_bytes_max = *unpacked_bytes_max;
                self.reopen(self.shard.settings.durability);
            }
            Step::Seal { sync } => self.seal(*sync),
            Step::Truncate(number) => self.truncate(*number),
            Step::Checkpoint => self.checkpoint(),
            Step::Compact { rest, joined } => self.compact(*rest, *joined),
            Step::LoseIndexes(durability) => {
                self.opened = None;
                for name in self.shard.names().iter().filter(|name| name.ends_with(".idx")).step_by(2) {
                    std::fs::remove_file(self.shard.path().join(name)).unwrap();
                }
                self.reopen(*durability);
            }
            Step::Ask(question) => self.ask(question),
        }
    }

    fn commit(&mut self, items: &[Item], time: u64, wait: bool) {
        self.shard.clock.set(Timestamp::from_micros(time));
        let opened = self.opened.as_mut().expect("open between the steps");
        let now = opened.log.clock().now();
        assert!(now >= Timestamp::from_micros(time), "it follows the clock, and is ahead of it at most");
        let mut naive = self.appended.draft(now);
        let (_, mut draft) = opened.writer.begin().unwrap();
        assert_eq!(draft.at(), naive.at());
        let mut too_large = false;
        let mut bytes = 40;
        for item in items {
            bytes += item.bytes();
            too_large |= bytes.next_multiple_of(8) > 3900;
            let (given, expected) = (item.push(&mut draft), item.push(&mut naive));
            assert_eq!(given, expected, "also of what is too large to be kept");
        }
        let naive = naive.finish();
        match draft.append() {
            Ok(appended) => {
                assert!(!too_large);
                let _ = self.appended.append(naive);
                assert_eq!(appended.at.position, self.appended.tail());
                self.unpublished.push((appended.basis.mark, self.appended.clone()));
                assert_eq!(appended.entries as usize, items.len());
            }
            Err(Error::TooLarge { bytes: told, bytes_max: 3900 }) => {
                assert!(too_large);
                assert_eq!(told, bytes.next_multiple_of(8) as u64);
            }
            Err(error) => panic!("{error}"),
        }
        if wait || self.shard.settings.durability == Durability::Os {
            let tail = self.appended.tail();
            self.opened().log.reach(tail).unwrap();
            self.publish_all();
        }
    }

    fn publish_all(&mut self) {
        self.published = self.appended.clone();
        let mark = self.opened().writer.mark();
        self.unpublished = vec![(mark, self.appended.clone())];
    }

    fn truncate(&mut self, number: usize) {
        let kept = number % self.unpublished.len();
        let (mark, log) = self.unpublished[kept].clone();
        let opened = self.opened();
        let alone = opened.log.lock_openings().unwrap();
        drop(opened.writer.truncate_after(&alone, mark).unwrap());
        self.unpublished.truncate(kept + 1);
        self.appended = log;
    }

    fn reopen(&mut self, durability: Durability) {
        self.opened = None;
        self.shard.settings.durability = durability;
        let opened = self.shard.open();
        assert_eq!(opened.recovery.cut, None);
        assert_eq!(opened.recovery.records, self.appended.tail().get());
        self.opened = Some(opened);
        self.publish_all();
        self.compare_all();
    }

    fn seal(&mut self, sync: bool) {
        let opened = self.opened.as_mut().expect("open between the steps");
        if sync {
            opened.log.sync().unwrap();
            self.publish_all();
        }
        let opened = self.opened();
        while opened.log.carry_out(LogDuty::Seal).unwrap() {}
        let statistics = opened.log.statistics();
        assert!(!sync || statistics.sealed + 1 == statistics.segments);
    }

    fn checkpoint(&mut self) {
        let opened = self.opened.as_mut().expect("open between the steps");
        opened.log.save_checkpoint(opened.writer.basis(), b"").unwrap();
        self.publish_all();
    }

    fn compact(&mut self, rest: u64, joined: bool) {
        let opened = self.opened.as_mut().expect("open between the steps");
        let survives = |place: Place| (place.position.get() * 7 + u64::from(place.index)) % 3 != rest;
        let answer = |entries: &[Entry<'_>], answers: &mut Vec<quire_log::Survival>| {
            answers.extend(entries.iter().map(|entry| survives(entry.place).into()));
        };
        let mut compactor = opened.log.begin_compaction(|| Ok::<_, Error>(())).unwrap().unwrap();
        let shares = compactor.shares(u32::MAX, &mut { answer }).unwrap();
        let runs = match (&shares[..], joined) {
            ([first, .., last], true) => vec![quire_log::SegmentRun { first: first.first, end: last.end }],
            _ => shares
                .iter()
                .step_by(2)
                .map(|share| quire_log::SegmentRun { first: share.first, end: share.end })
                .collect(),
        };
        for run in runs {
            let done = compactor.compact(run, &mut { answer }).unwrap();
            let drop_from = |log: &mut MemoryLog| {
                log.compact(run.end, |entry| entry.place.position < run.first || survives(entry.place))
            };
            if done.segments == 0 {
                // A segment that packing does not make smaller is not rewritten.
                let mut after = self.appended.clone();
                drop_from(&mut after);
                assert!(self.shard.settings.pack_segments && contents(&after) == contents(&self.appended));
                continue;
            }
            for log in [&mut self.appended, &mut self.published] {
                drop_from(log);
            }
            // The log is synced before a drop.
            self.published = self.appended.clone();
            self.unpublished = vec![(opened.writer.mark(), self.appended.clone())];
        }
    }

    fn ask(&mut self, question: &Question) {
        let opened = self.opened.as_mut().expect("open between the steps");
        assert_eq!(answers(&opened.log.reader(), question), answers(&self.published, question));
        let (reader, _) = opened.writer.begin().unwrap();
        assert_eq!(answers(reader, question), answers(&self.appended, question));
    }

    fn compare_all(&mut self) {
        let opened = self.opened.as_mut().expect("open between the steps");
        assert_eq!(contents(&opened.log.reader()), contents(&self.published));
        assert_eq!(contents(opened.writer.begin().unwrap().0), contents(&self.appended));
        // A scan of the naive log calls `next` for each entry.
        for tags in [&[][..], &["n"], &["a"], &["n", "a"], &["never"]] {
            let tags: Vec<Tag<'_>> = tags.iter().map(|tag| Tag::new(tag.as_bytes())).collect();
            let all = |history: &dyn History| scanned(history, &tags, Place::START..Place::END, usize::MAX);
            assert_eq!(all(&opened.log.reader()), all(&self.published));
            assert_eq!(all(opened.writer.begin().unwrap().0), all(&self.appended));
        }
        for position in 0..=self.appended.tail().get() + 1 {
            let position = Position::new(position);
            let naive: Vec<Read> =
                contents(&self.published).into_iter().filter(|read| read.place.position == position).collect();
            let record = opened
                .log
                .reader()
                .record(position)
                .unwrap()
                .map(|entries| entries.map(Read::from).collect::<Vec<_>>());
            assert_eq!(record.unwrap_or_default(), naive);
        }
    }
}

fn a_reader_outlives_what_comes_later(run: &mut Run) -> (Reader, Vec<Read>) {
    let reader = run.opened().log.reader();
    let seen = contents(&reader);
    (reader, seen)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn the_log_answers_as_the_naive_log_does(
        durability in proptest::sample::select(&BOTH[..]),
        packs in any::<bool>(),
        steps in steps(),
    ) {
        let mut run = Run::new(durability, packs);
        let middle = steps.len() / 2;
        steps[..middle].iter().for_each(|step| run.step(step));
        let (reader, seen) = a_reader_outlives_what_comes_later(&mut run);
        steps[middle..].iter().for_each(|step| run.step(step));
        run.compare_all();
        let scanned = scanned(&reader, &[], Place::START..Place::END, usize::MAX);
        prop_assert_eq!(&scanned, &seen);
        prop_assert_eq!(contents(&reader), seen);
        run.reopen(durability);
    }
}
