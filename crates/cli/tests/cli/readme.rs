//! The README's request, sent unchanged.

use crate::support::Server;

const README: &str = include_str!("../../../../README.md");

#[test]
fn the_readmes_commit_is_accepted_once_and_then_refused_with_the_event() {
    let (_, behind) = README.split_once("/v1/commit --json '").expect("the README has the request");
    let (body, _) = behind.split_once('\'').expect("it is quoted");
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let (status, answer) = server.ask("POST", "/v1/commit", body);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["replies"].as_array().map(Vec::len), Some(6));
    let (status, answer) = server.ask("POST", "/v1/commit", body);
    assert_eq!(
        (status, &answer["code"], &answer["position"]),
        (409, &"condition_failed".into(), &1.into()),
        "{answer}"
    );
    assert_eq!(server.stop_by("INT").0, Some(0));
}
