//! The Kafka flags of `quire serve` reach its server, as the server reports.

use std::collections::BTreeMap;

use crate::support::{Server, quire, run_on};

/// Reads `count` bytes.
fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (taken, behind) = rest.split_at(bytes);
    *rest = behind;
    taken
}

fn number(rest: &mut &[u8], bytes: usize) -> i64 {
    let bytes = take(rest, bytes);
    let negative = bytes[0] & 0x80 != 0;
    bytes.iter().fold(if negative { -1 } else { 0 }, |number, byte| number << 8 | i64::from(*byte))
}

fn text(rest: &mut &[u8]) -> String {
    let bytes = usize::try_from(number(rest, 2)).unwrap_or(0);
    String::from_utf8(take(rest, bytes).to_vec()).expect("text")
}

/// The broker's settings, by DescribeConfigs in version 1.
fn settings(server: &Server) -> BTreeMap<String, String> {
    // DescribeConfigs, version 1, number 1, no name; one resource, broker 0, all settings, no
    // synonyms.
    let request = b"\0\x20\0\x01\0\0\0\x01\0\0\0\0\0\x01\x04\0\x010\xff\xff\xff\xff\0";
    let answer = server.ask_kafka(request);
    // The request's number, a time, one result, without error and message, of broker 0.
    let mut rest = &answer[4 + 4 + 4..];
    assert_eq!((number(&mut rest, 2), text(&mut rest), number(&mut rest, 1)), (0, String::new(), 4));
    assert_eq!(text(&mut rest), "0");
    let count = number(&mut rest, 4);
    let setting = |_| {
        let (name, value) = (text(&mut rest), text(&mut rest));
        // Read only, source, secret, no synonyms.
        take(&mut rest, 1 + 1 + 1 + 4);
        (name, value)
    };
    (0..count).map(setting).collect()
}

#[test]
fn each_setting_of_the_kafka_server_has_a_flag() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = [
        ("--kafka-auto-create-topics", "false", "auto.create.topics.enable"),
        ("--kafka-auto-create-partitions", "7", "num.partitions"),
        ("--kafka-connections-max", "11", "max.connections"),
        ("--kafka-idle-timeout-ms", "123456", "connections.max.idle.ms"),
        ("--kafka-frame-bytes-max", "1000001", "socket.request.max.bytes"),
        ("--kafka-fetch-bytes-max", "1000002", "fetch.max.bytes"),
        ("--memory", "16777217", "queued.max.request.bytes"),
        ("--kafka-session-timeout-ms-min", "5001", "group.min.session.timeout.ms"),
        ("--kafka-session-timeout-ms-max", "70001", "group.max.session.timeout.ms"),
        ("--kafka-group-initial-delay-ms", "31", "group.initial.rebalance.delay.ms"),
        ("--kafka-group-members-max", "17", "group.max.size"),
    ];
    let mut command = quire();
    command.args(["serve", "--durability", "os", "--data"]).arg(folder.path().join("told"));
    let told = settings(&Server::spawn(command.args(flags.iter().flat_map(|(flag, value, _)| [flag, value]))));
    let untold = settings(&Server::start(&folder.path().join("untold")));
    for (flag, value, name) in flags {
        assert_eq!(told.get(name).map(String::as_str), Some(value), "{flag}");
        assert_ne!(untold.get(name).map(String::as_str), Some(value), "{name} without {flag}");
    }
    // The addresses have the flag `--kafka`, and differ with the port.
    let addresses = ["listeners", "advertised.listeners"];
    assert!(addresses.iter().all(|name| told[*name].starts_with("PLAINTEXT://127.0.0.1:")), "{told:?}");
    assert_eq!(told.len(), flags.len() + addresses.len(), "a setting that the server shows has a flag: {told:?}");
}

#[test]
fn invalid_settings_are_reported_before_any_file_is_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let flags =
        ["--kafka-fetch-bytes-max", "1", "--kafka-session-timeout-ms-min", "9", "--kafka-session-timeout-ms-max", "8"];
    let ran = run_on(&data, &[&["serve"][..], &flags].concat());
    let expected = "fetch_bytes_max must be 1024 to 1073741824, got 1; session_timeout_ms_min must be 1 to 8, got 9";
    ran.failed_with(expected);
    assert!(!data.exists());
}
