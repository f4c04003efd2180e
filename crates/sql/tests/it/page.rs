//! The page `docs/sql.md`: its questions run, and its reference is that of the code.

use quire::events::NewEvent;
use quire::jobs::Retry;
use quire::{Commit, Message, NewBlock, NewEdge, NewJob, Sequence};
use quire_sql::TableDescription;

use crate::fixture::{empty, shown};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sql.md");

/// The line before the reference.
const MARK: &str = "<!-- tables: written by `QUIRE_SQL_PAGE=write cargo test -p quire-sql --test it page` -->\n";

fn page() -> String {
    std::fs::read_to_string(PAGE).expect("the page")
}

#[test]
fn the_reference_of_the_page_is_that_of_the_code() {
    let page = page();
    let (before, shown) = page.split_once(MARK).expect("the mark");
    let reference = format!("\n{}", TableDescription::reference());
    if std::env::var("QUIRE_SQL_PAGE").is_ok_and(|asked| asked == "write") {
        std::fs::write(PAGE, format!("{before}{MARK}{reference}")).expect("written");
        return;
    }
    assert_eq!(shown, reference, "write it with QUIRE_SQL_PAGE=write");
}

#[test]
fn the_questions_of_the_page_have_answers() {
    let filled = empty();
    let database = &filled.database;
    database.topic("departures").create(1).expect("created");
    for (flight, origin, plane, delay) in
        [("UA1", "EWR", "N14228", 42), ("UA2", "EWR", "N2", 4), ("UA3", "JFK", "N14228", 11)]
    {
        let data = format!(r#"{{"origin":"{origin}","dest":"IAH","delay_minutes":{delay}}}"#);
        let event = NewEvent::new("Departed").tag(format!("flight:{flight}")).tag(format!("plane:{plane}")).data(data);
        let commit = Commit::new()
            .append("air/flights", [event])
            .produce("departures", Message::new(flight).key(origin))
            .enqueue("air/delays", NewJob::new(flight).kind("tell"));
        database.commit(&commit).expect("decided").committed().expect("accepted");
    }
    let mut routes = Commit::new();
    for name in ["EWR", "IAH", "JFK"] {
        routes = routes.put_block("air/routes", NewBlock::new(name, "airport"));
    }
    routes = routes.put_edge("air/routes", NewEdge::new("EWR", "flies_to", "IAH"));
    database.commit(&routes).expect("decided").committed().expect("accepted");
    let job = database.queue("air/delays").fetch("worker-1", 2).expect("fetched").remove(0);
    database.queue("air/delays").fail(job.job, job.token, "no route", Retry::Never).expect("failed");
    database.topic("departures").commit_offset("billing", 0, Sequence::new(0)).expect("committed");

    let page = page();
    let questions: Vec<&str> = page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(questions.len(), 10);
    let answers: Vec<String> = questions.iter().map(|question| shown(database, question)).collect();
    assert_eq!(answers[0], "tell|no route|1");
    assert_eq!(answers[1].split('|').next(), Some("billing"));
    assert!(answers[2].lines().count() == 2 && answers[2].ends_with("|Departed|IAH"), "{}", answers[2]);
    assert!(answers[3].ends_with("|Departed|air/delays|departures|UA3"), "{}", answers[3]);
    assert_eq!(answers[4], "EWR|2|23.0\nJFK|1|11.0");
    assert!(answers[5].starts_with("worker-1|air/delays|1|20"), "{}", answers[5]);
    assert_eq!(answers[6].lines().next(), Some("plane:N14228|2"));
    assert_eq!(answers[7].lines().count(), 2);
    assert_eq!(answers[8], "JFK");
    assert_eq!(answers[9].lines().count(), 1);
}
