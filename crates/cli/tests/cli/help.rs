//! Help and usage errors. A usage error has status 2 and names a valid form.

use crate::support::run;

#[test]
fn help_names_every_group_of_commands_and_examples() {
    let help = run(&["--help"]).succeeded();
    for word in ["Run:", "Use a database", "Examples:", "quire demo --keep"] {
        assert!(help.contains(word), "{word} in\n{help}");
    }
    assert!(run(&["demo", "--help"]).succeeded().contains("--durability"));
    assert!(run(&["--version"]).succeeded().starts_with("quire "));
}

#[test]
fn short_help_leaves_the_storage_flags_to_the_long_help() {
    const OPENING: &[&str] = &["--read-only", "--graph-memory", "--profile", "--durability"];
    const STORAGE: &[&str] = &["--pack-segments", "--compress-bytes-min", "--log-bytes-max", "--segment-bytes"];
    for (command, flags) in [
        (&["events", "read"][..], OPENING),
        (&["jobs", "list"], OPENING),
        (&["topics", "describe"], OPENING),
        (&["verify"], &["--graph-memory"]),
        (&["serve"], STORAGE),
    ] {
        let short = run(&[command, &["-h"]].concat()).succeeded();
        let long = run(&[command, &["--help"]].concat()).succeeded();
        assert!(short.contains("--data"), "{short}");
        for flag in flags {
            assert!(!short.contains(flag) && long.contains(flag), "{flag} of {command:?}: {short}");
        }
    }
}

#[test]
fn wrong_arguments_are_a_usage_error() {
    for (arguments, message) in [
        (&["srve"][..], "serve"),
        (&["serve"], "--data"),
        (&["serve", "--data", "x", "--durability", "maybe"], "[possible values: os, sync]"),
        (&["serve", "--data", "x", "--http", "nowhere"], "invalid socket address"),
        (&["events", "read", "s"], "--data"),
        (&["events", "read", "s", "--data", "x", "--http", "127.0.0.1:1"], "cannot be used with"),
        (&["consume", "t", "--offset", "1", "--data", "x"], "--partition"),
        (&["jobs", "list", "q", "--state", "odd", "--data", "x"], "retrying"),
        (&["jobs", "list", "q", "--http", "http://127.0.0.1"], "the port is missing"),
        (&["stat", "x", "--data", "y"], "cannot be used with"),
        (&["verify"], "--data"),
        (&["backup", "to"], "--data"),
    ] {
        let ran = run(arguments);
        assert_eq!(ran.status, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(message), "{arguments:?}: {ran:?}");
    }
}
