//! `quire access`: on a directory as its owner, and on a server as a client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Ran, Server, quire, ran, run, run_on};

/// Runs `quire access` on the database in a directory, and returns its output.
#[track_caller]
fn owner(data: &Path, arguments: &[&str]) -> String {
    run_on(data, &[&["access"], arguments].concat()).succeeded()
}

/// Runs a command on a server with the key in a file.
fn with_key(server: &Server, key: &Path, arguments: &[&str]) -> Ran {
    let mut command = quire();
    command.args(arguments).arg("--http").arg(&server.http).arg("--key-file").arg(key);
    ran(command.output().expect("the command can be started"))
}

/// A new database.
fn database() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    drop(Server::start(directory.path()));
    directory
}

#[test]
fn an_owner_administers_a_directory_and_each_key_is_shown_once() {
    let data = database();
    let data = data.path();
    assert_eq!(owner(data, &["whoami"]), "access control is disabled\n");
    let made: Value = serde_json::from_str(&owner(data, &["init", "ada", "--json"])).expect("JSON");
    assert!(made["key"].as_str().is_some_and(|key| key.starts_with("qk_")), "{made}");
    assert_eq!(owner(data, &["whoami"]), "access control is enabled\n");
    run_on(data, &["access", "init"]).failed_with("already enabled");

    assert_eq!(owner(data, &["user", "add", "billing", "--role", "reader"]), "created user billing\n");
    let key = owner(data, &["key", "new", "billing", "--days", "30", "--note", "nightly"]);
    let (head, text) = key.split_once('\n').expect("two lines");
    assert!(head.ends_with("of user billing, shown only once:") && text.starts_with("qk_"), "{key}");
    let id = &text["qk_".len()..][..10];
    let keys = owner(data, &["key", "list"]);
    assert!(keys.contains(id) && keys.contains("note nightly") && !keys.contains(text.trim()), "{keys}");
    assert_eq!(owner(data, &["key", "disable", id]), format!("disabled key {id}\n"));
    assert_eq!(owner(data, &["key", "revoke", id]), format!("revoked key {id}\n"));

    let check = |name: &str| owner(data, &["check", "billing", "write", "topic", name]);
    assert_eq!(check("invoices"), "denied: no rule allows it\n");
    let grant = ["grant", "user:billing", "write", "on", "topic", "prefix", "inv"];
    assert_eq!(owner(data, &grant), "added principal billing: allow write on topic prefix inv\n");
    assert!(owner(data, &grant).starts_with("exists already: "));
    assert_eq!(check("invoices"), "allowed: a rule allows it\n");
    owner(data, &["deny", "everyone", "write", "on", "topic", "invoices"]);
    assert_eq!(check("invoices"), "denied: a rule denies it\n");
    let rules = owner(data, &["rules"]);
    assert!(rules.contains("everyone: deny write on topic invoices\n"), "{rules}");
    let revoke = ["revoke", "everyone", "deny", "write", "on", "topic", "invoices"];
    assert_eq!(owner(data, &revoke), "removed everyone: deny write on topic invoices\n");

    assert_eq!(owner(data, &["role", "put", "clerk", "--rule", "allow read on topic orders"]), "put role clerk\n");
    assert!(owner(data, &["role", "list"]).contains("allow read on topic orders"));
    assert_eq!(owner(data, &["user", "change", "billing", "--role", "clerk", "--disable"]), "changed user billing\n");
    let users = owner(data, &["user", "list"]);
    assert!(users.lines().any(|user| user.starts_with("billing") && user.contains("disabled")), "{users}");
    run_on(data, &["access", "role", "remove", "clerk"]).failed_with("clerk");
    assert_eq!(owner(data, &["user", "remove", "billing"]), "removed user billing\n");
    assert_eq!(owner(data, &["role", "remove", "clerk"]), "removed role clerk\n");
    assert!(owner(data, &["disable"]).contains("access control is disabled"));
}

#[test]
fn a_key_is_saved_in_a_file_of_its_owner_that_commands_on_a_server_take() {
    let data = tempfile::tempdir().expect("a directory");
    let keys = tempfile::tempdir().expect("a directory");
    let server = Server::start(data.path());
    let (root, billing) = (keys.path().join("root.key"), keys.path().join("billing.key"));
    let path = |path: &Path| path.to_str().expect("text").to_owned();
    let init = ["access", "init", "root", "--save-key", &path(&root), "--http", &server.http];
    let shown = run(&init).succeeded();
    let text = fs::read_to_string(&root).expect("a key");
    assert!(text.starts_with("qk_") && text.ends_with('\n') && !shown.contains(text.trim()), "{shown}");
    assert_eq!(fs::metadata(&root).expect("a file").permissions().mode() & 0o777, 0o600);
    // A file that exists is not replaced, and nothing is created.
    run(&init).failed_with("File exists");

    let root = |arguments: &[&str]| with_key(&server, &root, arguments);
    assert_eq!(root(&["access", "whoami"]).succeeded(), "access control is enabled; you are root\n");
    root(&["access", "user", "add", "billing", "--role", "producer"]).succeeded();
    let new = ["access", "key", "new", "billing", "--days", "1", "--save-key", &path(&billing)];
    root(&new).succeeded();
    let users: Vec<Value> = root(&["access", "user", "list", "--json"])
        .succeeded()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(users[0]["roles"], serde_json::json!(["producer"]), "{users:?}");

    let billing = |arguments: &[&str]| with_key(&server, &billing, arguments);
    billing(&["topics", "create", "invoices"]).failed_with("create");
    root(&["topics", "create", "invoices"]).succeeded();
    billing(&["produce", "invoices", "17"]).succeeded();
    billing(&["access", "user", "list"]).failed_with("describe");
    billing(&["stat"]).failed_with("");
    root(&["stat"]).succeeded();
    run(&["topics", "list", "--http", &server.http]).failed_with("API key");
    // A failed request leaves no file.
    let unused = keys.path().join("unused.key");
    root(&["access", "key", "new", "nobody", "--days", "1", "--save-key", &path(&unused)]).failed_with("nobody");
    assert!(!unused.exists());
}

#[test]
fn a_password_is_read_from_a_file_or_standard_input() {
    let data = database();
    owner(data.path(), &["user", "add", "ann"]);
    let file = data.path().join("password");
    fs::write(&file, "correct horse\n").expect("written");
    let set = ["user", "password", "ann", "--password-file", file.to_str().expect("text")];
    assert_eq!(owner(data.path(), &set), "password of user ann set\n");
    assert!(owner(data.path(), &["user", "list"]).contains("password yes"));
    assert_eq!(owner(data.path(), &["user", "password", "ann", "--remove"]), "password of user ann removed\n");

    let mut command = quire();
    command.args(["access", "user", "password", "ann", "--data"]).arg(data.path());
    command.stdin(Stdio::from(fs::File::open(&file).expect("a file")));
    let set = ran(command.output().expect("the command can be started")).succeeded();
    assert_eq!(set, "password of user ann set\n");
    run_on(data.path(), &["access", "user", "password", "bob", "--password-file", file.to_str().expect("text")])
        .failed_with("bob");
}

#[test]
fn wrong_arguments_of_access_are_usage_errors() {
    for (arguments, message) in [
        (&["grant", "billing", "read", "on", "topic", "t", "--data", "x"][..], "user:NAME"),
        (&["key", "revoke", "short", "--data", "x"], "10 characters"),
        (&["key", "new", "ann", "--rule", "read all", "--data", "x"], "expected allow or deny"),
        (&["check", "ann", "eat", "topic", "t", "--data", "x"], "expected one of"),
        (&["user", "change", "ann", "--data", "x"], "required"),
    ] {
        let ran = run(&[&["access"], arguments].concat());
        assert_eq!(ran.status, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(message), "{arguments:?}: {ran:?}");
    }
    let help = run(&["access", "--help"]).succeeded();
    assert!(help.contains("quire access init root --save-key root.key"), "{help}");
}
