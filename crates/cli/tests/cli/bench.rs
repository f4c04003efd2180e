//! The benchmarks: their names are stable, and every result has the form that programs read.

use serde_json::Value;

use crate::support::run;

#[test]
fn the_cases_are_listed_by_their_stable_names() {
    let list = run(&["bench", "--list"]).succeeded();
    let mut names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    names.sort_unstable();
    names.dedup();
    let expected = [
        "append-batch-10",
        "append-batch-100",
        "append-batch-1000",
        "append-batch-10000",
        "append-single",
        "read-back",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_result_is_one_object_a_line_and_the_scratch_folder_is_gone_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a path of plain letters");
    let cases = ["--case", "append-single", "--case", "read-back", "--ops", "20", "--data", data, "--json"];
    let printed = run(&[&["bench", "log"][..], &cases].concat()).succeeded();
    let results: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let keys: Vec<Vec<&String>> =
        results.iter().map(|result| result.as_object().expect("an object").keys().collect()).collect();
    let mut expected = [
        "suite",
        "case",
        "payload_bytes",
        "threads",
        "processes",
        "durability",
        "entries_per_op",
        "ops",
        "ops_per_s",
        "ns_per_entry",
        "mean_ns",
        "p50_ns",
        "p95_ns",
        "p99_ns",
        "p999_ns",
        "max_ns",
    ];
    expected.sort_unstable();
    assert!(keys.iter().all(|keys| keys[..] == expected), "{printed}");
    let named: Vec<_> = results.iter().map(|result| (&result["case"], &result["durability"], &result["ops"])).collect();
    let single = Value::from("append-single");
    let (read_back, os, sync, ops) =
        (Value::from("read-back"), Value::from("os"), Value::from("sync"), Value::from(20));
    assert_eq!(named, [(&single, &os, &ops), (&read_back, &os, &ops), (&single, &sync, &ops)]);
    assert!(results.iter().all(|result| result["p50_ns"].as_u64() <= result["max_ns"].as_u64()), "{printed}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn a_signal_ends_a_run_with_status_130_and_its_folder_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "\"$0\" bench log --ops 100000000 --data \"$1\" & child=$!
        until ls \"$1\" | grep -q quire-bench; do :; done
        kill -s TERM $child; wait $child";
    let mut shell = std::process::Command::new("sh");
    let ended = shell.args(["-c", script, env!("CARGO_BIN_EXE_quire")]).arg(folder.path()).output().expect("a shell");
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn the_table_has_a_line_a_case() {
    let printed = run(&["bench", "log", "--case", "append-batch-10", "--durability", "os", "--ops", "10"]).succeeded();
    let cases = printed.lines().filter(|line| line.starts_with("append-batch-10"));
    assert_eq!(cases.count(), 4, "a name selects all that begin with it: {printed}");
    run(&["bench", "log", "--case", "nothing"]).failed_with("quire bench --list");
}
