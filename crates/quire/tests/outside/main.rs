//! Files of a database and of a backup with any bytes: the corpora of the fuzz targets, unchanged
//! and damaged.

mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use checks::meta::Outcome;
use checks::{manifest, meta, salvage, state};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");

#[test]
fn a_checkpoint_of_any_state_is_taken_or_passed_over() {
    let (mut taken, mut passed_over) = (0, 0);
    let made = [("all-models".to_owned(), state::seed().to_vec())];
    replay::replay(&format!("{CORPUS}/checkpoints"), &made, 1500, |bytes, is_damaged| {
        let is_taken = state::check(bytes);
        assert!(is_damaged || is_taken, "what was saved is taken");
        if is_taken { taken += 1 } else { passed_over += 1 }
    });
    assert!(taken > 200 && passed_over > 200, "{taken} taken, {passed_over} passed over");
}

#[test]
fn a_quire_meta_of_any_bytes_is_the_one_that_was_written_or_repaired() {
    let (mut opened, mut repaired, mut newer) = (0, 0, 0);
    let made = [("of-a-database".to_owned(), meta::seed().to_vec())];
    replay::replay(&format!("{CORPUS}/metas"), &made, 200, |bytes, is_damaged| {
        let outcome = meta::check(bytes, true);
        assert!(is_damaged || outcome == Outcome::Opened, "what was written is read: {outcome:?}");
        match outcome {
            Outcome::Opened => opened += 1,
            Outcome::Repaired => repaired += 1,
            Outcome::Newer => newer += 1,
        }
    });
    assert!(opened > 5 && repaired > 100 && newer > 0, "{opened} opened, {repaired} repaired, {newer} newer");
}

#[test]
fn a_segment_of_any_bytes_is_salvaged_and_the_result_opens() {
    let (mut whole, mut parts, mut newer) = (0, 0, 0);
    let made = [("all-models".to_owned(), salvage::seed().to_vec())];
    let records = salvage::check(salvage::seed()).expect("it is whole");
    replay::replay(&format!("{CORPUS}/salvaged"), &made, 400, |bytes, _| match salvage::check(bytes) {
        Some(kept) if kept == records => whole += 1,
        Some(kept) => {
            assert!(kept < records, "{kept} of {records} records");
            parts += 1;
        }
        None => newer += 1,
    });
    assert!(whole > 10 && parts > 100, "{whole} whole, {parts} in part, {newer} newer");
}

#[test]
fn a_list_of_a_backup_of_any_bytes_is_the_one_that_was_written_or_refused() {
    let (mut restored, mut refused) = (0, 0);
    let made = [("of-a-backup".to_owned(), manifest::seed().to_vec())];
    replay::replay(&format!("{CORPUS}/manifests"), &made, 300, |bytes, is_damaged| {
        let is_restored = manifest::check(bytes, true);
        assert!(is_damaged || is_restored, "what was written is restored");
        if is_restored { restored += 1 } else { refused += 1 }
    });
    assert!(restored > 0 && refused > 150, "{restored} restored, {refused} refused");
}

#[test]
fn a_list_of_a_backup_that_names_a_file_elsewhere_is_refused_and_nothing_is_written_there() {
    let folder = checks::base::folder();
    for name in ["../../stolen", "/dev/shm/stolen", "..", ".", "", "sub/stolen"] {
        let (bytes, own) = manifest::naming(name);
        let from = manifest::put_backup(folder.path(), &bytes);
        // The named record exists, and is the one that it says.
        std::fs::copy(from.join(own), folder.path().join("backups/stolen")).expect("copied");
        let to = folder.path().join("databases/data");
        let error = quire::tools::restore(&from, &to, None, &mut |_, _| ()).expect_err("it is refused");
        assert_eq!(error.kind(), quire::ErrorKind::Damaged, "{name:?}: {error}");
        assert!(!folder.path().join("databases").exists(), "{name:?}: nothing is made");
    }
}
