//! Checkpoints: opening returns the newest checkpoint that belongs to the log's history.

use quire_log::{Checkpoint, Durability, OpenedLog};
use quire_model::Position;

use crate::shard::{BOTH, Shard, Snapshot, append, extend, filled, sample};

fn save(opened: &mut OpenedLog, records: u64) -> Checkpoint {
    extend(opened, records);
    let checkpoint =
        Checkpoint { mark: opened.writer.mark(), payload: format!("state after {records}").into_bytes().into() };
    assert_eq!(checkpoint.mark.position, Position::new(records));
    opened.log.save_checkpoint(opened.writer.basis(), &checkpoint.payload).unwrap();
    checkpoint
}

fn checkpoint_files(shard: &Shard) -> Vec<String> {
    shard.names().into_iter().filter(|name| name.ends_with("checkpoint")).collect()
}

fn newest(snapshot: &Snapshot) -> Option<Checkpoint> {
    snapshot.shard().open().checkpoint
}

#[test]
fn the_newest_checkpoint_comes_back_and_two_are_kept() {
    for durability in BOTH {
        let (shard, mut opened) = filled(durability, 0);
        assert_eq!(opened.checkpoint, None);
        let mut last = None;
        for records in [3, 10, 11, 30] {
            last = Some(save(&mut opened, records));
        }
        extend(&mut opened, 33);
        let crashed = shard.snapshot();
        drop(opened);
        assert_eq!(shard.open().checkpoint, last);
        assert_eq!(newest(&crashed), last);
        assert_eq!(checkpoint_files(&shard), ["00000000000000000011.checkpoint", "00000000000000000030.checkpoint"]);
    }
}

#[test]
fn a_checkpoint_with_any_byte_flipped_or_missing_is_skipped() {
    let (shard, mut opened) = filled(Durability::Os, 0);
    let older = save(&mut opened, 3);
    let _newer = save(&mut opened, 5);
    drop(opened);
    let snapshot = shard.snapshot();
    let name = "00000000000000000005.checkpoint";
    let bytes = snapshot.files[name].len();
    for at in 0..bytes {
        assert_eq!(newest(&snapshot.with(name, |file| file[at] ^= 4)), Some(older.clone()), "byte {at}");
        assert_eq!(newest(&snapshot.with(name, |file| file.truncate(at))), Some(older.clone()), "cut at {at}");
    }
    let neither =
        snapshot.with(name, |file| file[45] ^= 1).with("00000000000000000003.checkpoint", |file| file[45] ^= 1);
    assert_eq!(newest(&neither), None);
}

#[test]
fn a_checkpoint_of_truncated_records_is_not_used_and_can_be_replaced() {
    let (shard, mut opened) = filled(Durability::Os, 0);
    let kept = save(&mut opened, 3);
    let _lost = save(&mut opened, 4);
    drop(opened);
    let snapshot = shard.snapshot();
    let (name, bytes) = snapshot.records()[3].clone();
    let cut = snapshot.without("control").with(&name, |file| file[bytes.start..].fill(0)).shard();
    let mut opened = cut.open();
    assert_eq!(opened.checkpoint, Some(kept));
    // Another record gets the lost position, so the checkpoint belongs to another history.
    for number in 4..=6 {
        append(&mut opened.writer, &sample(number + 100));
    }
    drop(opened);
    let mut opened = cut.open();
    assert_eq!(opened.checkpoint.as_ref().map(|checkpoint| checkpoint.mark.position), Some(Position::new(3)));
    let fresh = opened.writer.basis();
    opened.log.save_checkpoint(fresh, b"another past").unwrap();
    append(&mut opened.writer, &sample(200));
    drop(opened);
    let payload = cut.open().checkpoint.map(|checkpoint| checkpoint.payload.to_vec());
    assert_eq!(payload, Some(b"another past".to_vec()));
}

#[test]
fn checkpoints_beyond_the_end_prove_lost_records_and_without_them_new_checkpoints_are_kept() {
    let (shard, mut opened) = filled(Durability::Os, 0);
    save(&mut opened, 20);
    save(&mut opened, 21);
    drop(opened);
    let snapshot = shard.snapshot();
    let (name, bytes) = snapshot.records()[2].clone();
    let mut cut = snapshot.without("control").with(&name, |file| file[bytes.start..].fill(0));
    for later in cut.segments().into_iter().filter(|segment| *segment > name) {
        cut = cut.without(&later);
    }
    let refused = cut.shard().try_open().expect_err("what was synced is not there");
    assert!(refused.to_string().contains("records up to 21 had been synced"), "{refused}");
    let newest = cut.files.keys().rfind(|name| name.ends_with(".checkpoint")).expect("two").clone();
    let refused = cut.without(&newest).shard().try_open().expect_err("what was synced is not there");
    assert!(refused.to_string().contains("records up to 20 had been synced"), "{refused}");
    cut.files.retain(|name, _| !name.ends_with(".checkpoint"));
    let cut = cut.shard();
    let mut opened = cut.open();
    assert_eq!(opened.checkpoint, None);
    let saved = save(&mut opened, 4);
    drop(opened);
    assert_eq!(cut.open().checkpoint, Some(saved));
}

#[test]
fn saving_a_checkpoint_syncs_the_records_before_it() {
    let (shard, mut opened) = filled(Durability::Os, 10);
    let saved = save(&mut opened, 12);
    extend(&mut opened, 20);
    let snapshot = shard.snapshot();
    let (name, bytes) = snapshot.records()[12].clone();
    let torn = snapshot.with(&name, |file| file[bytes.start + 44] ^= 1).shard().open();
    assert_eq!((torn.recovery.records, torn.checkpoint), (12, Some(saved)));
    let (name, bytes) = snapshot.records()[11].clone();
    assert!(snapshot.with(&name, |file| file[bytes.start + 44] ^= 1).shard().try_open().is_err());
}
