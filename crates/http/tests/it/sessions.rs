//! Sessions of browsers: a cookie in place of an API key, for pages of this server only.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use quire::system::{AccessRule, KeyText, RulePattern};
use quire::{Clock, Database, ManualClock, NewApiKey, Operation, ResourceKind, Timestamp};
use quire_access::{BROWSER_SESSION, BROWSER_SESSION_IDLE, BrowserSessions, Credential, ServedDatabase, Session};

use crate::served::{Answer, Served};

/// What a browser says of a request that a page of this server sends.
pub(crate) const OWN: &str = "Sec-Fetch-Site: same-origin\r\n";

fn database(server: &Served) -> &Database {
    server.database.as_ref().expect("it is open")
}

/// A server with access control, and a key of a user that may describe every queue.
fn served() -> (Served, KeyText) {
    let server = Served::new();
    let access = database(&server).access();
    access.init("root").expect("enabled");
    access.create_user("ann", &[]).expect("created");
    let rule = AccessRule::allow(Operation::All, ResourceKind::Queue, RulePattern::Any);
    access.add_rule(&"principal ann".parse().expect("a holder"), &rule).expect("added");
    let lifetime = Some(Duration::from_secs(3_600));
    let key = access.create_key("ann", NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
    (server, key)
}

/// Sends a request with these headers.
pub(crate) fn send(server: &Served, method: &str, path: &str, body: &str, headers: &str) -> Answer {
    let head = server.head(method, path, body.len(), &format!("Connection: close\r\n{headers}"));
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), text: text.to_owned() }
}

/// Signs in, and returns the header of the cookie.
fn sign_in(server: &Served, key: &str) -> String {
    let answer = send(server, "POST", "/ui/session", &format!(r#"{{"key":"{key}"}}"#), OWN);
    assert_eq!((answer.status, &*answer.text), (200, r#"{"principal":"ann"}"#), "{answer:?}");
    let cookie = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    let (pair, attributes) = cookie.split_once("; ").expect("attributes");
    assert_eq!(attributes, "Max-Age=43200; Path=/; Secure; HttpOnly; SameSite=Strict");
    let token = pair.strip_prefix("__Host-quire-session=").expect("the name");
    assert!(token.len() == 64 && !answer.text.contains(token), "{answer:?}");
    assert!(answer.head.contains("cache-control: no-store"), "{answer:?}");
    format!("Cookie: other=1; {pair}\r\n")
}

fn status(server: &Served, headers: &str) -> u16 {
    send(server, "GET", "/v1/queues", "", headers).status
}

#[test]
fn a_cookie_has_the_rights_of_its_key_until_the_browser_signs_out() {
    let (server, key) = served();
    let wrong = send(&server, "POST", "/ui/session", r#"{"key":"qk_wrong"}"#, OWN);
    assert!(wrong.status == 401 && !wrong.head.contains("set-cookie"), "{wrong:?}");
    let cookie = sign_in(&server, key.reveal());
    let own = format!("{OWN}{cookie}");
    let who = |headers: &str| send(&server, "GET", "/ui/session", "", headers).text;
    assert_eq!((who(&own), who(OWN)), (r#"{"principal":"ann"}"#.to_owned(), r#"{"principal":null}"#.to_owned()));
    assert_eq!(status(&server, &own), 200);
    assert_eq!(send(&server, "POST", "/v1/queues/q/jobs", "{}", &own).status, 200);
    assert_eq!(send(&server, "GET", "/v1/access/users", "", &own).status, 403, "the rights of the key");

    let other = sign_in(&server, key.reveal());
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.write_all(server.head("GET", "/v1/jobs/subscribe", 0, &own).as_bytes()).expect("sent");
    let mut seen = Vec::new();
    while !seen.ends_with(b"\n\n") || !String::from_utf8_lossy(&seen).contains("caught_up") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the stream goes on");
        seen.push(byte[0]);
    }
    let nobody = send(&server, "DELETE", "/ui/session", "", &cookie);
    assert_eq!((nobody.status, status(&server, &own)), (200, 200), "no page of this server sent it");
    let out = send(&server, "DELETE", "/ui/session", "", &own);
    assert!(out.head.contains("set-cookie: __Host-quire-session=; Max-Age=0; Path=/; Secure"), "{out:?}");
    assert_eq!((status(&server, &own), status(&server, &format!("{OWN}{other}"))), (401, 200), "each its own");
    // The connection stays open.
    while !seen.ends_with(b"\r\n0\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the stream of the session ends before its connection");
        seen.push(byte[0]);
    }
}

#[test]
fn a_cookie_counts_for_pages_of_this_server_only_and_a_header_wins() {
    let (server, key) = served();
    let cookie = sign_in(&server, key.reveal());
    let with = |headers: &str| status(&server, &format!("{headers}{cookie}"));
    assert_eq!(with(OWN), 200);
    let address = server.address;
    assert_eq!(with(&format!("Origin: http://{address}\r\n")), 200);
    // A browser without the headers, a typed address, and a program.
    assert_eq!((with(""), with("Sec-Fetch-Site: none\r\n")), (401, 401));
    for other in ["Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n", "Origin: http://evil.example\r\n"]
    {
        assert_eq!(with(other), 403, "{other}");
    }
    // A link on another page.
    assert_eq!(with("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"), 401);
    assert_eq!(with(&format!("{OWN}Authorization: Bearer qk_wrong\r\n")), 401);
    let forged = cookie.replace("session=", "session=0");
    assert_eq!(status(&server, &format!("{OWN}{forged}")), 401);
    let post = |headers: &str| send(&server, "POST", "/v1/queues/q/jobs", "{}", &format!("{headers}{cookie}")).status;
    assert_eq!((post(OWN), post(""), post("Sec-Fetch-Site: same-site\r\n")), (200, 401, 403));
}

#[test]
fn a_browser_session_ends_with_its_key_and_none_begins_without_access_control() {
    let (server, key) = served();
    let own = format!("{OWN}{}", sign_in(&server, key.reveal()));
    assert_eq!(status(&server, &own), 200);
    database(&server).access().drop_key(key.id()).expect("dropped");
    assert_eq!(status(&server, &own), 401);

    let open = Served::new();
    let refused = send(&open, "POST", "/ui/session", r#"{"key":"qk_wrong"}"#, OWN);
    assert!(refused.status == 409 && refused.text.contains("access_disabled"), "{refused:?}");
}

/// A database with access control, whose time stands still.
fn still() -> (tempfile::TempDir, Arc<ManualClock>, ServedDatabase) {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_000_000)));
    let database = Database::builder(directory.path()).clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let served = ServedDatabase::new(database.open().expect("a database"));
    served.owner().access().init("root").expect("enabled");
    (directory, clock, served)
}

fn key_of(served: &ServedDatabase, user: &str) -> KeyText {
    let access = served.owner().access();
    access.create_user(user, &["reader"]).expect("created");
    let lifetime = Some(BROWSER_SESSION * 3);
    access.create_key(user, NewApiKey { lifetime, ..NewApiKey::default() }).expect("created")
}

fn session_of(served: &ServedDatabase, key: KeyText) -> Session {
    served.session(&Credential::Key(key.reveal())).expect("the key is valid")
}

#[test]
fn a_browser_session_ends_idle_after_its_time_and_with_its_key() {
    let (_directory, clock, served) = still();
    let sessions = BrowserSessions::default();
    let now = || served.owner().now();
    let pass = |time: Duration| clock.set(now().plus_micros(time.as_secs() * 1_000_000));
    let ann = key_of(&served, "ann");
    let begin = || sessions.begin(session_of(&served, ann), now()).expect("random numbers");
    let is_live = |token: &str| sessions.find(token, now()).is_some();

    // Used every 29 minutes, it lasts 12 hours.
    let token = begin();
    let mut minutes = 0;
    while is_live(&token) {
        pass(Duration::from_secs(29 * 60));
        minutes += 29;
    }
    assert_eq!(minutes, 725, "the first look after 720 minutes");
    let token = begin();
    pass(BROWSER_SESSION_IDLE);
    assert!(!is_live(&token));

    let token = begin();
    served.owner().access().drop_key(ann.id()).expect("dropped");
    assert!(!is_live(&token));
}

#[test]
fn the_browser_sessions_of_a_principal_are_bounded_and_the_least_recently_used_ends() {
    let (_directory, clock, served) = still();
    let sessions = BrowserSessions::default();
    let tick = || {
        clock.set(served.owner().now().plus_micros(1_000));
        served.owner().now()
    };
    let (ann, bob) = (session_of(&served, key_of(&served, "ann")), session_of(&served, key_of(&served, "bob")));
    let first = sessions.begin(ann.clone(), tick()).expect("begun");
    let of_bob = sessions.begin(bob, tick()).expect("begun");
    let second = sessions.begin(ann.clone(), tick()).expect("begun");
    assert!(sessions.find(&first, tick()).is_some(), "it is used after the second");
    for _ in 2..=64 {
        sessions.begin(ann.clone(), tick()).expect("begun");
    }
    let is_live = |token: &str| sessions.find(token, tick()).is_some();
    assert!(is_live(&first) && !is_live(&second) && is_live(&of_bob));
}
