//! Exchanges as clients have them: those of the RFCs, wrong ones, and arbitrary bytes.

use std::cell::RefCell;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use quire::system::{Command, KeyText, Principal, ScramMechanism};
use quire::{Database, Durability, NewApiKey, NewPassword, scram_credential};
use sha2::{Sha256, Sha512};
use tempfile::TempDir;

use super::exchange::{MESSAGE_BYTES_MAX, SaslExchange, SaslFailure, SaslStep};
use super::hashes::{hash, hmac};
use super::scram_message::ClientFinal;
use super::{SaslMechanism, SaslSecret};

const PASSWORD: &str = "pencil";

/// The salt of RFC 7677, section 3.
const SALT: [u8; 16] = [0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81];

/// A database whose user `user` has the password `pencil` with the salt of the RFC. `ann` has it
/// with a salt of its own, and `bob` has none.
struct World {
    _directory: TempDir,
    database: Database,
    secret: SaslSecret,
    ann_key: KeyText,
    bob_key: KeyText,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("a database");
        let access = database.access();
        for user in ["user", "ann", "bob"] {
            access.create_user(user, &[]).expect("created");
        }
        for mechanism in ScramMechanism::ALL {
            let credential = &scram_credential(mechanism, PASSWORD, SALT.to_vec(), 4_096);
            access.change(&[Command::PutScram { user: "user", credential }]).expect("put");
        }
        access.set_password("ann", PASSWORD, NewPassword::default()).expect("set");
        let hour = NewApiKey { lifetime: Some(std::time::Duration::from_secs(3_600)), ..NewApiKey::default() };
        let (ann_key, bob_key) = (access.create_key("ann", hour), access.create_key("bob", hour));
        let (ann_key, bob_key) = (ann_key.expect("created"), bob_key.expect("created"));
        World { _directory: directory, database, secret: SaslSecret::new([1; 32]), ann_key, bob_key }
    }

    fn answer(&self, exchange: &mut SaslExchange, message: impl AsRef<[u8]>) -> Result<SaslStep, SaslFailure> {
        exchange.answer(message.as_ref(), &self.database.access().rules(), self.database.now(), &self.secret)
    }

    fn challenge(&self, exchange: &mut SaslExchange, message: &str) -> String {
        match self.answer(exchange, message) {
            Ok(SaslStep::Challenge(challenge)) => String::from_utf8(challenge).expect("a text"),
            other => panic!("{message} gets {other:?}"),
        }
    }

    /// The name of the principal that a message of PLAIN authenticates.
    fn plain(&self, message: &str) -> Option<String> {
        let mut exchange = SaslExchange::new(SaslMechanism::Plain, [0; 24]);
        let principal = match self.answer(&mut exchange, message).ok()? {
            SaslStep::Authenticated { principal, message } => {
                assert_eq!(message, b"");
                principal
            }
            SaslStep::Password(check) => check.run()?,
            SaslStep::Challenge(_) | SaslStep::Refused(_) => panic!("PLAIN has no challenge"),
        };
        Some(principal.name.to_string())
    }

    /// The salt and the iterations that a user gets.
    fn shown(&self, user: &str) -> (Vec<u8>, String) {
        let mut exchange = scram(ScramMechanism::Sha256, 1);
        let challenge = self.challenge(&mut exchange, &format!("n,,n={user},r=abc"));
        let mut attributes = challenge.split(',').skip(1);
        let salt = attributes.next().and_then(|salt| salt.strip_prefix("s=")).expect("a salt");
        (STANDARD.decode(salt).expect("base64"), attributes.next().expect("iterations").to_owned())
    }
}

fn scram(mechanism: ScramMechanism, nonce: u8) -> SaslExchange {
    SaslExchange::new(SaslMechanism::Scram(mechanism), [nonce; 24])
}

/// The last message of a client that knows the password, and the signature that it expects.
fn last_message(mechanism: ScramMechanism, password: &str, first: &str, challenge: &str) -> (String, String) {
    let bare = first.splitn(3, ',').nth(2).expect("a bare message");
    let header = &first[..first.len() - bare.len()];
    let nonces = challenge.split(',').next().expect("nonces");
    proven(mechanism, password, (first, challenge), &format!("c={},{nonces}", STANDARD.encode(header)))
}

/// The last message with a right proof of whatever comes before it, and the signature.
fn proven(
    mechanism: ScramMechanism,
    password: &str,
    (first, challenge): (&str, &str),
    without_proof: &str,
) -> (String, String) {
    let bare = first.splitn(3, ',').nth(2).expect("a bare message");
    let mut attributes = challenge.split(',').skip(1);
    let salt = attributes.next().and_then(|salt| salt.strip_prefix("s=")).expect("a salt");
    let salt = STANDARD.decode(salt).expect("base64");
    let iterations = attributes.next().and_then(|count| count.strip_prefix("i=")).expect("a count");
    let iterations = iterations.parse().expect("a count");
    let mut salted = vec![0; mechanism.hash_bytes()];
    match mechanism {
        ScramMechanism::Sha256 => {
            pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &salt, iterations, &mut salted);
        }
        ScramMechanism::Sha512 => {
            pbkdf2::pbkdf2_hmac::<Sha512>(password.as_bytes(), &salt, iterations, &mut salted);
        }
    }
    let messages = format!("{bare},{challenge},{without_proof}");
    let key = hmac(mechanism, &salted, &[b"Client Key"]);
    let signature = hmac(mechanism, &hash(mechanism, &key), &[messages.as_bytes()]);
    let proof: Vec<u8> = key.iter().zip(&signature).map(|(key, signature)| key ^ signature).collect();
    let of_server = hmac(mechanism, &hmac(mechanism, &salted, &[b"Server Key"]), &[messages.as_bytes()]);
    (format!("{without_proof},p={}", STANDARD.encode(proof)), format!("v={}", STANDARD.encode(of_server)))
}

/// The principal that has presented its password.
fn principal(world: &World, name: &str, mechanism: ScramMechanism) -> Principal {
    let password = world.database.access().rules().scram(name, mechanism).cloned().map(Arc::new);
    Principal { password: Some(password.expect("it has a password")), ..Principal::named(name) }
}

/// RFC 7677, section 3; for SHA-512 as another implementation computes it.
#[test]
fn the_exchange_of_the_rfc_is_the_same_to_the_byte() {
    let world = World::new();
    let nonces = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    for (mechanism, proof, signature) in [
        (
            ScramMechanism::Sha256,
            "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ),
        (
            ScramMechanism::Sha512,
            "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==",
            "ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==",
        ),
    ] {
        let mut exchange = SaslExchange::with_nonce(mechanism, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
        let challenge = world.challenge(&mut exchange, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        assert_eq!(challenge, format!("r={nonces},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
        let done = world.answer(&mut exchange, format!("c=biws,r={nonces},p={proof}"));
        let message = format!("v={signature}").into_bytes();
        let principal = principal(&world, "user", mechanism);
        assert_eq!(done, Ok(SaslStep::Authenticated { principal, message }));
    }
}

#[test]
fn a_client_may_support_channel_binding_name_itself_twice_and_send_extensions() {
    let world = World::new();
    for first in [
        "n,,n=ann,r=abc",
        "y,,n=ann,r=abc",
        "n,a=ann,n=ann,r=abc",
        "n,,n=ann,r=abc,tokenauth=true",
        "y,a=ann,n=ann,r=a!+/=~,x=1,y=2",
    ] {
        for mechanism in ScramMechanism::ALL {
            let mut exchange = scram(mechanism, 1);
            let challenge = world.challenge(&mut exchange, first);
            let (last, signature) = last_message(mechanism, PASSWORD, first, &challenge);
            let principal = principal(&world, "ann", mechanism);
            let expect = SaslStep::Authenticated { principal, message: signature.into_bytes() };
            assert_eq!(world.answer(&mut exchange, last), Ok(expect), "{first}");
        }
    }
}

#[test]
fn a_name_with_commas_and_equals_signs_is_escaped() {
    let world = World::new();
    world.database.access().create_user("a,b=c", &[]).expect("created");
    world.database.access().set_password("a,b=c", PASSWORD, NewPassword::default()).expect("set");
    let mut exchange = scram(ScramMechanism::Sha256, 1);
    let first = "n,,n=a=2Cb=3Dc,r=abc";
    let challenge = world.challenge(&mut exchange, first);
    let (last, _) = last_message(ScramMechanism::Sha256, PASSWORD, first, &challenge);
    let done = world.answer(&mut exchange, last);
    assert!(matches!(done, Ok(SaslStep::Authenticated { principal, .. }) if &*principal.name == "a,b=c"));
}

#[test]
fn a_first_message_of_another_form_fails() {
    let world = World::new();
    for first in [
        "",
        "n",
        "n,",
        "n,,",
        "n,,n=ann",
        "n,,n=ann,r=",
        "n,,n=,r=abc",
        "n,,r=abc,n=ann",
        "n,,n=ann,r=a c",
        "n,,n=ann,r=\u{e4}",
        "n,,n=ann,r=abc,",
        "n,,n=ann,r=abc,x",
        "n,,n=ann,r=abc,x=",
        "n,,n=ann,r=abc,m=1",
        "n,,m=1,n=ann,r=abc",
        "n,,n=a=nn,r=abc",
        "n,,n=ann=,r=abc",
        "n,,n=ann=2,r=abc",
        "n,,n=ann=2c,r=abc",
        "n,,n=a\0nn,r=abc",
        "n,ann,n=ann,r=abc",
        "n,a=bob,n=ann,r=abc",
        "p=tls-unique,,n=ann,r=abc",
        "p=tls-exporter,,n=ann,r=abc",
        "z,,n=ann,r=abc",
        "N,,n=ann,r=abc",
        "\0ann\0pencil",
    ] {
        assert_eq!(world.answer(&mut scram(ScramMechanism::Sha256, 1), first), Err(SaslFailure), "{first:?}");
    }
    assert_eq!(world.answer(&mut scram(ScramMechanism::Sha256, 1), b"n,,n=\xff,r=abc"), Err(SaslFailure));
}

#[test]
fn a_message_beyond_the_limit_fails_and_one_at_it_does_not() {
    let world = World::new();
    let first = |bytes: usize| {
        let begin = "n,,n=ann,r=";
        format!("{begin}{}", "a".repeat(bytes - begin.len()))
    };
    world.challenge(&mut scram(ScramMechanism::Sha256, 1), &first(MESSAGE_BYTES_MAX));
    let too_long = first(MESSAGE_BYTES_MAX + 1);
    assert_eq!(world.answer(&mut scram(ScramMechanism::Sha256, 1), too_long), Err(SaslFailure));
    assert_eq!(world.plain(&format!("\0ann\0{PASSWORD}{}", "a".repeat(MESSAGE_BYTES_MAX))), None);
}

/// Changes the last message, whose nonces are given.
type Change<'c> = dyn Fn(&str, &str) -> String + 'c;

/// What clients of other systems could do with a server that compares less than everything:
/// another nonce (Kafka, CVE-2024-56128), another header, a part of the proof.
#[test]
fn a_last_message_with_anything_changed_fails() {
    let world = World::new();
    let (first, mechanism) = ("n,,n=ann,r=abc", ScramMechanism::Sha256);
    let changed = |change: &Change<'_>| {
        let mut exchange = scram(mechanism, 1);
        let challenge = world.challenge(&mut exchange, first);
        let (last, _) = last_message(mechanism, PASSWORD, first, &challenge);
        let nonces = &challenge[2..challenge.find(',').expect("attributes")];
        world.answer(&mut exchange, change(&last, nonces))
    };
    assert!(changed(&|last, _| last.to_owned()).is_ok());
    let proof = |last: &str| STANDARD.decode(last.rsplit_once(",p=").expect("a proof").1).expect("base64");
    let with_proof = |last: &str, proof: &[u8]| {
        format!("{},p={}", last.rsplit_once(",p=").expect("a proof").0, STANDARD.encode(proof))
    };
    let changes: [&Change<'_>; 16] = [
        &|last, nonces| last.replace(nonces, "abc"),
        &|last, nonces| last.replace(nonces, &nonces[3..]),
        &|last, nonces| last.replace(nonces, &nonces[..nonces.len() - 1]),
        &|last, nonces| last.replace(nonces, &format!("{nonces}x")),
        &|last, nonces| last.replace(nonces, &nonces.replace("abc", "abd")),
        &|last, nonces| last.replace(nonces, ""),
        &|last, _| last.replace("c=biws", "c=eSws"),
        &|last, _| last.replace("c=biws", "c="),
        &|last, _| last.replace("c=biws,", ""),
        &|last, _| last.replace("c=biws", "c=biw"),
        &|last, _| last.replace(",p=", ",m=1,p="),
        &|last, _| with_proof(last, &[]),
        &|last, _| with_proof(last, &proof(last)[..31]),
        &|last, _| with_proof(last, &[&proof(last)[..], &[0]].concat()),
        &|last, _| last.rsplit_once(",p=").expect("a proof").0.to_owned(),
        &|_, _| first.to_owned(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        assert_eq!(changed(change), Err(SaslFailure), "change {number}");
    }
    for byte in 0..32 {
        let flipped = |last: &str| {
            let mut proof = proof(last);
            proof[byte] ^= 1;
            proof
        };
        assert_eq!(changed(&|last, _| with_proof(last, &flipped(last))), Err(SaslFailure), "byte {byte}");
    }
}

/// A client that knows the password, and answers another challenge than that of the server.
#[test]
fn a_right_proof_of_other_nonces_or_of_another_header_fails() {
    let world = World::new();
    let (first, mechanism) = ("n,,n=ann,r=abc", ScramMechanism::Sha256);
    let answered = |without_proof: &dyn Fn(&str) -> String| {
        let mut exchange = scram(mechanism, 1);
        let challenge = world.challenge(&mut exchange, first);
        let nonces = &challenge[2..challenge.find(',').expect("attributes")];
        let (last, _) = proven(mechanism, PASSWORD, (first, &challenge), &without_proof(nonces));
        world.answer(&mut exchange, last)
    };
    assert!(answered(&|nonces| format!("c=biws,r={nonces}")).is_ok());
    assert!(answered(&|nonces| format!("c=biws,r={nonces},x=y")).is_ok());
    for (number, without_proof) in [
        &(|_: &str| "c=biws,r=abc".to_owned()) as &dyn Fn(&str) -> String,
        &|nonces| format!("c=biws,r={}", &nonces[3..]),
        &|nonces| format!("c=biws,r={}", &nonces[..nonces.len() - 1]),
        &|nonces| format!("c=biws,r={nonces}x"),
        &|nonces| format!("c=eSws,r={nonces}"),
        &|nonces| format!("c=,r={nonces}"),
        &|nonces| format!("c=biws,r={nonces},m=1"),
        &|nonces| format!("r={nonces},c=biws"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(answered(without_proof), Err(SaslFailure), "message {number}");
    }
}

#[test]
fn a_replayed_message_fails_in_the_same_exchange_and_in_another() {
    let world = World::new();
    let (first, mechanism) = ("n,,n=ann,r=abc", ScramMechanism::Sha256);
    let mut exchange = scram(mechanism, 1);
    let challenge = world.challenge(&mut exchange, first);
    let (last, _) = last_message(mechanism, PASSWORD, first, &challenge);
    assert!(world.answer(&mut exchange, &last).is_ok());
    assert_eq!(world.answer(&mut exchange, &last), Err(SaslFailure));
    assert_eq!(world.answer(&mut exchange, first), Err(SaslFailure));
    let mut other = scram(mechanism, 2);
    world.challenge(&mut other, first);
    assert_eq!(world.answer(&mut other, &last), Err(SaslFailure));
    let mut failed = scram(mechanism, 1);
    world.challenge(&mut failed, first);
    assert_eq!(world.answer(&mut failed, "c=biws"), Err(SaslFailure));
    assert_eq!(world.answer(&mut failed, &last), Err(SaslFailure), "there is one attempt");
}

#[test]
fn a_user_without_a_password_is_shown_as_one_that_has_one() {
    let world = World::new();
    let access = world.database.access();
    access.create_user("cem", &[]).expect("created");
    access.set_password("cem", PASSWORD, NewPassword::default()).expect("set");
    access.change(&[Command::EnableUser { user: "cem", is_enabled: false }]).expect("disabled");
    let (known, iterations) = world.shown("ann");
    let mut salts = vec![known];
    for user in ["nobody", "someone", "bob", "cem"] {
        let (salt, shown) = world.shown(user);
        assert_eq!((salt.len(), &shown), (salts[0].len(), &iterations), "{user}");
        assert_eq!(world.shown(user).0, salt, "{user} gets the same salt each time");
        salts.push(salt);
    }
    salts.sort();
    salts.dedup();
    assert_eq!(salts.len(), 5);
    let of_another_server = World { secret: SaslSecret::new([2; 32]), ..world };
    assert!(!salts.contains(&of_another_server.shown("nobody").0));
    let of_credentials = of_another_server.database.access();
    for user in ["user", "ann", "cem"] {
        of_credentials.drop_password(user).expect("dropped");
        let longer = NewPassword { iterations: 8_192, ..NewPassword::default() };
        of_credentials.set_password(user, PASSWORD, longer).expect("set");
    }
    assert_eq!(of_another_server.shown("nobody").1, "i=8192", "as most users have");
}

#[test]
fn a_client_without_a_password_fails_at_the_last_message_whatever_it_proves() {
    let world = World::new();
    for user in ["nobody", "bob"] {
        for mechanism in ScramMechanism::ALL {
            let first = format!("n,,n={user},r=abc");
            let mut exchange = scram(mechanism, 1);
            let challenge = world.challenge(&mut exchange, &first);
            let (last, _) = last_message(mechanism, PASSWORD, &first, &challenge);
            assert_eq!(world.answer(&mut exchange, last), Err(SaslFailure));
        }
        assert_eq!(world.plain(&format!("\0{user}\0{PASSWORD}")), None);
    }
}

#[test]
fn a_password_that_was_replaced_during_the_exchange_fails() {
    let world = World::new();
    let (first, mechanism) = ("n,,n=ann,r=abc", ScramMechanism::Sha256);
    let mut exchange = scram(mechanism, 1);
    let challenge = world.challenge(&mut exchange, first);
    let (last, _) = last_message(mechanism, PASSWORD, first, &challenge);
    world.database.access().set_password("ann", PASSWORD, NewPassword::default()).expect("set");
    assert_eq!(world.answer(&mut exchange, last), Err(SaslFailure));
}

#[test]
fn plain_takes_a_key_with_its_id_or_its_user_and_a_password_with_its_user() {
    let world = World::new();
    let (key, id) = (world.ann_key.reveal(), world.ann_key.id());
    let ann = Some("ann".to_owned());
    assert_eq!(world.plain(&format!("\0{id}\0{key}")), ann);
    assert_eq!(world.plain(&format!("\0ann\0{key}")), ann);
    assert_eq!(world.plain(&format!("ann\0ann\0{key}")), ann);
    assert_eq!(world.plain(&format!("\0ann\0{PASSWORD}")), ann);
    let of_bob = world.bob_key.reveal();
    for wrong in [
        format!("\0bob\0{key}"),
        format!("\0ann\0{of_bob}"),
        format!("\0\0{key}"),
        format!("\0nobody\0{key}"),
        format!("bob\0ann\0{key}"),
        format!("\0ann\0{key} "),
        format!("\0ann\0{}", &key[..51]),
        format!("\0ann\0{PASSWORD}\0"),
        format!("ann\0{PASSWORD}"),
        format!("bob\0ann\0{PASSWORD}"),
        "\0ann\0".to_owned(),
        "\0ann\0pencil ".to_owned(),
        "\0ann\0Pencil".to_owned(),
        "\0bob\0pencil".to_owned(),
        "\0\0pencil".to_owned(),
        "ann pencil".to_owned(),
        String::new(),
    ] {
        assert_eq!(world.plain(&wrong), None, "{wrong:?}");
    }
    world.database.access().drop_key(world.ann_key.id()).expect("dropped");
    assert_eq!(world.plain(&format!("\0ann\0{key}")), None);
}

/// A password of a user with any credentials, and of no user, is derived once for each mechanism.
#[test]
fn the_check_of_a_password_takes_the_same_derivations_for_every_user() {
    let world = World::new();
    let access = world.database.access();
    for (user, mechanism) in [("only-256", ScramMechanism::Sha256), ("only-512", ScramMechanism::Sha512)] {
        access.create_user(user, &[]).expect("created");
        let new = NewPassword { mechanisms: &[mechanism], ..NewPassword::default() };
        access.set_password(user, PASSWORD, new).expect("set");
    }
    for (user, password, is_right) in [
        ("ann", PASSWORD, true),
        ("ann", "wrong", false),
        ("only-256", PASSWORD, true),
        ("only-256", "wrong", false),
        ("only-512", PASSWORD, true),
        ("only-512", "wrong", false),
        ("bob", PASSWORD, false),
        ("nobody", PASSWORD, false),
    ] {
        let mut exchange = SaslExchange::new(SaslMechanism::Plain, [0; 24]);
        let step = world.answer(&mut exchange, format!("\0{user}\0{password}"));
        let Ok(SaslStep::Password(check)) = step else { panic!("a password, not {step:?}") };
        let derived = RefCell::new(Vec::new());
        let principal = check.run_with(|mechanism, password, salt, iterations| {
            derived.borrow_mut().push((mechanism, iterations));
            scram_credential(mechanism, password, salt, iterations)
        });
        assert_eq!(principal.is_some(), is_right, "{user} {password}");
        assert_eq!(derived.into_inner(), ScramMechanism::ALL.map(|mechanism| (mechanism, 4_096)), "{user}");
    }
}

#[test]
fn nothing_shows_a_password() {
    let world = World::new();
    let mut exchange = SaslExchange::new(SaslMechanism::Plain, [0; 24]);
    let step = world.answer(&mut exchange, format!("\0ann\0{PASSWORD}")).expect("a check");
    assert!(!format!("{step:?} {exchange:?} {:?}", world.secret).contains(PASSWORD));
}

#[test]
fn nothing_shows_a_message_of_scram() {
    let world = World::new();
    for mechanism in ScramMechanism::ALL {
        let (mut exchange, first) = (scram(mechanism, 1), "n,,n=ann,r=client-nonce");
        let challenge = world.challenge(&mut exchange, first);
        let (last, signature) = last_message(mechanism, PASSWORD, first, &challenge);
        let parsed = ClientFinal::parse(&last).expect("valid");
        let shown = format!("{exchange:?} {:?} {parsed:?}", SaslStep::Challenge(challenge.clone().into_bytes()));
        let done = world.answer(&mut exchange, last.clone()).expect("authenticated");
        let shown = format!("{shown} {done:?} {exchange:?}");
        let proof = last.rsplit_once("p=").expect("a proof").1;
        let raw = format!("{:?}", signature.as_bytes());
        for secret in ["client-nonce", &*challenge, proof, &signature[2..], raw.trim_matches(['[', ']'])] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

#[test]
fn mechanisms_have_their_registered_names() {
    let names = SaslMechanism::ALL.map(SaslMechanism::name);
    assert_eq!(names, ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]);
    for mechanism in SaslMechanism::ALL {
        assert_eq!(SaslMechanism::of_name(mechanism.name()), Some(mechanism));
    }
    for other in ["", "plain", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS"] {
        assert_eq!(SaslMechanism::of_name(other), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_messages_authenticate_no_client(
        messages in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                "[ny],(a=[a-z=,]{0,4})?,n=[a-z=,23CD]{0,6},r=[!-~]{0,12}".prop_map(String::into_bytes),
                "c=(biws|eSws|[A-Za-z=]{0,8}),r=[!-~]{0,60},p=[A-Za-z0-9+/=]{0,50}".prop_map(String::into_bytes),
                "[ny],(a=[a-z]{0,3})?,\x01(auth=Bearer [a-z.]{0,9}\x01){0,2}\x01".prop_map(String::into_bytes),
                "[a-z]{0,3}\0[a-z]{0,3}\0(qk_)?[a-z]{0,9}".prop_map(String::into_bytes),
            ],
            1..40,
        ),
    ) {
        thread_local!(static WORLD: World = World::new());
        WORLD.with(|world| {
            for mechanism in SaslMechanism::ALL {
                let mut exchange = SaslExchange::new(mechanism, [1; 24]);
                for message in &messages {
                    let step = world.answer(&mut exchange, message);
                    prop_assert!(!matches!(step, Ok(SaslStep::Authenticated { .. })), "{step:?}");
                    if let Ok(SaslStep::Password(check)) = &step {
                        prop_assert_eq!(check.run(), None);
                    }
                    if step.is_err() {
                        exchange = SaslExchange::new(mechanism, [1; 24]);
                    }
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_part_of_a_valid_message_is_refused(cut in 0usize..200) {
        thread_local!(static WORLD: World = World::new());
        WORLD.with(|world| {
            let (first, mechanism) = ("n,,n=ann,r=abc", ScramMechanism::Sha512);
            let mut exchange = scram(mechanism, 1);
            let challenge = world.challenge(&mut exchange, first);
            let (last, _) = last_message(mechanism, PASSWORD, first, &challenge);
            let cut = cut.min(last.len() - 1);
            prop_assert_eq!(world.answer(&mut exchange, &last[..cut]), Err(SaslFailure));
            Ok(())
        })?;
    }
}
