//! Calls from outside, with any messages: the corpus of a fuzz target, as it is and damaged.

mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use tonic::Code;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/calls");

#[test]
fn a_call_of_random_bytes_is_answered_or_refused_with_the_reason() {
    let (mut answered, mut refused, mut undecoded) = (0, 0, 0);
    replay::replay(FOLDER, &checks::seeds::all(), 400, |bytes, is_damaged| match checks::check(bytes) {
        Some(Code::Ok) => answered += 1,
        Some(code) => {
            assert!(is_damaged, "a sound call is answered, not with {code:?}");
            if code == Code::Internal { undecoded += 1 } else { refused += 1 }
        }
        None => assert!(is_damaged, "it is one that is sent"),
    });
    assert!(
        answered > 500 && refused > 500 && undecoded > 500,
        "{answered} answered, {refused} refused, {undecoded} could not be decoded"
    );
}
