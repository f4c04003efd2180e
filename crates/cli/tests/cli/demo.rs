//! The demo: the story and the load report what the database holds, and the commands it prints
//! work.

use std::fs;
use std::process::Command;

use crate::support::{Server, number, quire, run, run_on};

#[test]
fn the_demo_counts_every_row_and_its_report_matches_the_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let ports = ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let report = run_on(&data, &[&["demo", "--durability", "os"][..], &ports].concat()).succeeded();

    assert_eq!(number(&report, "rows"), 6_099);
    let kinds = ["departed", "refused", "cancelled", "unreadable"].map(|kind| number(&report, kind));
    assert_eq!(kinds.iter().sum::<u64>(), 6_099, "{report}");
    let [departed, refused, cancelled, unreadable] = kinds;
    assert!(departed > 6_000 && refused > 0 && cancelled > 0 && unreadable == 0, "{report}");
    assert!(report.contains("it conflicts with event"), "the refusal names the event: {report}");
    for kind in ["dep_time", "tailnum", "arr_time", "airport"] {
        assert!(number(&report, kind) > 0, "the week is known to be dirty: {report}");
    }

    let count = |arguments: &[&str]| run_on(&data, arguments).succeeded().lines().count() as u64;
    let events = |event_type: &str| count(&["events", "read", "air/flights", "--type", event_type]);
    assert_eq!(count(&["events", "read", "air/flights"]), number(&report, "events"));
    assert_eq!(events("Departed"), departed);
    assert_eq!(events("Cancelled"), cancelled);
    assert_eq!(events("PassengersNotified"), number(&report, "jobs"));
    assert_eq!(count(&["consume", "departures"]), number(&report, "messages"));
    assert_eq!(departed, number(&report, "messages"));
    assert_eq!(count(&["jobs", "list", "air/delays", "--state", "completed"]), number(&report, "jobs"));
    let origins = ["EWR", "JFK", "LGA"];
    let routes = origins.map(|origin| count(&["graph", "neighbours", "air/routes", origin, "--direction", "outgoing"]));
    assert_eq!(routes.iter().sum::<u64>(), number(&report, "routes"));

    run_on(&data, &["demo"]).failed_with("already holds a database");
}

#[test]
fn the_story_reports_what_the_database_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let story = run_on(&data, &["demo", "--fast", "--durability", "os"]).succeeded();
    let lines: Vec<&str> = story.lines().map(str::trim).collect();
    let parts = lines.iter().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).count();
    assert_eq!(parts, 4, "{story}");

    let count = |arguments: &[&str]| run_on(&data, arguments).succeeded().lines().count() as u64;
    let events = |more: &[&str]| count(&[&["events", "read", "shop/orders"][..], more].concat());
    assert_eq!(events(&["--tag", "order:1"]), 2, "the order and its payment");
    assert!(story.contains("globes sold: 1."), "{story}");
    assert_eq!(events(&["--tag", "item:globe"]), 1);
    assert!(story.contains("condition 0 failed: it conflicts with event"), "the refusal has a reason: {story}");
    assert!(story.contains("charges for order:1: 1; jobs completed: 2; left: 0"), "{story}");
    assert_eq!(events(&["--tag", "order:1", "--type", "PaymentTaken"]), 1);
    assert_eq!(count(&["jobs", "list", "shop/payments", "--state", "completed"]), 2);

    let acknowledged = lines.iter().find_map(|line| line.strip_prefix("acknowledged orders lost: 0 of "));
    let acknowledged: u64 = acknowledged.expect("none is lost").replace(',', "").parse().expect("a count");
    let read_back = number(&story, "read back:");
    assert!(acknowledged > 0 && (acknowledged..=acknowledged + 8).contains(&read_back), "{story}");
    assert_eq!(count(&["events", "read", "sale/orders"]), read_back);
    assert_eq!(count(&["jobs", "list", "sale/payments"]), read_back);
    assert_eq!(count(&["consume", "sale"]), read_back);
}

#[test]
fn the_commands_printed_by_the_demo_work() {
    the_commands_work(&[], "departures");
}

#[test]
fn the_commands_printed_by_the_story_work() {
    the_commands_work(&["--fast"], "orders");
}

#[track_caller]
fn the_commands_work(flags: &[&str], topic: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("my data");
    let demo = ["demo", "--keep", "--durability", "os", "--data"];
    let server = Server::spawn(quire().args(demo).arg(&data).args(flags));
    let program = env!("CARGO_BIN_EXE_quire");
    let commands: Vec<&str> = server.report.lines().map(str::trim).filter(|line| line.starts_with(program)).collect();
    assert_eq!(commands.len(), 4, "one for each model: {}", server.report);
    for command in commands {
        let output = Command::new("sh").args(["-c", command]).output().expect("there is a shell");
        assert!(output.status.success() && !output.stdout.is_empty(), "{command}: {output:?}");
    }
    let curl = server.report.lines().find(|line| line.trim().starts_with("curl ")).expect("a curl");
    let url = curl.split('\'').nth(1).expect("a quoted address");
    let path = url.strip_prefix(&format!("http://{}", server.http)).expect("the server's address");
    let (status, answer) = server.ask("GET", path, "");
    assert_eq!(status, 200, "{answer}");
    assert!(!answer["data"].as_array().expect("events").is_empty());
    assert!(server.report.contains(&format!("kcat -C -e -b {} -t {topic}", server.kafka)), "{}", server.report);
    let (status, _) = server.stop_by("INT");
    assert_eq!(status, Some(0));

    run_on(&data, &["consume", topic, "--limit", "1"]).succeeded();
}

#[test]
fn invalid_rows_are_reported_and_the_others_are_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tables, data) = (folder.path().join("tables"), folder.path().join("data"));
    fs::create_dir(&tables).expect("a folder");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/flights");
    let week = fs::read_to_string(format!("{source}/flights-2013-01-01_07.csv")).expect("the table is there");
    let mut table: String = week.lines().take(11).map(|line| format!("{line}\n")).collect();
    (0..7).for_each(|_| table.push_str("2013,1,1,no,row\n"));
    fs::write(tables.join("flights-few.csv"), table).expect("a file");
    fs::copy(format!("{source}/airports.csv"), tables.join("airports.csv")).expect("a file");

    let tables = tables.to_str().expect("a path of plain letters");
    let arguments =
        ["demo", "--flights", tables, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let report = run_on(&data, &arguments).succeeded();
    assert_eq!(["rows", "departed", "unreadable"].map(|kind| number(&report, kind)), [17, 10, 7], "{report}");
    assert!(report.contains("\n    line 12: ") && report.contains("\n    line 16: "), "{report}");
    assert!(!report.contains("line 17: ") && report.contains("\n    and 2 more\n"), "{report}");
}

#[test]
fn a_stopped_demo_ends_with_status_130() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tables, data) = (folder.path().join("tables"), folder.path().join("data"));
    fs::create_dir(&tables).expect("a folder");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/flights");
    let table = fs::read_to_string(format!("{source}/flights-2013-01-01_07.csv")).expect("a table");
    let (head, rows) = table.split_once('\n').expect("a head and rows");
    // More than the demo feeds before the signal.
    fs::write(tables.join("flights-many.csv"), format!("{head}\n{}", rows.repeat(20))).expect("a file");
    fs::copy(format!("{source}/airports.csv"), tables.join("airports.csv")).expect("a file");
    let mut demo = quire();
    demo.args(["demo", "--keep", "--flights"]).arg(&tables).arg("--data").arg(&data);
    let (status, said) = Server::at_work(&mut demo).stop_by("INT");
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("stopped before the end"), "{said}");
}

#[test]
fn a_directory_without_tables_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path of plain letters");
    run(&["demo", "--flights", path]).failed_with("holds 0 files called flights*.csv");
}

#[test]
fn a_closed_output_does_not_crash_the_demo() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut demo = std::process::Command::new(env!("CARGO_BIN_EXE_quire"))
        .args([
            "demo",
            "--kafka",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
            "--durability",
            "os",
        ])
        .arg("--data")
        .arg(&data)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    drop((demo.stdout.take(), demo.stderr.take()));
    assert_eq!(demo.wait().expect("ended").code(), Some(0));
}
