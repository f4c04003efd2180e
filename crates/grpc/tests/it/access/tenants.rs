//! Tenants: a client with the rights of one space sees nothing of other objects, by any method.
//!
//! Each method is called twice: with names and ids of objects, and with those of no object. Both
//! answers are equal.

use bytes::Bytes;
use quire::system::{AccessRule, RulePattern};
use quire::{Operation, ResourceKind};
use tonic::{Code, Status};

use super::fixture::{Fixture, methods};
use super::methods::{has, rows};

/// A response or a refusal, as far as a client can tell answers apart.
type Seen = Result<Bytes, (Code, Bytes, Bytes)>;

/// Replaces texts by texts of the same length.
fn replaced(bytes: &[u8], texts: &[(String, String)]) -> Bytes {
    let mut bytes = bytes.to_vec();
    for (from, to) in texts {
        assert_eq!(from.len(), to.len());
        let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from.as_bytes())).collect();
        places.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to.as_bytes()));
    }
    bytes.into()
}

fn seen(answer: Result<Bytes, Status>, texts: &[(String, String)]) -> Seen {
    // The facts of a refusal have no order.
    let sorted = |details: Bytes| {
        let mut details = details.to_vec();
        details.sort_unstable();
        Bytes::from(details)
    };
    // A response may have the details of refusals, too.
    answer.map(|response| sorted(replaced(&response, texts))).map_err(|status| {
        (status.code(), replaced(status.message().as_bytes(), texts), sorted(replaced(status.details(), texts)))
    })
}

#[tokio::test]
async fn no_method_distinguishes_an_object_of_another_tenant_from_a_missing_one() {
    let fixture = Fixture::new().await;
    let space = RulePattern::Literal("acme".to_owned());
    let key = fixture.key(&[AccessRule::allow(Operation::All, ResourceKind::Space, space)]);
    let jobs = [&fixture.leased.0, &fixture.pending, &fixture.on_hold, &fixture.cancelled, &fixture.dead];
    let unknown = |job: &String| {
        let nines = job.chars().map(|character| if character == '-' { '-' } else { '9' });
        (job.clone(), nines.collect())
    };
    let mut texts: Vec<(String, String)> = jobs.into_iter().map(unknown).collect();
    texts.push(("orders-".to_owned(), "nobody-".to_owned()));
    texts.push(("other-queue".to_owned(), "nobod-queue".to_owned()));
    let methods = methods();
    for row in rows(&fixture) {
        let path = format!("/quire.v1.{}", row.method);
        let (_, is_stream) = *methods.iter().find(|(known, _)| *known == path).expect("a method");
        let call = async |request: Bytes| fixture.call((&path, is_stream), request, &[&key]).await;
        let (of_rival, of_nobody) = (call(row.request.clone()).await, call(replaced(&row.request, &texts)).await);
        if !has(&row.request, "orders-")
            && let Ok(response) = &of_rival
        {
            assert!(!has(response, "orders") && !has(response, "other-queue"), "{path}: {response:?}");
        }
        assert_eq!(seen(of_rival, &texts), seen(of_nobody, &[]), "{path}");
    }
}
