//! Packed segments through the public API: less disk space, and everything reads as before.

use std::fs;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quire::events::{EventPosition, EventView, NewEvent, Query, QueryItem, ReadOptions};
use quire::{
    Background, Builder, Database, Durability, Duty, ManualClock, Message, Position, Profile, ReadView, Sequence,
    Timestamp,
};

use crate::support::{Place, everything, files};

const INTERVAL_MS: u64 = 1000;

fn json(number: u64) -> String {
    let plane = 10_000 + number * 7919 % 4000;
    format!(
        "{{\"number\":{number},\"plane\":\"N{plane}\",\"from\":\"EWR\",\"to\":\"IAH\",\"carrier\":\"UA\",\"delay\":-3}}"
    )
}

/// Fills several segments with events and messages. All segments may be compacted, and none has
/// obsolete records.
fn fill(database: &Database) {
    for number in 0..600 {
        let (text, tag) = (json(number), format!("plane-{}", number % 40));
        database.events("air/flights").append([NewEvent::new("Departed").tag(&tag).data(&text)]).expect("accepted");
        database.topic("flights").produce(Message::new(&text).key(&tag)).expect("accepted");
    }
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
    for _ in 0..2 {
        database.topic("flights").produce(Message::new("and one more")).expect("accepted");
        database.checkpoint().expect("saved");
    }
}

fn log_bytes(place: &Place) -> u64 {
    files(&place.shard(), ".log").iter().map(|path| path.metadata().expect("there").len()).sum()
}

fn is_packed(place: &Place) -> bool {
    let files = files(&place.shard(), ".log");
    files.iter().any(|path| {
        let file = fs::read(path).expect("readable");
        file.starts_with(b"QUIRECMP") && file[8] == 2
    })
}

fn builder(place: &Place, clock: &Arc<ManualClock>) -> Builder {
    let builder = place.builder(Durability::Os).clock(clock.clone()).background(Background::Caller);
    builder.compact_interval(Duration::from_millis(INTERVAL_MS))
}

/// Returns a packed database that was filled `times` times.
fn packed(place: &Place, clock: &Arc<ManualClock>, times: usize) -> Database {
    let database = builder(place, clock).pack_segments(true).open().expect("opened");
    (0..times).for_each(|_| fill(&database));
    database.compact().expect("compacted");
    database
}

#[test]
fn segments_are_packed_in_time_when_that_is_asked_for_and_read_as_before() {
    for pack in [false, true] {
        let (place, clock) = (Place::new(), Arc::new(ManualClock::new(Timestamp::from_millis(1))));
        let database = builder(&place, &clock).pack_segments(pack).open().expect("opened");
        fill(&database);
        let (before, seen) = (log_bytes(&place), everything(&database));
        clock.set(Timestamp::from_millis(10 * INTERVAL_MS));
        assert!(database.carry_out(Duty::Compact).expect("compacted"));
        assert_eq!(is_packed(&place), pack);
        let after = log_bytes(&place);
        assert_eq!(after * 3 < before * 2, pack, "{after} of {before} bytes");
        assert_eq!(everything(&database), seen);
        // A second compaction changes nothing.
        let names =
            || files(&place.shard(), ".log").into_iter().map(|path| (path.clone(), path.metadata().expect("there")));
        let times = || names().map(|(path, it)| (path, it.modified().expect("known"))).collect::<Vec<_>>();
        let (was, left) = (times(), everything(&database));
        clock.set(Timestamp::from_millis(20 * INTERVAL_MS));
        assert!(database.carry_out(Duty::Compact).expect("compacted"));
        assert_eq!(times(), was);
        drop(database);
        // Packed segments are readable whatever the setting: in this process, in another one, and
        // read-only.
        let database = builder(&place, &clock).open().expect("opened");
        let beside = builder(&place, &clock).open().expect("opened");
        let looking = builder(&place, &clock).read_only(true).open().expect("opened");
        for database in [&database, &beside, &looking] {
            assert_eq!(everything(database), left);
        }
        let found = looking.topic("flights").fetch(0, Sequence::new(17), 1).expect("readable");
        assert_eq!(found.records[0].value.as_deref(), Some(json(17).as_bytes()));
    }
}

#[test]
fn packed_segments_stay_packed_when_a_process_without_packing_compacts() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new(Timestamp::from_millis(1))));
    let database = packed(&place, &clock, 4);
    let (seen, packed) = (everything(&database), log_bytes(&place));
    drop(database);
    // With longer segments, compaction joins existing ones, even without obsolete records.
    let database = builder(&place, &clock).segment_bytes(1 << 20).open().expect("opened");
    let done = database.compact().expect("compacted");
    assert!(done.segments > 2 && done.bytes_after <= done.bytes_before, "{done:?}");
    assert!(is_packed(&place) && log_bytes(&place) <= packed, "{} of {packed} bytes", log_bytes(&place));
    assert_eq!(everything(&database), seen);
}

#[test]
fn unpacked_segments_are_released_down_to_the_setting() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new(Timestamp::from_millis(1))));
    drop(packed(&place, &clock, 1));
    for (bytes, stays) in [(0, false), (64 << 20, true)] {
        let database = builder(&place, &clock).unpacked_bytes_max(bytes).open().expect("opened");
        for offset in 0..600 {
            database.topic("flights").fetch(0, Sequence::new(offset), 1).expect("readable");
        }
        assert_eq!(database.statistics().unpacked_bytes > 100_000, stays);
        assert_eq!(database.statistics().unpacked_bytes == 0, !stays);
    }
}

#[test]
fn a_long_read_releases_unpacked_segments_on_the_way() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new(Timestamp::from_millis(1))));
    drop(packed(&place, &clock, 1));
    let plane = |tag: &'static str| QueryItem::new().tag(tag);
    let queries = || {
        [
            Query::all(),
            Query::from(plane("plane-3")),
            Query::from(plane("plane-3")).or(plane("plane-7")),
            Query::from(plane("plane-3")).or(plane("plane-7").only_last_event()),
        ]
    };
    let all = ReadOptions::default();
    let (after, up_to, before) = (EventPosition::new(50), EventPosition::new(500), EventPosition::new(400));
    let options = [
        all,
        ReadOptions { limit: Some(177), ..all },
        ReadOptions { after, up_to: Some(up_to), ..all },
        ReadOptions { backwards: true, ..all },
        ReadOptions { backwards: true, limit: Some(177), before: Some(before), after, ..all },
    ];
    // Reads with `bytes` as the memory limit. Returns the events read, and the largest size of
    // unpacked records.
    let read = |bytes: u64| {
        let database = builder(&place, &clock).unpacked_bytes_max(bytes).open().expect("opened");
        let (mut seen, mut most) = (Vec::new(), 0);
        for (query, options) in queries().iter().flat_map(|query| options.map(|options| (query, options))) {
            let mut positions = Vec::new();
            let visit = |event: EventView<'_>| {
                positions.push((event.position, event.data.to_vec()));
                most = most.max(database.statistics().unpacked_bytes);
            };
            let head = database.events("air/flights").visit(query, options, visit).expect("readable");
            seen.push((head, positions));
        }
        (seen, most)
    };
    let ((whole, much), (bounded, little)) = (read(64 << 20), read(32 << 10));
    assert_eq!(bounded, whole);
    // Allowed are the limit, a new frame of 16 KiB for each of two reads, and the size of an open
    // segment.
    assert!(much > 160 << 10, "{much} bytes");
    assert!(little < 80 << 10, "{little} of {much} bytes");
}

#[test]
fn a_long_fetch_releases_unpacked_segments_between_batches() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new(Timestamp::from_millis(1))));
    drop(packed(&place, &clock, 4));
    // Fetches from several offsets, in one go and in several, with `bytes` as the memory limit.
    // Returns the results and the largest size of unpacked records.
    let read = |bytes: u64| {
        let database = builder(&place, &clock).unpacked_bytes_max(bytes).open().expect("opened");
        let find = |view: &ReadView<'_>| {
            let topic = view.streams.topic_named("flights").expect("a topic").id;
            view.streams.partition(topic, 0).expect("a partition")
        };
        let partition = database.read_published(find).expect("no error");
        let (mut seen, mut most) = (Vec::new(), 0);
        for (from, bytes_max) in [(0, usize::MAX), (17, 10_000), (300, usize::MAX), (590, 1)] {
            let history = database.history();
            let mut batches = Vec::new();
            let fetched = partition.fetch(&history, Sequence::new(from), bytes_max, &mut |stored| {
                batches.push((stored.base_offset, stored.batch.bytes().to_vec()));
                most = most.max(database.statistics().unpacked_bytes);
                ControlFlow::Continue(())
            });
            seen.push((fetched.expect("readable"), batches));
        }
        let times = (0..600).step_by(50).map(|time_ms| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(time_ms);
            database.topic("flights").offset_at_time(0, time)
        });
        let times: Vec<_> = times.map(|found| found.expect("readable")).collect();
        (seen, times, most)
    };
    let ((whole, times, much), (bounded, bounded_times, little)) = (read(64 << 20), read(32 << 10));
    assert_eq!((bounded, bounded_times), (whole, times));
    // Allowed are the records of one history, those of its successor, and a frame for each read.
    assert!(much > 600 << 10 && little < 160 << 10, "{little} of {much} bytes");
}

#[test]
fn a_small_disk_packs_and_no_other_profile_does() {
    for profile in [Profile::Balanced, Profile::LowLatency, Profile::Throughput, Profile::SmallDisk] {
        let (place, clock) = (Place::new(), Arc::new(ManualClock::new(Timestamp::from_millis(1))));
        let profiled = builder(&place, &clock).profile(profile).segment_bytes(64 << 10);
        let database = profiled.open().expect("opened");
        fill(&database);
        let published = database.published();
        database.compact().expect("compacted");
        assert_eq!(is_packed(&place), profile == Profile::SmallDisk, "{profile:?}");
        assert!(database.published() >= published && published > Position::new(1000));
    }
}
