//! Killed processes: every acknowledged record is present when the log is reopened.
//!
//! The test runs itself as a child that appends and prints each acknowledged position. It kills the
//! child (SIGKILL) after some positions, repeatedly on the same directory. The test has its own
//! binary, because a starting child process briefly shares the locks of its parent.

use std::io::{BufRead, BufReader, Write, stdout};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use quire_log::{CompactionPlan, Durability, Error, Identity, Log, OpenedLog, Reader, Settings, SystemClock, Writer};
use quire_model::{Effects, Entry, EntryKind, ModelId, NewEntry, Position, Sequence, SequenceRequest, Tag};

const DIRECTORY: &str = "QUIRE_LOG_KILL_DIRECTORY";
const DURABILITY: &str = "QUIRE_LOG_KILL_DURABILITY";
/// The variable that makes a child compact too.
const COMPACTS: &str = "QUIRE_LOG_KILL_COMPACTS";
const ROUNDS: u64 = 30;
/// The default number of killed processes. After every such number, the directory is a fresh one.
const KILLS: u64 = 40;
/// The variable that overrides this number: `cargo xtask kills`.
const KILLS_VARIABLE: &str = "QUIRE_KILLS";

fn kills() -> u64 {
    std::env::var(KILLS_VARIABLE).map_or(KILLS, |kills| kills.parse().expect("QUIRE_KILLS is a number"))
}

fn open(directory: &Path, durability: Durability) -> OpenedLog {
    let identity = Identity { database: 0x5eed << 64, shard: 0 };
    let settings = Settings { durability, segment_bytes: 4096, record_bytes_max: 3900, ..Settings::default() };
    Log::open(directory, identity, settings, Arc::new(SystemClock)).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the entries of record `position`: one to four tags, each with its body, some larger than
/// others.
fn items(position: u64) -> Vec<(&'static [u8], Vec<u8>)> {
    let mixed = position.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let body = |entry: u64| vec![(mixed >> entry) as u8; ((mixed >> (8 * entry)) % 900) as usize];
    (0..1 + mixed % 4).map(|entry| ([b"a", b"b"][(entry % 2) as usize].as_slice(), body(entry))).collect()
}

/// Whether a compaction keeps the record at a position.
fn is_left(position: u64) -> bool {
    position % 3 != 1
}

/// Appends until the process is killed.
fn child(directory: &str) {
    let both = [Durability::Os, Durability::Sync];
    let named = both.into_iter().find(|durability| std::env::var(DURABILITY) == Ok(durability.to_string()));
    let OpenedLog { log, mut writer, .. } = open(directory.as_ref(), named.expect("the parent names a durability"));
    let compacts = std::env::var(COMPACTS).is_ok();
    let mut compacted = Position::ZERO;
    loop {
        let (_, mut draft) = writer.begin().unwrap();
        for (tag, body) in items(draft.at().position.get()) {
            let kind = EntryKind { model: ModelId::EVENTS, kind: 1 };
            let sequenced = Some(SequenceRequest { origin: Sequence::new(0), count: 2 });
            draft.push(NewEntry { kind, tags: &[Tag::new(tag)], sequenced, body: &[&body] });
        }
        let position = draft.append().unwrap().at.position;
        log.reach(position).unwrap();
        // One write per line, so that the parent never reads half a number.
        stdout().write_all(format!("acknowledged {position}\n").as_bytes()).unwrap();
        if compacts && let Some(round) = log.round_to_attend() {
            catch_up(&mut writer).unwrap();
            log.attend(round).unwrap();
        }
        if compacts && position.get() > compacted.get() + 100 {
            compacted = position;
            compact(&log, &mut writer);
        }
    }
}

fn catch_up(writer: &mut Writer) -> Result<(), Error> {
    while writer.follow()?.is_some() {}
    drop(writer.publish_followed());
    Ok(())
}

/// Compacts, and checks the remaining records of the last ones before and after.
fn compact(log: &Log, writer: &mut Writer) {
    let mut survives = |entries: &[Entry<'_>], answers: &mut Vec<_>| {
        answers.extend(entries.iter().map(|entry| is_left(entry.place.position.get()).into()));
    };
    log.save_checkpoint(writer.basis(), b"state").unwrap();
    let before = log.reader();
    if let Some(mut compactor) = log.begin_compaction(|| catch_up(writer)).unwrap() {
        let plan = CompactionPlan::of(&compactor.shares(u32::MAX, &mut survives).unwrap(), 1 << 16, 1);
        let held = compactor.held_by_others(&plan.runs).unwrap();
        for run in &plan.runs[..held] {
            compactor.compact(*run, &mut survives).unwrap();
        }
    }
    for reader in [&before, &log.reader()] {
        verify_records(reader, reader.limit().get().saturating_sub(500), log.compacted_end());
    }
}

/// Starts this program as a child that appends.
fn command(directory: &Path, durability: Durability, compacts: bool) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "a_killed_process_keeps_every_record_it_acknowledged", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(DURABILITY, durability.to_string())
        .stdout(Stdio::piped());
    if compacts {
        command.env(COMPACTS, "1");
    }
    command
}

/// Parses an acknowledged position from a line of a child. The test harness prints lines of its own
/// in between, for example about a slow test.
fn acknowledged_in(line: &str) -> Option<u64> {
    line.rsplit_once("acknowledged ").and_then(|(_, position)| position.parse().ok())
}

/// Kills a child after it acknowledged `count` records. Returns the last acknowledged position.
fn run_and_kill(directory: &Path, durability: Durability, acknowledged: u64) -> Option<u64> {
    let mut child = command(directory, durability, false).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = None;
    let mut note = |line: &str| {
        let position = acknowledged_in(line);
        last = position.or(last);
        position.is_some()
    };
    let mut read = 0;
    while read < acknowledged {
        let line = lines.next().expect("the child appends until it is killed").unwrap();
        read += u64::from(note(&line));
    }
    child.kill().unwrap();
    for line in lines.map_while(Result::ok) {
        note(&line);
    }
    check_killed(&mut child);
    last
}

/// Checks that the log holds the records 1 to its end, except the compacted ones. Returns the end
/// and the number of compacted records.
fn verify(directory: &Path, durability: Durability) -> (u64, u64) {
    let opened = open(directory, durability);
    // When other processes have the log open, this is the published position at the time of
    // joining.
    let reader = opened.log.reader();
    (reader.limit().get(), verify_records(&reader, 0, opened.log.compacted_end()))
}

/// Checks the records after `from`. Returns the number of compacted records.
fn verify_records(reader: &Reader, from: u64, compacted_end: Position) -> u64 {
    let (mut next, mut left_out) = ([0, 0], 0);
    for position in 1..=reader.limit().get() {
        let expected = items(position);
        if position <= from {
            expected.iter().for_each(|(tag, _)| next[usize::from(tag[0] - b'a')] += 2);
            continue;
        }
        let may_be_gone = position < compacted_end.get() && !is_left(position);
        let record: Vec<_> = match reader.record(Position::new(position)).expect("it is readable") {
            Some(record) => record.collect(),
            None => {
                assert!(may_be_gone, "record {position} is not there");
                left_out += 1;
                expected.iter().for_each(|(tag, _)| next[usize::from(tag[0] - b'a')] += 2);
                continue;
            }
        };
        assert_eq!(record.len(), expected.len());
        for (entry, (tag, body)) in record.iter().zip(expected) {
            assert_eq!((entry.tags.first(), entry.body), (Some(Tag::new(tag)), body.as_slice()));
            let next = &mut next[usize::from(tag[0] - b'a')];
            assert_eq!(entry.sequence, Some(Sequence::new(*next)));
            *next += 2;
        }
    }
    left_out
}

fn check(durability: Durability) {
    let directory = tempfile::tempdir().unwrap();
    let mut random: u64 = 0x5EED;
    let mut tail = 0;
    for round in 0..ROUNDS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let acknowledged = (random >> 33) % [1, 5, 40, 200][round as usize % 4];
        let last = run_and_kill(directory.path(), durability, acknowledged);
        let (found, _) = verify(directory.path(), durability);
        let promised = last.unwrap_or(tail);
        assert!(
            found >= promised,
            "record {promised} was acknowledged in round {round}, and the log ends with {found}"
        );
        assert!(found <= promised.max(tail) + 1 || last.is_none(), "one record at most was under way");
        tail = found;
    }
    assert!(tail > 100);
}

/// Several processes append, with or without compaction, and are killed one after the other.
/// Acknowledged records stay, and the other processes continue.
fn check_processes(durability: Durability, compacts: bool) {
    for first in (0..kills()).step_by(KILLS as usize) {
        check_processes_once(durability, compacts, 0xC0FFEE + first);
    }
}

fn check_processes_once(durability: Durability, compacts: bool, seed: u64) {
    let directory = tempfile::tempdir().unwrap();
    let start = || {
        let mut child = command(directory.path(), durability, compacts).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    };
    let mut running: Vec<_> = (0..3).map(|_| start()).collect();
    let mut random = seed;
    let mut promised = 0;
    // A compaction takes time, and starts only when there are records to compact.
    let (kills, most) = if compacts { (KILLS / 2, 600) } else { (KILLS, 30) };
    for round in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (mut child, mut lines) = running.remove((random >> 33) as usize % running.len());
        // The child is killed after a few acknowledgements, which it makes only if no other process
        // blocks it.
        let read = lines
            .by_ref()
            .map_while(Result::ok)
            .filter_map(|line| acknowledged_in(&line))
            .take((random >> 50) as usize % most);
        promised = read.max().unwrap_or_default().max(promised);
        child.kill().unwrap();
        promised = lines
            .map_while(Result::ok)
            .filter_map(|line| acknowledged_in(&line))
            .max()
            .unwrap_or_default()
            .max(promised);
        check_killed(&mut child);
        if round % 8 == 0 {
            // A reader, while the other processes continue.
            assert!(verify(directory.path(), durability).0 >= promised, "round {round}");
        }
        running.push(start());
    }
    for (mut child, lines) in running {
        child.kill().unwrap();
        promised = lines
            .map_while(Result::ok)
            .filter_map(|line| acknowledged_in(&line))
            .max()
            .unwrap_or_default()
            .max(promised);
        check_killed(&mut child);
    }
    let (found, left_out) = verify(directory.path(), durability);
    assert!(promised > 100 && found >= promised);
    // The number of compacted records depends on the scheduling of the compacting processes.
    assert_eq!(left_out > 0, compacts, "{left_out} of {found} records are gone");
}

/// Checks that a child was killed and did not end with an error. An error would otherwise go
/// unnoticed.
fn check_killed(child: &mut Child) {
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "a child ended with {status} before it was killed");
}

#[test]
fn a_killed_process_does_not_affect_other_processes() {
    [Durability::Os, Durability::Sync].into_iter().for_each(|durability| check_processes(durability, false));
}

#[test]
fn a_process_killed_during_a_compaction_does_not_affect_other_processes() {
    [Durability::Os, Durability::Sync].into_iter().for_each(|durability| check_processes(durability, true));
}

#[test]
fn a_killed_process_keeps_every_record_it_acknowledged() {
    match std::env::var(DIRECTORY) {
        Ok(directory) => child(&directory),
        Err(_) => [Durability::Os, Durability::Sync].into_iter().for_each(check),
    }
}
