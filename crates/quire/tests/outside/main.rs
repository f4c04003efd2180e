//! The state of all models from outside, with any bytes: the corpus of a fuzz target, as it is and damaged.

mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/checkpoints");

#[test]
fn a_checkpoint_of_any_state_is_taken_or_passed_over() {
    let (mut taken, mut passed_over) = (0, 0);
    let made = [("all-models".to_owned(), checks::seed().to_vec())];
    replay::replay(FOLDER, &made, 1500, |bytes, is_damaged| {
        let is_taken = checks::check(bytes);
        assert!(is_damaged || is_taken, "what was saved is taken");
        if is_taken { taken += 1 } else { passed_over += 1 }
    });
    assert!(taken > 200 && passed_over > 200, "{taken} taken, {passed_over} passed over");
}
