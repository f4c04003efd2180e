//! The sign-in at an OpenID provider: right answers begin a session, and no wrong one does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use quire::system::{AccessRule, RulePattern};
use quire::{Clock, ManualClock, Operation, ResourceKind, Timestamp};
use quire_access::{LoginSettings, OidcSettings, TokenVerifier};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::served::{Answer, Served};
use crate::sessions::{OWN, send};

const NOW_S: u64 = 1_800_000_000;

/// A provider on this machine. It answers as the test says, and keeps the requests.
struct Issuer {
    address: SocketAddr,
    pair: KeyPair,
    directory: tempfile::TempDir,
    script: Arc<Mutex<IssuerScript>>,
}

/// What the provider answers, and the requests for tokens that it got.
struct IssuerScript {
    document: (u16, Value),
    token: (u16, Value),
    asked: Vec<String>,
}

impl Issuer {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let document = json!({
            "issuer": format!("http://{address}"),
            "authorization_endpoint": format!("http://{address}/authorize?tenant=1"),
            "token_endpoint": format!("http://{address}/token"),
        });
        let script = IssuerScript { document: (200, document), token: (400, Value::Null), asked: Vec::new() };
        let script = Arc::new(Mutex::new(script));
        let answers = Arc::clone(&script);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.expect("a connection"));
                let (mut head, mut length) = (String::new(), 0);
                while reader.read_line(&mut head).expect("a line") > 2 {
                    let field = head.lines().last().expect("a line").to_ascii_lowercase();
                    if let Some(value) = field.strip_prefix("content-length:") {
                        length = value.trim().parse().expect("a number");
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("a body");
                let mut script = answers.lock().expect("no panic");
                let (status, answer) = match head.lines().next().expect("a line") {
                    "GET /.well-known/openid-configuration HTTP/1.1" => script.document.clone(),
                    "POST /token HTTP/1.1" => {
                        script.asked.push(head + &String::from_utf8(body).expect("text"));
                        script.token.clone()
                    }
                    _ => (404, Value::Null),
                };
                let text = answer.to_string();
                let head = format!("HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {}\r\n", text.len());
                let answer = format!("{head}Location: http://{address}/else\r\n\r\n{text}");
                reader.into_inner().write_all(answer.as_bytes()).expect("sent");
            }
        });
        let pair = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let issuer = Issuer { address, pair, directory: tempfile::tempdir().expect("a directory"), script };
        let x = URL_SAFE_NO_PAD.encode(issuer.pair.der_bytes());
        let keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": x}]});
        std::fs::write(issuer.directory.path().join("keys"), keys.to_string()).expect("written");
        std::fs::write(issuer.directory.path().join("secret"), "p%ss:word\n").expect("written");
        issuer
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn settings(&self) -> OidcSettings {
        OidcSettings {
            issuer: self.url(),
            audience: "api".to_owned(),
            keys: self.directory.path().join("keys"),
            principal_claim: "sub".to_owned(),
            roles_claim: Some("groups".to_owned()),
            roles: vec!["dev => reader".parse().expect("valid")],
            login: Some(LoginSettings {
                client_id: "dash board".to_owned(),
                client_secret: Some(self.directory.path().join("secret")),
                public_url: "https://quire.example".to_owned(),
                scopes: vec!["groups".to_owned()],
            }),
        }
    }

    fn script(&self) -> std::sync::MutexGuard<'_, IssuerScript> {
        self.script.lock().expect("no panic")
    }

    /// The claims of a right ID token for a sign-in.
    fn claims(&self, login: &BegunLogin) -> Value {
        json!({
            "iss": self.url(), "aud": "dash board", "sub": "anna", "exp": NOW_S + 60, "iat": NOW_S, "nonce": login.nonce,
        })
    }

    fn sign(&self, pair: &KeyPair, claims: &Value) -> String {
        let [header, claims] =
            [r#"{"alg":"EdDSA","kid":"one"}"#, &claims.to_string()].map(|part| URL_SAFE_NO_PAD.encode(part));
        let signed = format!("{header}.{claims}");
        let signature = pair.sign(signed.as_bytes()).expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The provider answers every code with a token of these claims.
    fn grant(&self, claims: &Value) {
        let token = self.sign(&self.pair, claims);
        self.script().token = (200, json!({"token_type": "Bearer", "access_token": "a", "id_token": token}));
    }
}

/// A server whose dashboard signs in at this provider, and its time. `anna` may describe queues.
fn served(settings: OidcSettings) -> (Served, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(NOW_S * 1_000)));
    let tokens = TokenVerifier::load(settings).expect("valid");
    let time = Arc::clone(&clock) as Arc<dyn Clock>;
    let server = Served::configured(|builder| builder.clock(time), |server| server.with_tokens(tokens));
    let access = server.database.as_ref().expect("open").access();
    access.init("root").expect("enabled");
    let rule = AccessRule::allow(Operation::All, ResourceKind::Queue, RulePattern::Any);
    access.add_rule(&"principal anna".parse().expect("a holder"), &rule).expect("added");
    (server, clock)
}

/// A sign-in that has begun, with the parameters of the request to the provider.
struct BegunLogin {
    location: String,
    cookie: String,
    state: String,
    nonce: String,
    challenge: String,
}

fn location(answer: &Answer) -> &str {
    assert_eq!(answer.status, 303, "{answer:?}");
    assert!(answer.head.contains("cache-control: no-store"), "{answer:?}");
    assert!(answer.head.contains("referrer-policy: no-referrer"), "{answer:?}");
    answer.head.lines().find_map(|line| line.strip_prefix("location: ")).expect("a location")
}

fn begin(server: &Served) -> BegunLogin {
    let answer = send(server, "GET", "/ui/login", "", OWN);
    let location = location(&answer).to_owned();
    let cookie = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    let (cookie, attributes) = cookie.split_once("; ").expect("attributes");
    assert_eq!(attributes, "Max-Age=600; Path=/; Secure; HttpOnly; SameSite=Lax");
    assert!(cookie.starts_with("__Host-quire-login=") && cookie.len() == "__Host-quire-login=".len() + 43);
    let value = |name: &str| {
        let pair = location.split(['?', '&']).find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        pair.unwrap_or_else(|| panic!("no {name}: {location}")).to_owned()
    };
    let (state, nonce, challenge) = (value("state"), value("nonce"), value("code_challenge"));
    BegunLogin { state, nonce, challenge, cookie: cookie.to_owned(), location }
}

/// The browser comes back from the provider: the page of another site sends it here.
fn come_back(server: &Served, cookie: &str, query: &str) -> Answer {
    let headers = format!("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nCookie: a=1; {cookie}\r\n");
    send(server, "GET", &format!("/ui/login/callback?{query}"), "", &headers)
}

/// The cookie of the session in an answer.
fn session_in(answer: &Answer) -> Option<String> {
    let mut cookies = answer.head.lines().filter_map(|line| line.strip_prefix("set-cookie: "));
    cookies.find(|cookie| cookie.starts_with("__Host-quire-session=")).map(str::to_owned)
}

#[track_caller]
fn fails(answer: &Answer, page: &str) {
    assert_eq!((location(answer), session_in(answer)), (page, None), "{answer:?}");
    assert!(answer.text.is_empty(), "{answer:?}");
}

#[test]
fn a_person_signs_in_at_the_provider_and_has_a_session_of_the_server() {
    let issuer = Issuer::new();
    let (server, clock) = served(issuer.settings());
    let host = issuer.address.ip();
    let who = |headers: &str| send(&server, "GET", "/ui/session", "", headers).text;
    assert_eq!(who(OWN), format!(r#"{{"principal":null,"provider":"{host}"}}"#));

    let login = begin(&server);
    let expected = format!(
        "{}/authorize?tenant=1&response_type=code&client_id=dash%20board\
         &redirect_uri=https%3A%2F%2Fquire.example%2Fui%2Flogin%2Fcallback&scope=openid%20groups\
         &state={}&nonce={}&code_challenge={}&code_challenge_method=S256",
        issuer.url(),
        login.state,
        login.nonce,
        login.challenge
    );
    assert_eq!(login.location, expected);
    issuer.grant(&issuer.claims(&login));
    let query = format!("session_state=1&code=c%2F1&state={}", login.state);
    let answer = come_back(&server, &login.cookie, &query);
    assert_eq!(location(&answer), "/ui");
    assert!(answer.head.contains("set-cookie: __Host-quire-login=; Max-Age=0; Path=/; Secure"), "{answer:?}");
    let cookie = session_in(&answer).expect("a session");
    let (pair, attributes) = cookie.split_once("; ").expect("attributes");
    assert_eq!(attributes, "Max-Age=43200; Path=/; Secure; HttpOnly; SameSite=Strict");

    // The code and the proof that this server began the sign-in.
    let asked = issuer.script().asked.join("\n");
    let basic = STANDARD.encode("dash%20board:p%25ss%3Aword");
    assert!(asked.to_ascii_lowercase().contains(&format!("authorization: basic {basic}\r\n").to_ascii_lowercase()));
    let (_, form) = asked.split_once("\r\n\r\n").expect("a body");
    let verifier = form.strip_prefix(
        "grant_type=authorization_code&code=c%2F1\
         &redirect_uri=https%3A%2F%2Fquire.example%2Fui%2Flogin%2Fcallback&code_verifier=",
    );
    let verifier = verifier.unwrap_or_else(|| panic!("{form}"));
    assert_eq!(URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)), login.challenge);

    let own = format!("{OWN}Cookie: {pair}\r\n");
    assert_eq!(who(&own), format!(r#"{{"principal":"anna","provider":"{host}"}}"#));
    let status = |path: &str| send(&server, "GET", path, "", &own).status;
    assert_eq!((status("/v1/queues"), status("/v1/access/users")), (200, 403), "the rights of the principal");
    clock.set(Timestamp::from_millis((NOW_S + 20 * 60) * 1_000));
    assert_eq!(status("/v1/queues"), 200, "the session outlasts the ID token");
    fails(&come_back(&server, &login.cookie, &query), "/ui?login=refused");
    clock.set(Timestamp::from_millis((NOW_S + 60 * 60) * 1_000));
    assert_eq!(status("/v1/queues"), 401, "idle for too long");
}

#[test]
fn an_answer_that_is_not_of_the_sign_in_begins_no_session() {
    let issuer = Issuer::new();
    let (server, clock) = served(issuer.settings());
    let (login, other) = (begin(&server), begin(&server));
    let granted = |login: &BegunLogin| {
        issuer.grant(&issuer.claims(login));
        format!("code=c&state={}", login.state)
    };
    let refused = |cookie: &str, query: &str| fails(&come_back(&server, cookie, query), "/ui?login=refused");
    granted(&login);
    refused(&login.cookie, "code=c");
    refused(&login.cookie, "code=c&state=");
    refused(&login.cookie, &format!("code=c&state={}", other.state));
    refused(&other.cookie, &format!("code=c&state={}", login.state));
    refused("b=2", &format!("code=c&state={}", login.state));
    refused("__Host-quire-login=", &format!("code=c&state={}", login.state));
    assert!(issuer.script().asked.is_empty(), "the provider was asked");
    // An answer with the right state ends the sign-in, whatever it brings.
    for (query, reason) in [
        ("error=access_denied", "the person said no"),
        ("", "no code"),
        ("code=c&iss=https%3A%2F%2Fevil.example", "another issuer"),
    ] {
        let login = begin(&server);
        issuer.grant(&issuer.claims(&login));
        refused(&login.cookie, &format!("{query}&state={}", login.state));
        let again = granted(&login);
        refused(&login.cookie, &again);
        assert!(issuer.script().asked.is_empty(), "{reason}");
    }
    let query = granted(&login);
    assert!(session_in(&come_back(&server, &login.cookie, &format!("{query}&iss={}", issuer.url()))).is_some());
    refused(&login.cookie, &query);
    let query = granted(&other);
    clock.set(Timestamp::from_millis((NOW_S + 600) * 1_000));
    refused(&other.cookie, &query);
}

#[test]
fn a_wrong_token_of_the_provider_begins_no_session() {
    let issuer = Issuer::new();
    let (server, _clock) = served(issuer.settings());
    let finish = |login: &BegunLogin| come_back(&server, &login.cookie, &format!("code=c&state={}", login.state));
    for (name, value) in [
        ("nonce", json!("other")),
        ("nonce", json!("")),
        ("nonce", json!(7)),
        ("nonce", Value::Null),
        ("aud", json!("api")),
        ("aud", json!(["dash board", "api"])),
        ("azp", json!("api")),
        ("iss", json!("https://evil.example")),
        ("exp", json!(NOW_S)),
        ("exp", Value::Null),
        ("nbf", json!(NOW_S + 61)),
        ("sub", json!("")),
    ] {
        let login = begin(&server);
        let mut claims = issuer.claims(&login);
        claims[name] = value.clone();
        issuer.grant(&claims);
        fails(&finish(&login), "/ui?login=refused");
    }
    let login = begin(&server);
    let foreign = issuer.sign(&KeyPair::generate_for(&PKCS_ED25519).expect("a key"), &issuer.claims(&login));
    issuer.script().token = (200, json!({"id_token": foreign}));
    fails(&finish(&login), "/ui?login=refused");
    for (status, answer, page) in [
        (400, json!({"error": "invalid_grant"}), "refused"),
        (401, json!({"error": "invalid_client"}), "unavailable"),
        (500, json!({}), "unavailable"),
        (302, json!({}), "unavailable"),
        (200, json!({"access_token": "a"}), "unavailable"),
        (200, json!("x"), "unavailable"),
        (200, json!({"id_token": "x".repeat(300 << 10)}), "unavailable"),
    ] {
        let login = begin(&server);
        issuer.script().token = (status, answer);
        fails(&finish(&login), &format!("/ui?login={page}"));
    }
    let login = begin(&server);
    let mut claims = issuer.claims(&login);
    (claims["aud"], claims["azp"]) = (json!(["api", "dash board"]), json!("dash board"));
    issuer.grant(&claims);
    assert!(session_in(&finish(&login)).is_some());
}

#[test]
fn a_provider_whose_document_is_wrong_is_not_used_and_asked_again_later() {
    let issuer = Issuer::new();
    let (server, clock) = served(issuer.settings());
    let right = issuer.script().document.clone();
    let mut now_ms = NOW_S * 1_000;
    for (name, value) in [
        ("issuer", json!("https://evil.example")),
        ("issuer", json!(format!("{}/", issuer.url()))),
        ("issuer", Value::Null),
        ("token_endpoint", Value::Null),
        ("token_endpoint", json!("http://evil.example/token")),
        ("authorization_endpoint", json!("http://evil.example/authorize")),
        ("authorization_endpoint", json!("javascript:alert(1)")),
    ] {
        issuer.script().document.1[name] = value;
        let answer = send(&server, "GET", "/ui/login", "", OWN);
        fails(&answer, "/ui?login=unavailable");
        assert!(!answer.head.contains("set-cookie"), "{answer:?}");
        issuer.script().document = right.clone();
        now_ms += 5_000;
        clock.set(Timestamp::from_millis(now_ms));
    }
    issuer.script().document.0 = 404;
    fails(&send(&server, "GET", "/ui/login", "", OWN), "/ui?login=unavailable");
    issuer.script().document = right;
    fails(&send(&server, "GET", "/ui/login", "", OWN), "/ui?login=unavailable");
    clock.set(Timestamp::from_millis(now_ms + 5_000));
    begin(&server);
    issuer.script().document.0 = 404;
    begin(&server);
    clock.set(Timestamp::from_millis(now_ms + 5_000 + Duration::from_secs(3_600).as_millis() as u64));
    fails(&send(&server, "GET", "/ui/login", "", OWN), "/ui?login=unavailable");
}

#[test]
fn a_client_without_a_secret_sends_its_id() {
    let issuer = Issuer::new();
    let mut settings = issuer.settings();
    settings.login.as_mut().expect("a sign-in").client_secret = None;
    let (server, _clock) = served(settings);
    let login = begin(&server);
    issuer.grant(&issuer.claims(&login));
    let answer = come_back(&server, &login.cookie, &format!("code=c&state={}", login.state));
    assert!(session_in(&answer).is_some());
    let asked = issuer.script().asked.join("\n");
    assert!(asked.ends_with("&client_id=dash%20board") && !asked.contains("secret"), "{asked}");
}

#[test]
fn a_secret_is_sent_in_the_body_where_the_provider_knows_no_other_method() {
    let issuer = Issuer::new();
    issuer.script().document.1["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
    let (server, _clock) = served(issuer.settings());
    let login = begin(&server);
    issuer.grant(&issuer.claims(&login));
    let answer = come_back(&server, &login.cookie, &format!("code=c&state={}", login.state));
    assert!(session_in(&answer).is_some());
    let asked = issuer.script().asked.join("\n");
    assert!(asked.ends_with("&client_id=dash%20board&client_secret=p%25ss%3Aword"), "{asked}");
    assert!(!asked.to_ascii_lowercase().contains("authorization:"), "{asked}");
}

#[test]
fn there_is_no_sign_in_without_settings_and_without_access_control() {
    let issuer = Issuer::new();
    let tokens = TokenVerifier::load(issuer.settings()).expect("valid");
    let open = Served::configured(|builder| builder, |server| server.with_tokens(tokens));
    for path in ["/ui/login", "/ui/login/callback?code=c&state=s"] {
        let refused = send(&open, "GET", path, "", OWN);
        assert!(refused.status == 409 && refused.text.contains("access_disabled"), "{refused:?}");
    }
    let (without, _clock) = served(OidcSettings { login: None, ..issuer.settings() });
    for path in ["/ui/login", "/ui/login/callback?code=c&state=s"] {
        let refused = send(&without, "GET", path, "", OWN);
        assert!(refused.status == 404 && refused.text.contains("unknown_route"), "{refused:?}");
    }
    assert_eq!(send(&without, "GET", "/ui/session", "", OWN).text, r#"{"principal":null}"#);
}
