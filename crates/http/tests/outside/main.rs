//! Requests from outside, with any bodies and query strings: the corpus of a fuzz target, as it is
//! and damaged.

mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/requests");
const GRAPHML: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/graphml");

#[test]
fn a_request_of_random_bytes_is_answered_or_refused_with_the_reason() {
    let (mut answered, mut refused) = (0, 0);
    replay::replay(FOLDER, &[], 200, |bytes, is_damaged| match checks::check(bytes) {
        Some(status) if status < 300 => answered += 1,
        Some(status) => {
            assert!(is_damaged, "a sound request is answered, not with {status}");
            refused += 1;
        }
        None => assert!(is_damaged, "it is one that is sent"),
    });
    assert!(answered > 100 && refused > 500, "{answered} answered, {refused} refused");
}

#[test]
fn a_graphml_file_of_random_bytes_is_imported_or_refused_with_the_reason() {
    let (mut imported, mut refused) = (0, 0);
    replay::replay(GRAPHML, &[], 300, |bytes, is_damaged| match checks::graphml(bytes) {
        Some(status) if status < 300 => imported += 1,
        status => {
            assert!(is_damaged, "a sound file is imported, not answered with {status:?}");
            refused += 1;
        }
    });
    assert!(imported > 20 && refused > 200, "{imported} imported, {refused} refused");
}

#[test]
fn a_graph_in_one_line_of_graphml_is_read_in_a_time_that_its_length_explains() {
    let nodes: String = (0..100_000).map(|number| format!("<node id=\"{number}\"/>")).collect();
    let line = "POST /v1/graphs/long/import?format=graphml&batches=true";
    let request = format!("{line}\n<graphml><graph>{nodes}</graph></graphml>");
    // The client that waits for the response would time out.
    assert_eq!(checks::check(request.as_bytes()), Some(200));
}
