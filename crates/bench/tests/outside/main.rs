//! The parser of reports, with the corpus of its fuzz target as it is and damaged.

#[path = "../../../../fuzz/replay.rs"]
mod replay;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/reports");

#[test]
fn any_report_of_bytes_is_compared_and_printed_or_an_error() {
    let (mut read, mut refused) = (0, 0);
    replay::replay(CORPUS, &[], 1000, |bytes, is_damaged| {
        let is_read = quire_bench::report(bytes);
        assert!(is_damaged || is_read, "what is sound is read");
        if is_read { read += 1 } else { refused += 1 }
    });
    assert!(read > 50 && refused > 200, "{read} read, {refused} refused");
}
