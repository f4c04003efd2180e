//! Log files with arbitrary bytes: the corpora of the fuzz targets, unchanged and damaged.

mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use checks::segment::Outcome;
use checks::{checkpoint, control, index, segment, statistics};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");

#[test]
fn a_segment_of_any_bytes_is_refused_or_has_a_prefix_of_the_records() {
    let folder = format!("{CORPUS}/segments");
    let (mut refused, mut unreadable, mut whole, mut cut) = (0, 0, 0, 0);
    replay::replay(&folder, &segment::seeds(), 250, |bytes, is_damaged| {
        let outcome = segment::check(bytes, true);
        assert!(is_damaged || outcome == Outcome::Opened(0), "what is sound is opened whole: {outcome:?}");
        match outcome {
            Outcome::Refused => refused += 1,
            Outcome::Unreadable => unreadable += 1,
            Outcome::Opened(0) => whole += 1,
            Outcome::Opened(_) => cut += 1,
        }
    });
    assert!(refused > 300 && whole > 10 && cut > 5, "{refused}, {unreadable}, {whole}, {cut}");
}

#[test]
fn an_index_of_any_bytes_matches_its_segment_or_is_rebuilt() {
    let folder = format!("{CORPUS}/indexes");
    let (mut taken, mut anew) = (0, 0);
    replay::replay(&folder, &index::seeds(), 200, |bytes, is_damaged| {
        let is_taken = index::check(bytes, true);
        assert!(is_damaged || is_taken, "what is sound is taken");
        if is_taken { taken += 1 } else { anew += 1 }
    });
    assert!(taken > 50 && anew > 150, "{taken}, {anew}");
}

#[test]
fn a_checkpoint_of_any_bytes_is_the_saved_one_or_skipped() {
    let folder = format!("{CORPUS}/checkpoints");
    let (mut taken, mut passed_over) = (0, 0);
    replay::replay(&folder, &[("saved".to_owned(), checkpoint::seed().to_vec())], 600, |bytes, is_damaged| {
        let is_taken = checkpoint::check(bytes, true);
        assert!(is_damaged || is_taken, "what is sound is taken");
        if is_taken { taken += 1 } else { passed_over += 1 }
    });
    assert!(passed_over > 300, "{taken}, {passed_over}");
}

#[test]
fn a_control_file_of_any_bytes_loses_no_record() {
    let folder = format!("{CORPUS}/controls");
    let (mut opened, mut refused) = (0, 0);
    replay::replay(&folder, &control::seeds(), 200, |bytes, is_damaged| {
        let is_opened = control::check(bytes, true);
        assert!(is_damaged || is_opened, "what is sound is opened");
        if is_opened { opened += 1 } else { refused += 1 }
    });
    assert!(opened > 390, "{opened} opened, {refused} refused");
}

#[test]
fn a_statistics_page_of_any_bytes_is_valid_or_an_error() {
    let folder = format!("{CORPUS}/statistics");
    let (mut read, mut refused) = (0, 0);
    replay::replay(&folder, &[("of-a-log".to_owned(), statistics::seed().to_vec())], 1000, |bytes, is_damaged| {
        let is_read = statistics::check(bytes);
        assert!(is_damaged || is_read, "what is sound is read");
        if is_read { read += 1 } else { refused += 1 }
    });
    assert!(read > 500 && refused > 5, "{read} read, {refused} refused");
}
