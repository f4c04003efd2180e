//! `Sql.Query`: pages, values, errors, and statements whose clients leave.

use quire::events::NewEvent;
use quire::{Commit, NewJob};
use quire_access::budget::ByteBudget;
use quire_grpc::proto::sql_value::Kind;
use quire_grpc::proto::{SqlQueryRequest, SqlQueryResponse, SqlValue};
use tonic::{Code, Status};

use crate::served::{Served, told};

fn of_text(sql: &str) -> SqlQueryRequest {
    SqlQueryRequest { sql: sql.to_owned(), ..SqlQueryRequest::default() }
}

async fn ask(served: &Served, request: SqlQueryRequest) -> Result<Vec<SqlQueryResponse>, Status> {
    let mut messages = served.sql().await.query(request).await?.into_inner();
    let mut pages = Vec::new();
    while let Some(page) = messages.message().await? {
        pages.push(page);
    }
    Ok(pages)
}

fn values(page: &SqlQueryResponse) -> Vec<Vec<Option<Kind>>> {
    page.rows.iter().map(|row| row.values.iter().map(|value| value.kind.clone()).collect()).collect()
}

#[tokio::test]
async fn a_result_has_its_columns_its_rows_and_its_position() {
    let (served, owner) = Served::with_owner().await;
    for number in 0..3_u8 {
        let event = NewEvent::new("Placed").data(vec![0xff, number]);
        let commit = Commit::new().append("orders", [event]).enqueue("mails", NewJob::new("confirm"));
        owner.commit(&commit).expect("decided").committed().expect("accepted");
    }
    let value = |kind| SqlValue { kind: Some(kind) };
    let request = SqlQueryRequest {
        params: vec![value(Kind::Text("orders".to_owned())), SqlValue::default(), value(Kind::Real(0.5))],
        named: [("from".to_owned(), value(Kind::Integer(3)))].into(),
        ..of_text("SELECT position, type, data, ?2, ?3 FROM events WHERE store = ?1 AND position >= :from")
    };
    let pages = ask(&served, request).await.expect("a result");
    let [page] = &pages[..] else { panic!("one page: {pages:?}") };
    assert_eq!(page.columns, ["position", "type", "data", "?2", "?3"]);
    let row = [
        Some(Kind::Integer(3)),
        Some(Kind::Text("Placed".to_owned())),
        Some(Kind::Blob(vec![0xff, 2].into())),
        None,
        Some(Kind::Real(0.5)),
    ];
    assert_eq!(values(page), [row]);
    let end = page.end.expect("the end");
    assert_eq!((end.as_of, end.scanned, end.rows), (owner.published().get(), 1, 1));

    let first = SqlQueryRequest { as_of: Some(1), ..of_text("SELECT count(*) FROM events") };
    let before = ask(&served, first).await.expect("a result");
    assert_eq!(values(&before[0]), [[Some(Kind::Integer(1))]]);
    let none = ask(&served, of_text("SELECT name FROM queues WHERE 0")).await.expect("a result");
    assert_eq!(
        (none.len(), &none[0].columns[..], none[0].end.expect("the end").rows),
        (1, &["name".to_owned()][..], 0)
    );
}

const NUMBERS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) SELECT i FROM n";

#[tokio::test]
async fn a_long_result_comes_in_pages() {
    let served = Served::new().await;
    let pages = ask(&served, of_text(NUMBERS)).await.expect("a result");
    assert!(pages.len() > 1);
    let numbers: Vec<_> = pages.iter().flat_map(values).flatten().collect();
    assert_eq!(numbers, (1..=5_000).map(|number| Some(Kind::Integer(number))).collect::<Vec<_>>());
    let (last, others) = pages.split_last().expect("pages");
    assert_eq!(last.end.expect("the end").rows, 5_000);
    assert!(others.iter().all(|page| page.end.is_none()));
    assert!(pages[1..].iter().all(|page| page.columns.is_empty()) && pages[0].columns == ["i"]);
}

#[tokio::test]
async fn a_statement_that_fails_has_a_reason() {
    let served = Served::over(|builder| builder.request_steps_max(50_000)).await;
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    let many = SqlQueryRequest { params: vec![SqlValue::default(); 1_001], ..of_text("SELECT 1") };
    let early = SqlQueryRequest { as_of: Some(9), ..of_text("SELECT 1") };
    for (request, code, reason, message) in [
        (of_text("SELECT absent"), Code::InvalidArgument, "INVALID", "no such column"),
        (of_text("CREATE TABLE t(a)"), Code::InvalidArgument, "INVALID", "changes nothing"),
        (many, Code::InvalidArgument, "INVALID", "1001 values"),
        (early, Code::NotFound, "NOT_FOUND", "position 9"),
        (of_text(endless), Code::ResourceExhausted, "TOO_COSTLY", "steps"),
    ] {
        let text = request.sql.clone();
        let status = ask(&served, request).await.expect_err("refused");
        assert_eq!((told(&status).0, &*told(&status).1), (code, reason), "{text}: {status:?}");
        assert!(status.message().contains(message), "{text}: {status:?}");
    }
    // An error after the first page ends the stream.
    let late = format!("SELECT abs(iif(i = 4000, -9223372036854775807 - 1, i)) FROM ({NUMBERS})");
    let mut pages = served.sql().await.query(of_text(&late)).await.expect("begun").into_inner();
    pages.message().await.expect("no error").expect("a page");
    let status = loop {
        match pages.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the result is whole"),
            Err(status) => break status,
        }
    };
    assert_eq!((told(&status).0, &*told(&status).1), (Code::InvalidArgument, "INVALID"), "{status:?}");
}

#[tokio::test]
async fn a_statement_ends_when_its_client_leaves_and_its_turn_and_memory_are_free() {
    let budget = ByteBudget::new(64 << 20);
    let (served, _owner) = Served::with_budget(budget.clone()).await;
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    // More statements than turns: each one leaves its turn to the next.
    for _ in 0..8 {
        let mut client = served.sql().await;
        let mut pages = client.query(of_text(endless)).await.expect("begun").into_inner();
        pages.message().await.expect("no error").expect("a page");
    }
    served.stop().await;
    assert_eq!(budget.usage().bytes_used, 0);
}
