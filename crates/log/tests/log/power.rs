//! Power failures: each sector written since the last sync may or may not be on the disk.

use proptest::prelude::*;
use quire_model::Position;

use crate::shard::{BOTH, Item, Snapshot, assert_samples, contents, extend, filled};

const SECTOR: usize = 512;

/// The state of the control file on the disk.
#[derive(Debug, Clone, Copy)]
enum Control {
    /// The page was last written back at the opening of the log, with the last sync, or just now.
    Opened,
    Synced,
    Latest,
}

/// A disk after a power failure: each sector has its content of the last sync or its latest
/// content.
fn cut_power(opened: &Snapshot, synced: &Snapshot, latest: &Snapshot, control: Control, choices: &[bool]) -> Snapshot {
    let mut choices = choices.iter().copied().cycle();
    let mut choose = || choices.next().unwrap_or_default();
    let mut disk = synced.clone();
    disk.files.remove("spare");
    for name in latest.segments() {
        let new = &latest.files[&name];
        // A segment is synced as zeros before it has its name. A name that was not synced may be
        // lost.
        let begun_since = !synced.files.contains_key(&name);
        if begun_since && choose() {
            continue;
        }
        let old = disk.files.entry(name).or_insert_with(|| vec![0; new.len()]);
        for (old, new) in old.chunks_mut(SECTOR).zip(new.chunks(SECTOR)) {
            if old != new && choose() {
                old.copy_from_slice(new);
            }
        }
    }
    let source = match control {
        Control::Opened => opened,
        Control::Synced => synced,
        Control::Latest => latest,
    };
    disk.with_file("control", &source.files["control"])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_power_failure_loses_no_synced_record_and_none_from_the_middle(
        durability in proptest::sample::select(&BOTH[..]),
        reopened in any::<bool>(),
        before in 0..30_u64,
        // Behind many that are not synced, those of a `sync` log are stored in place, too.
        after in prop_oneof![4 => 0..30_u64, 1 => 64..90_u64],
        control in proptest::sample::select(vec![Control::Opened, Control::Synced, Control::Latest]),
        // Many or few sectors are kept.
        choices in (1..10_u32).prop_flat_map(|weight| {
            proptest::collection::vec(proptest::bool::weighted(f64::from(weight) / 10.0), 101)
        }),
    ) {
        let (shard, mut opened) = filled(durability, before / 2);
        if reopened {
            drop(opened);
            opened = shard.open();
        }
        let at_open = if reopened || before / 2 == 0 { Some(shard.snapshot()) } else { None };
        extend(&mut opened, before);
        opened.log.sync().unwrap();
        let synced = shard.snapshot();
        for number in before + 1..=before + after {
            crate::shard::append(&mut opened.writer, &crate::shard::sample(number));
        }
        // Another record is being prepared when the power fails.
        let (_, mut draft) = opened.writer.begin().unwrap();
        Item::plain(&["unfinished"], vec![0xEE; 700]).push(&mut draft);
        let latest = shard.snapshot();
        drop(draft);

        let at_open = at_open.as_ref().unwrap_or(&synced);
        let disk = cut_power(at_open, &synced, &latest, control, &choices).shard();
        let mut opened = disk.open();
        let kept = opened.recovery.records;
        prop_assert!((before..=before + after).contains(&kept), "{} of {} to {}", kept, before, before + after);
        assert_samples(&opened.log.reader(), kept);
        extend(&mut opened, kept + 15);
        prop_assert_eq!(opened.log.published(), Position::new(kept + 15));
        drop(opened);
        let opened = disk.open();
        prop_assert_eq!(&opened.recovery.cut, &None);
        prop_assert_eq!(contents(&opened.log.reader()).len() as u64, 3 * (kept + 15));
        assert_samples(&opened.log.reader(), kept + 15);
    }
}

#[test]
fn in_a_new_log_any_lost_record_is_a_torn_tail() {
    // The power fails soon after the creation. The control file is as it was synced when the log
    // was opened. Every record appended since is above its mark, so any loss among them is a torn
    // tail.
    for durability in BOTH {
        let (shard, mut opened) = filled(durability, 0);
        let created = shard.snapshot();
        for number in 1..=30 {
            crate::shard::append(&mut opened.writer, &crate::shard::sample(number));
        }
        let latest = shard.snapshot();
        let (name, bytes) = latest.records()[3].clone();
        let torn = latest.with(&name, |file| file[bytes].fill(0)).with_file("control", &created.files["control"]);
        assert_eq!(torn.shard().open().recovery.records, 3);
    }
}
