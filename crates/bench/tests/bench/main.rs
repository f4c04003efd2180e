//! The benchmarks: their names are stable, and every result has the documented form.

mod support;

use serde_json::Value;

use support::{LoadedServer, run};

#[test]
fn the_cases_are_listed_by_their_stable_names() {
    let list = run(&["--list"]).succeeded();
    let mut names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    names.sort_unstable();
    names.dedup();
    let stable = [
        "append-10m",
        "append-840",
        "append-840-batch-10000",
        "append-batch-10",
        "append-batch-100",
        "append-batch-1000",
        "append-batch-10000",
        "append-single",
        "append-threads-128",
        "append-threads-2",
        "append-threads-4",
        "append-threads-8",
        "append-tickets-1000",
        "cold-start",
        "consume",
        "end-to-end",
        "fetch-ack",
        "group-ack",
        "grpc-enqueue",
        "handoff",
        "lateness",
        "life-64",
        "partitions-10000",
        "pending",
        "process",
        "produce-1",
        "produce-1-idle-1000",
        "produce-128",
        "produce-ahead",
        "random-read-1m",
        "read-back",
        "skewed",
        "stream-life-64",
        "stream-paced-64",
        "stream-pick-up",
        "tail-read",
    ];
    let missing: Vec<_> = stable.into_iter().filter(|name| !names.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {names:?}");
}

#[test]
fn costs_that_grow_are_measured_at_ten_thousand_a_million_and_ten_million() {
    let list = run(&["--list"]).succeeded();
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    let log = ["append", "random-read"];
    let events = ["read-tag-1", "read-tag-50"];
    let graph = ["block-put", "block-read", "edge-put", "edge-lookup", "hop"];
    for operation in log.iter().chain(&events).chain(&graph) {
        for size in ["10k", "1m", "10m"] {
            let name = format!("{operation}-{size}");
            assert!(names.contains(&name.as_str()), "{name} is none of {names:?}");
        }
    }
}

#[test]
fn the_cases_of_jobs_run_to_their_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a path of plain letters");
    let cases = ["life", "life-", "fetch-ack", "skewed", "lateness", "pending", "grpc", "http", "stream"];
    let selected: Vec<&str> = cases.iter().flat_map(|case| ["--case", case]).collect();
    let arguments = ["jobs", "--ops", "16", "--data", data, "--durability", "os", "--json"];
    let printed = run(&[&arguments[..], &selected].concat()).succeeded();
    let results = printed.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect(line));
    let found: Vec<_> = results.map(|result| result["case"].as_str().map(str::to_owned)).collect();
    let expected = [
        "life",
        "life-64",
        "skewed",
        "lateness",
        "pending",
        "grpc-enqueue",
        "grpc-enqueue-1000",
        "stream-life-64",
        "stream-paced-64",
        "http-pick-up",
        "stream-pick-up",
    ];
    assert_eq!(found, expected.map(|case| Some(case.to_owned())));
}

#[test]
fn every_case_of_the_log_runs_to_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a path of plain letters");
    let cases = [
        "append-10k",
        "append-840-batch-",
        "tail-read",
        "random-read-threads-2",
        "walk-present",
        "group-ack",
        "seen-",
        "append-840-threads-4",
        "append-840-processes-2",
        "append-processes-4-batch-100",
        "append-tickets-1000",
    ];
    let selected: Vec<&str> = cases.iter().flat_map(|case| ["--case", case]).collect();
    let arguments = [&["log", "--ops", "5", "--data", data, "--json"][..], &selected].concat();
    let printed = run(&arguments).succeeded();
    let results = printed.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect(line));
    let found: Vec<_> = results.map(|result| (result["case"].clone(), result["ops"].clone())).collect();
    let of = |case: &str, ops: u64| (Value::from(case), Value::from(ops));
    let expected = [
        of("append-10k", 5),
        of("append-840-batch-10", 5),
        of("append-840-batch-100", 5),
        of("append-840-batch-1000", 5),
        of("append-840-batch-10000", 5),
        of("tail-read", 5),
        // Two runs use the first directory, four use the second.
        of("random-read-threads-2", 6),
        of("walk-present-100", 5),
        of("group-ack", 5),
        of("seen-spinning", 5),
        of("seen-sleeping", 5),
        of("append-840-batch-100", 5),
        of("append-840-batch-10000", 5),
        of("append-840-threads-4", 8),
        of("append-840-processes-2", 6),
        of("append-processes-4-batch-100", 8),
        of("append-840-threads-4", 8),
        of("append-840-processes-2", 6),
        of("append-processes-4-batch-100", 8),
        of("append-tickets-1000", 5),
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_message_reaches_the_handler_of_a_consumer() {
    let cases = ["--case", "process-10k", "--case", "handoff", "--ops", "20", "--json"];
    let printed = run(&[&["streams"][..], &cases].concat()).succeeded();
    let results = printed.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect(line));
    let found: Vec<_> = results.map(|result| (result["case"].clone(), result["ops"].clone())).collect();
    assert_eq!(found, ["process-10k", "handoff"].map(|case| (Value::from(case), Value::from(20))));
}

#[test]
fn brokers_are_started_for_the_kafka_cases_and_stopped_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a path of plain letters");
    let cases = ["produce-128", "produce-ahead", "consume", "produce-1-10k", "fetch-10k", "end-to-end", "cold-start"];
    let selected: Vec<&str> = cases.iter().flat_map(|case| ["--case", case]).collect();
    let arguments = [&["kafka", "--ops", "3", "--data", data, "--json"][..], &selected].concat();
    let printed = run(&arguments).succeeded();
    let results = printed.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect(line));
    let found: Vec<_> = results.map(|result| (result["case"].clone(), result["ops"].clone())).collect();
    let of = |case: &str| (Value::from(case), Value::from(3));
    let expected = [
        "produce-128",
        "produce-128",
        "produce-ahead",
        "produce-ahead",
        "consume",
        "produce-1-10k",
        "fetch-10k",
        "end-to-end",
        "cold-start",
    ];
    assert_eq!(found, expected.map(of));
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn a_running_broker_is_loaded_at_its_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = LoadedServer::start(&folder.path().join("data"));
    let arguments = ["kafka", "--bootstrap", &server.kafka, "--case", "produce-128", "--ops", "3", "--json"];
    let unsaid = run(&arguments);
    assert!(unsaid.status == Some(2) && unsaid.stderr.contains("--durability"), "{unsaid:?}");
    let printed = run(&[&arguments[..], &["--durability", "sync"]].concat()).succeeded();
    let result: Value = serde_json::from_str(printed.lines().nth(1).expect("a result")).expect("JSON");
    assert_eq!((&result["ops"], &result["also"]), (&Value::from(3), &Value::Null), "its memory is not ours to know");
    let topics = server.get("/v1/topics");
    assert_eq!(topics["data"].as_array().map(Vec::len), Some(1), "{topics}");
}

#[test]
fn the_page_has_every_case() {
    let page = include_str!("../../../../docs/benchmarks.md");
    let measured: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    for case in run(&["--list"]).succeeded().lines() {
        let [_, name, durability] = case.split_whitespace().take(3).collect::<Vec<_>>()[..] else { panic!("{case}") };
        let row = format!("| {name} | {durability} |");
        let is_there =
            measured.iter().any(|line| line.starts_with(&row)) || page.contains(&format!("Not measured: {name}"));
        assert!(is_there, "{name} {durability} is not on the page: measure it again");
    }
}

#[test]
fn a_result_is_one_object_per_line_and_the_scratch_directory_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a path of plain letters");
    let cases = ["--case", "append-single", "--case", "read-back", "--ops", "20", "--data", data, "--json"];
    let printed = run(&[&["log"][..], &cases].concat()).succeeded();
    let mut lines = printed.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let heading = lines.next().expect("a heading");
    for name in ["cpu", "cores", "memory_bytes", "system", "file_system", "version", "commit", "build"] {
        assert!(!heading[name].is_null(), "{name} in {heading}");
    }
    let results: Vec<Value> = lines.collect();
    let keys: Vec<Vec<&String>> =
        results.iter().map(|result| result.as_object().expect("an object").keys().collect()).collect();
    let mut expected = [
        "suite",
        "case",
        "durability",
        "payload_bytes",
        "threads",
        "processes",
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
        "bound_ns",
        "also",
    ];
    expected.sort_unstable();
    assert!(keys.iter().all(|keys| keys[..] == expected), "{printed}");
    let named: Vec<_> = results.iter().map(|result| (&result["case"], &result["durability"], &result["ops"])).collect();
    let single = Value::from("append-single");
    let (read_back, os, sync, ops) =
        (Value::from("read-back"), Value::from("os"), Value::from("sync"), Value::from(20));
    assert_eq!(named, [(&single, &os, &ops), (&read_back, &os, &ops), (&single, &sync, &ops)]);
    let undisturbed = results.iter().map(|result| result["also"]["undisturbed_percent"].as_f64());
    assert!(undisturbed.map(Option::unwrap_or_default).all(|percent| (0.0..=100.0).contains(&percent)), "{printed}");
    assert!(results.iter().all(|result| result["p50_ns"].as_u64() <= result["max_ns"].as_u64()), "{printed}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn the_operations_of_a_case_are_shared_by_its_clients() {
    let arguments = ["all", "--case", "append-threads-8", "--durability", "os", "--ops", "64", "--json"];
    let printed = run(&arguments).succeeded();
    let result: Value = serde_json::from_str(printed.lines().nth(1).expect("a result")).expect("JSON");
    let numbers =
        [&result["threads"], &result["processes"], &result["entries_per_op"], &result["ops"]].map(Value::as_u64);
    assert_eq!(numbers, [Some(8), Some(1), Some(1), Some(64)]);
    assert!(result["also"]["commits_per_sync"].as_f64() > Some(0.0), "{printed}");
}

#[test]
fn a_signal_ends_a_run_with_status_130_and_removes_its_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "\"$0\" log --ops 100000000 --data \"$1\" & child=$!
        until ls \"$1\" | grep -q quire-bench; do :; done
        kill -s TERM $child; wait $child";
    let mut shell = std::process::Command::new("sh");
    let ended =
        shell.args(["-c", script, env!("CARGO_BIN_EXE_quire-bench")]).arg(folder.path()).output().expect("a shell");
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn the_table_has_a_line_per_case() {
    let printed = run(&["log", "--case", "append-batch-1", "--durability", "os", "--ops", "10"]).succeeded();
    let cases = printed.lines().filter(|line| line.starts_with("append-batch-10"));
    assert_eq!(cases.count(), 4, "what is no name selects all whose names begin so: {printed}");
    let printed = run(&["log", "--case", "append-batch-10", "--durability", "os", "--ops", "10"]).succeeded();
    assert_eq!(
        printed.lines().filter(|line| line.starts_with("append-")).count(),
        1,
        "a name selects its case: {printed}"
    );
    run(&["log", "--case", "nothing"]).failed_with("quire-bench --list");
    run(&["log", "--case", "read-back", "--case", "nothing"]).failed_with("unknown case nothing");
}

#[test]
fn reports_are_compared_next_to_what_the_machine_could_do_and_made_into_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a path of plain letters");
    let cases = ["--case", "append-single", "--ops", "20", "--durability", "os", "--data", data, "--json"];
    let printed = run(&[&["log"][..], &cases].concat()).succeeded();
    let report = |name: &str, change: &dyn Fn(&mut Value, &mut Value)| {
        let mut lines = printed.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
        let (mut heading, mut result) = (lines.next().expect("a heading"), lines.next().expect("a result"));
        heading["calibration"]["work_ns"] = 1_000_000.into();
        result["bound_ns"] = 1_000_000.into();
        result["p50_ns"] = 1_000.into();
        result["mean_ns"] = 1_000.into();
        assert!(result["also"]["others_percent"].as_f64().is_some_and(|percent| (0.0..=100.0).contains(&percent)));
        result["also"]["others_percent"] = 3.into();
        change(&mut heading, &mut result);
        let path = folder.path().join(name);
        std::fs::write(&path, format!("{heading}\n{result}\n")).expect("written");
        path.to_str().expect("a path of plain letters").to_owned()
    };
    let before = report("before", &|_, _| ());
    let slow = report("slow", &|_, result| result["p50_ns"] = 1_600.into());
    let stuck = report("stuck", &|_, result| result["mean_ns"] = 3_100.into());
    let slow_day = report("slow-day", &|_, result| {
        result["bound_ns"] = 2_000_000.into();
        result["p50_ns"] = 2_400.into();
    });
    let other = report("other", &|_, result| result["case"] = "append-nothing".into());
    let busier = report("busier", &|_, result| result["threads"] = 2.into());
    let earlier = report("earlier", &|_, result| result["bound_ns"] = 0.into());
    let debug = report("debug", &|heading, _| heading["build"] = "of another kind".into());
    let compare = |after: &str, more: &[&str]| run(&[&["compare", &before, after], more].concat());
    compare(&slow, &[]).failed_with("more than 1.5 times as slow as before: log append-single os");
    assert!(compare(&slow, &["--at-most", "1.7"]).succeeded().contains("1.60"));
    compare(&stuck, &[]).failed_with("more than 1.5 times as slow as before: log append-single os");
    compare(&stuck, &["--at-most", "1.6"]).succeeded();
    let table = compare(&slow_day, &[]).succeeded();
    assert!(table.contains("2.40") && table.contains("1.20"), "{table}");
    for report in [&other, &busier] {
        compare(report, &[]).failed_with("no case in common");
    }
    compare(&earlier, &[]).failed_with("lacks its machine time");
    let unmeant = report("unmeant", &|_, result| result["mean_ns"] = 0.into());
    compare(&unmeant, &[]).failed_with("median or mean");
    let another = report("another", &|_, result| {
        result["bound_ns"] = 200_000_000.into();
        result["p50_ns"] = 200_000.into();
        result["mean_ns"] = 200_000.into();
    });
    compare(&another, &[]).failed_with("200.000 times as long as before");
    let beside_others = |result: &mut Value| result["also"]["others_percent"] = 60.into();
    let busy = report("busy", &|_, result| beside_others(result));
    assert!(!compare(&busy, &[]).succeeded().contains("not judged"), "what is not slower is judged");
    run(&["compare", &busy, &before])
        .failed_with("other programs used 60 % of the processors during log append-single os");
    let busy_and_slow = report("busy-and-slow", &|_, result| {
        beside_others(result);
        result["p50_ns"] = 9_000.into();
    });
    let told = compare(&busy_and_slow, &[]).succeeded();
    assert!(told.contains("measure again: log append-single os (60 %)"), "{told}");
    compare(&debug, &[]).failed_with("can't be compared with profile");
    compare(data, &[]).failed_with("can't read");
    for times in ["nan", "inf", "0", "-1", "x"] {
        let refused = compare(&slow, &[&format!("--at-most={times}")]);
        assert!(refused.status == Some(2) && refused.stderr.contains("a number above 0"), "{refused:?}");
    }
    // Two runs in one file are a report. Without one of them a case is missing, and a duplicate run
    // is an error.
    let text = |path: &str| std::fs::read_to_string(path).expect("read");
    let both = folder.path().join("both");
    std::fs::write(&both, text(&before) + &text(&other)).expect("written");
    let both = both.to_str().expect("a path of plain letters");
    run(&["compare", both, &slow, "--at-most", "2"]).failed_with("append-nothing");
    run(&["compare", both, both]).succeeded();
    let told = compare(both, &[]).succeeded();
    assert!(told.contains("not compared") && told.contains("append-nothing"), "{told}");
    let twice = folder.path().join("twice");
    std::fs::write(&twice, text(&before) + &text(&slow)).expect("written");
    compare(twice.to_str().expect("a path of plain letters"), &[])
        .failed_with("a second result of log append-single os");
    let page = run(&["page", &before]).succeeded();
    assert!(
        page.contains("| append-single | os | 116 B | 1 | 1 | 20 |")
            && page.contains("10,000 small records | 1.0 ms |"),
        "{page}"
    );
}

#[test]
fn wrong_arguments_are_a_usage_error() {
    for (arguments, message) in [(&[][..], "SUITE"), (&["log", "--ops", "0"], "--ops")] {
        let ran = run(arguments);
        assert_eq!(ran.status, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(message), "{arguments:?}: {ran:?}");
    }
}
