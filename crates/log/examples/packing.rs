//! Measures the size and the read time of packed segments of JSON records.
//!
//! Run `cargo run --profile dist -p quire-log --example packing -- DIR`. For records of two sizes
//! the program fills four segments of 64 MiB, compacts them unpacked and packed, and reads them.
//! The numbers of docs/decisions/0020-packed-segments.md come from this program.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quire_log::{Clock, Durability, Identity, Log, LogDuty, OpenedLog, SegmentRun, Settings, Survival, SystemClock};
use quire_model::{Effects, EntryKind, History, ModelId, NewEntry, Place, Position, Tag};

const SEGMENTS: u64 = 4;
const IDENTITY: Identity = Identity { database: 1, shard: 0 };

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Returns an event of a flight, of 116 bytes or of 840 bytes with a few dozen fields. Names
/// repeat; numbers and identifiers do not.
fn json(number: u64, bytes: usize, random: &mut Numbers) -> String {
    const PORTS: [&str; 8] = ["EWR", "IAH", "LGA", "JFK", "MIA", "BQN", "ATL", "ORD"];
    let mut port = || PORTS[random.below(8) as usize];
    let (from, to) = (port(), port());
    let (id, plane, delay) = (random.below(1 << 31), 10_000 + random.below(4000), random.below(90));
    let at = 1_790_000_000_000 + number * 37;
    let mut text = format!(
        "{{\"at\":{at},\"id\":\"{id:08x}\",\"plane\":\"N{plane}\",\"from\":\"{from}\",\"to\":\"{to}\",\"delay\":{delay:2},\"gate\":\"C{}\"",
        10 + random.below(89)
    );
    let mut field = 0;
    while text.len() + 30 < bytes {
        field += 1;
        let value = random.below(100_000);
        text += &match field % 3 {
            0 => format!(",\"sensor_{field}\":{:.2}", value as f64 / 100.0),
            1 => format!(",\"carrier_{field}\":\"{}\"", ["UA", "AA", "B6", "DL"][value as usize % 4]),
            _ => format!(",\"seen_{field}_ms\":{value}"),
        };
    }
    let padding = bytes.saturating_sub(text.len() + 10);
    text + ",\"note\":\"" + &"on time "[..padding.min(8)] + "\"}"
}

fn settings(pack_segments: bool) -> Settings {
    Settings { durability: Durability::Os, pack_segments, scrub_bytes_per_second: 0, ..Settings::default() }
}

fn open(path: &Path, pack_segments: bool) -> Result<OpenedLog, Box<dyn Error>> {
    Ok(Log::open(path, IDENTITY, settings(pack_segments), Arc::new(SystemClock))?)
}

fn fill(path: &Path, bytes: usize) -> Result<u64, Box<dyn Error>> {
    std::fs::create_dir_all(path)?;
    let mut opened = open(path, false)?;
    let mut random = Numbers(7);
    let mut records = 0;
    while opened.log.statistics().segments <= SEGMENTS {
        records += 1;
        let body = json(records, bytes, &mut random);
        let plane = format!("plane-{}", random.below(4000));
        let (_, mut draft) = opened.writer.begin()?;
        let tags = [Tag::new(b"store"), Tag::new(plane.as_bytes())];
        let kind = EntryKind { model: ModelId::EVENTS, kind: 1 };
        draft.push(NewEntry { kind, tags: &tags, sequenced: None, body: &[body.as_bytes()] });
        draft.append()?;
    }
    opened.log.sync()?;
    opened.log.save_checkpoint(opened.writer.basis(), b"")?;
    while opened.log.carry_out(LogDuty::Seal)? {}
    Ok(records)
}

/// Rewrites each segment. Returns the bytes of their files, the count of records and the duration.
fn compact(path: &Path, pack_segments: bool) -> Result<(u64, u64, Duration), Box<dyn Error>> {
    let opened = open(path, pack_segments)?;
    let mut all = |entries: &[quire_model::Entry<'_>], answers: &mut Vec<Survival>| {
        answers.extend(entries.iter().map(|_| Survival::Whole));
    };
    let mut compactor = opened.log.begin_compaction(|| Ok::<_, quire_log::Error>(()))?.ok_or("somebody compacts")?;
    let shares = compactor.shares(1, &mut all)?;
    let begun = now();
    let mut bytes = 0;
    for share in &shares {
        bytes += compactor.compact(SegmentRun { first: share.first, end: share.end }, &mut all)?.bytes_after;
    }
    Ok((bytes, shares.last().ok_or("nothing is sealed")?.end.get() - 1, now() - begun))
}

/// Opens the log and reads all records in order, then entries at random places. The first random
/// reads unpack.
fn read(path: &Path, records: u64) -> Result<(), Box<dyn Error>> {
    const READS: u64 = 1_000_000;
    let opened = open(path, false)?;
    let one = |place: u64, reader: &quire_log::Reader| -> Result<usize, Box<dyn Error>> {
        let entry = reader.entry(Place::new(Position::new(place), 0))?.ok_or("an entry is missing")?;
        Ok(black_box(entry.body)[0].into())
    };
    let mut random = Numbers(9);
    let reader = opened.log.reader();
    let begun = now();
    for _ in 0..1000 {
        one(1 + random.below(records), &reader)?;
    }
    let first = (now() - begun) / 1000;
    let (begun, mut from, mut walked) = (now(), Place::START, 0);
    while let Some(entry) = reader.next(&[], from)? {
        if entry.place.position.get() > records {
            break;
        }
        (from, walked) = (entry.place.after(), walked + black_box(entry.body).len());
    }
    let walk = (now() - begun).as_nanos() as f64 / records as f64;
    let begun = now();
    for _ in 0..READS {
        one(1 + random.below(records), &reader)?;
    }
    let warm = (now() - begun).as_nanos() as f64 / READS as f64;
    let unpacked = opened.log.statistics().unpacked_bytes;
    drop(reader);
    let left = opened.log.statistics().unpacked_bytes;
    println!(
        "    first read of one {first:?}, walk of all {walk:.0} ns a record, read of one anywhere, warm {warm:.0} ns"
    );
    println!(
        "    unpacked with the reader {} MiB, without it {} MiB ({walked} bytes walked)",
        unpacked >> 20,
        left >> 20
    );
    Ok(())
}

fn now() -> Duration {
    Duration::from_micros(SystemClock.now().as_micros())
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: packing DIR")?;
    for bytes in [116, 840] {
        let path = Path::new(&directory).join(format!("packing-{bytes}"));
        fill(&path, bytes)?;
        println!("records of {bytes} bytes of JSON");
        for pack_segments in [false, true] {
            let (after, records, took) = compact(&path, pack_segments)?;
            let each = after as f64 / records as f64;
            println!(
                "  {} {each:.1} bytes a record; compacted in {took:?}",
                if pack_segments { "packed" } else { "plain" }
            );
            read(&path, records)?;
        }
        std::fs::remove_dir_all(&path)?;
    }
    Ok(())
}
