//! Tokens of a provider of these tests: every wrong one is refused.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use quire::Timestamp;
use quire::system::Principal;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const NOW_S: u64 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::from_millis(NOW_S * 1_000)
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A provider with a key on P-256.
struct Provider {
    directory: TempDir,
    pair: EcdsaKeyPair,
}

fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
    EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("valid")
}

/// The public key of a pair as a JSON Web Key.
fn jwk(pair: &EcdsaKeyPair, id: &str) -> Value {
    let point = pair.public_key().as_ref();
    let (x, y) = point[1..].split_at(point.len() / 2);
    let curve = if x.len() == 32 { "P-256" } else { "P-384" };
    json!({"kty": "EC", "crv": curve, "kid": id, "use": "sig", "x": encode(x), "y": encode(y)})
}

impl Provider {
    fn new() -> Self {
        let provider = Provider {
            directory: tempfile::tempdir().expect("a directory"),
            pair: ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
        };
        provider.publish(&json!({"keys": [jwk(&provider.pair, "first")]}));
        provider
    }

    fn publish(&self, set: &Value) {
        std::fs::write(self.settings().keys, set.to_string()).expect("written");
    }

    fn settings(&self) -> OidcSettings {
        OidcSettings {
            issuer: "https://id.example".to_owned(),
            audience: "quire".to_owned(),
            keys: self.directory.path().join("keys.json"),
            principal_claim: "sub".to_owned(),
            roles_claim: Some("groups".to_owned()),
            roles: vec!["ops => operator".parse().expect("valid"), "dev => reader".parse().expect("valid")],
            login: None,
        }
    }

    /// A token with this header and these claims, signed by this pair.
    fn sign(pair: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
        format!("{signed}.{}", encode(signature))
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        Provider::sign(&self.pair, header, claims)
    }
}

fn header() -> Value {
    json!({"alg": "ES256", "typ": "JWT", "kid": "first"})
}

fn claims() -> Value {
    json!({"iss": "https://id.example", "aud": "quire", "sub": "anna", "exp": NOW_S + 60})
}

/// An object with this field replaced, or removed by `null`.
fn with(mut object: Value, name: &str, value: Value) -> Value {
    let fields = object.as_object_mut().expect("an object");
    match value {
        Value::Null => drop(fields.remove(name)),
        value => drop(fields.insert(name.to_owned(), value)),
    }
    object
}

#[test]
fn a_token_stands_for_its_principal_until_it_expires() {
    let provider = Provider::new();
    let verifier = TokenVerifier::load(provider.settings()).expect("valid");
    let token = provider.token(&header(), &claims());
    let expires = Some(Timestamp::from_millis((NOW_S + 60) * 1_000));
    let anna = Principal { expires, ..Principal::named("anna") };
    assert_eq!(verifier.verify(&token, now()), Some(anna.clone()));
    assert_eq!(verifier.verify(&token, Timestamp::from_millis((NOW_S + 60) * 1_000)), None);
    for (name, value) in [
        ("aud", json!(["other", "quire"])),
        ("nbf", json!(NOW_S + 59)),
        ("iat", json!(NOW_S as f64 - 0.5)),
        ("groups", json!(["unknown"])),
        ("groups", json!([])),
    ] {
        let token = provider.token(&header(), &with(claims(), name, value.clone()));
        assert_eq!(verifier.verify(&token, now()), Some(anna.clone()), "{name} {value}");
    }
    for header in [json!({"alg": "ES256"}), with(header(), "typ", json!("at+jwt"))] {
        assert_eq!(verifier.verify(&provider.token(&header, &claims()), now()), Some(anna.clone()), "{header}");
    }
}

#[test]
fn groups_become_the_roles_that_the_settings_name() {
    let provider = Provider::new();
    let verifier = TokenVerifier::load(provider.settings()).expect("valid");
    let roles = |groups: Value| {
        let principal = verifier.verify(&provider.token(&header(), &with(claims(), "groups", groups)), now());
        principal.map(|principal| principal.roles.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(roles(json!(["dev", "ops", "admin", "dev"])), Some(vec!["operator".to_owned(), "reader".to_owned()]));
    assert_eq!(roles(json!("ops")), Some(vec!["operator".to_owned()]));
    assert_eq!(roles(json!(["operator", "OPS"])), Some(Vec::new()));
    for wrong in [json!(7), json!({"ops": true}), json!(["ops", 7])] {
        assert_eq!(roles(wrong.clone()), None, "{wrong}");
    }
}

#[test]
fn a_claim_that_is_missing_wrong_or_of_another_type_is_refused() {
    let provider = Provider::new();
    let verifier = TokenVerifier::load(provider.settings()).expect("valid");
    for (name, value) in [
        ("exp", Value::Null),
        ("exp", json!(NOW_S)),
        ("exp", json!(NOW_S - 1)),
        ("exp", json!((NOW_S + 60).to_string())),
        ("exp", json!([NOW_S + 60])),
        ("exp", json!(-1)),
        ("exp", json!(true)),
        ("nbf", json!(NOW_S + 61)),
        ("nbf", json!("0")),
        ("iat", json!("0")),
        ("iss", Value::Null),
        ("iss", json!("https://id.example/")),
        ("iss", json!(["https://id.example"])),
        ("aud", Value::Null),
        ("aud", json!("other")),
        ("aud", json!(["other"])),
        ("aud", json!(["quire", 7])),
        ("aud", json!({"quire": true})),
        ("sub", Value::Null),
        ("sub", json!("")),
        ("sub", json!("*")),
        ("sub", json!("a\nb")),
        ("sub", json!("a".repeat(256))),
        ("sub", json!(7)),
    ] {
        let token = provider.token(&header(), &with(claims(), name, value.clone()));
        assert_eq!(verifier.verify(&token, now()), None, "{name} {value}");
    }
    let list = format!("{}.{}", encode(header().to_string()), encode("[]"));
    let signature = provider.pair.sign(&SystemRandom::new(), list.as_bytes()).expect("signed");
    assert_eq!(verifier.verify(&format!("{list}.{}", encode(signature)), now()), None);
}

#[test]
fn the_algorithm_is_that_of_the_key_and_the_key_that_of_the_token() {
    let provider = Provider::new();
    let verifier = TokenVerifier::load(provider.settings()).expect("valid");
    for (name, value) in [
        ("alg", Value::Null),
        ("alg", json!("none")),
        ("alg", json!("HS256")),
        ("alg", json!("ES384")),
        ("alg", json!("RS256")),
        ("alg", json!(["ES256"])),
        ("kid", json!("second")),
        ("kid", json!(1)),
        ("crit", json!(["exp"])),
        ("typ", json!("secevent+jwt")),
        ("typ", json!(1)),
    ] {
        let token = provider.token(&with(header(), name, value.clone()), &claims());
        assert_eq!(verifier.verify(&token, now()), None, "{name} {value}");
    }
    let signed = |header: &Value| format!("{}.{}", encode(header.to_string()), encode(claims().to_string()));
    // No signature.
    for token in [format!("{}.", signed(&with(header(), "alg", json!("none")))), signed(&header())] {
        assert_eq!(verifier.verify(&token, now()), None, "{token}");
    }
    // The public key as the secret of an HMAC, as its JSON and as its point.
    let message = signed(&with(header(), "alg", json!("HS256")));
    for secret in [jwk(&provider.pair, "first").to_string().into_bytes(), provider.pair.public_key().as_ref().to_vec()]
    {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let token = format!("{message}.{}", encode(ring::hmac::sign(&key, message.as_bytes())));
        assert_eq!(verifier.verify(&token, now()), None);
    }
    // Another pair, and claims that were changed after the signature.
    let foreign = Provider::sign(&ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING), &header(), &claims());
    let token = provider.token(&header(), &claims());
    let signature = token.rsplit_once('.').expect("a signature").1;
    let changed = format!(
        "{}.{}.{signature}",
        encode(header().to_string()),
        encode(with(claims(), "sub", json!("root")).to_string())
    );
    for token in [
        foreign,
        changed,
        format!("{token}."),
        format!("{token}="),
        format!(".{token}"),
        String::new(),
        "..".to_owned(),
    ] {
        assert_eq!(verifier.verify(&token, now()), None, "{token}");
    }
    assert_eq!(verifier.verify(&"a".repeat(1 << 20), now()), None);
}

#[test]
fn every_kind_of_key_verifies_its_signatures_only() {
    let provider = Provider::new();
    let large = ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING);
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
    let small = Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("valid");
    let octets = json!({"kty": "OKP", "crv": "Ed25519", "kid": "ed", "alg": "EdDSA", "x": encode(small.public_key())});
    let encryption = json!({"kty": "RSA", "kid": "enc", "use": "enc", "n": "AQAB", "e": "AQAB"});
    let secret = json!({"kty": "oct", "kid": "oct", "k": encode("secret")});
    provider
        .publish(&json!({"keys": [jwk(&provider.pair, "first"), jwk(&large, "large"), octets, encryption, secret]}));
    let verifier = TokenVerifier::load(provider.settings()).expect("valid");
    let is_valid = |token: &str| verifier.verify(token, now()).is_some();
    let of = |alg: &str, id: &str| json!({"alg": alg, "kid": id});
    assert!(is_valid(&provider.token(&header(), &claims())));
    assert!(is_valid(&Provider::sign(&large, &of("ES384", "large"), &claims())));
    let signed = format!("{}.{}", encode(of("EdDSA", "ed").to_string()), encode(claims().to_string()));
    assert!(is_valid(&format!("{signed}.{}", encode(small.sign(signed.as_bytes())))));
    assert!(!is_valid(&Provider::sign(&large, &of("ES384", "first"), &claims())));
    assert!(!is_valid(&provider.token(&of("ES256", "large"), &claims())));
    assert!(!is_valid(&provider.token(&json!({"alg": "ES256"}), &claims())), "of several keys, the token names one");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"secret");
    let signed = format!("{}.{}", encode(of("HS256", "oct").to_string()), encode(claims().to_string()));
    assert!(!is_valid(&format!("{signed}.{}", encode(ring::hmac::sign(&key, signed.as_bytes())))));
}

/// A token of RFC 7515, appendix A.2, whose key and signature are of another implementation.
#[test]
fn an_rsa_signature_of_another_implementation_is_verified() {
    let n = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
    let message = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    let set = |algorithm: Value| with(json!({"kty": "RSA", "n": n, "e": "AQAB"}), "alg", algorithm);
    let keys = |algorithm| jwk::ProviderKey::parse_set(json!({"keys": [set(algorithm)]}).to_string().as_bytes());
    let token = format!("{message}.{signature}");
    let claims = jwt::verified(&token, &keys(Value::Null).expect("valid")).expect("verified");
    assert_eq!((&claims["iss"], &claims["exp"]), (&json!("joe"), &json!(1_300_819_380)));
    assert_eq!(jwt::verified(&token, &keys(json!("PS256")).expect("valid")), Err(WrongToken));
    assert_eq!(jwt::verified(&token, &keys(json!("RS512")).expect("valid")), Err(WrongToken));
}

#[test]
fn a_file_of_keys_is_loaded_again_and_a_broken_one_keeps_the_earlier_keys() {
    let provider = Provider::new();
    let verifier = TokenVerifier::load(provider.settings()).expect("valid");
    let second = ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING);
    let of_second = Provider::sign(&second, &with(header(), "kid", json!("second")), &claims());
    let of_first = provider.token(&header(), &claims());
    let valid = || (verifier.verify(&of_first, now()).is_some(), verifier.verify(&of_second, now()).is_some());
    assert_eq!(valid(), (true, false));
    provider.publish(&json!({"keys": [jwk(&provider.pair, "first"), jwk(&second, "second")]}));
    assert_eq!(valid(), (true, true));
    std::fs::write(provider.settings().keys, "{").expect("written");
    assert_eq!(valid(), (true, true));
    std::fs::remove_file(provider.settings().keys).expect("removed");
    assert_eq!(valid(), (true, true));
    provider.publish(&json!({"keys": [jwk(&second, "second")]}));
    assert_eq!(valid(), (false, true));
}

#[test]
fn a_file_that_can_not_be_used_and_wrong_settings_are_named() {
    let provider = Provider::new();
    let key = || jwk(&provider.pair, "first");
    for (set, problem) in [
        (json!([]), "no list `keys`"),
        (json!({"keys": []}), "no public key"),
        (json!({"keys": [{"kty": "oct", "k": "AAAA"}]}), "no public key"),
        (json!({"keys": [7]}), "key 0 is no object"),
        (json!({"keys": [key(), key()]}), "the same `kid`"),
        (json!({"keys": [with(key(), "alg", json!("ES384"))]}), "`alg` does not fit"),
        (json!({"keys": [with(key(), "kid", json!(7))]}), "`kid` is no text"),
        (json!({"keys": [with(key(), "x", json!("AA"))]}), "must have 32 bytes"),
        (json!({"keys": [with(key(), "x", json!("=="))]}), "not base64url"),
        (json!({"keys": [{"kty": "RSA", "n": encode([1; 128]), "e": "AQAB"}]}), "2,048 to 8,192 bits, got 1024"),
    ] {
        provider.publish(&set);
        let error = TokenVerifier::load(provider.settings()).expect_err(problem).to_string();
        assert!(error.contains(problem) && error.contains("keys.json"), "{problem}: {error}");
    }
    provider.publish(&json!({"keys": [key()]}));
    let login = || LoginSettings {
        client_id: "quire".to_owned(),
        client_secret: None,
        public_url: "https://quire.example".to_owned(),
        scopes: Vec::new(),
    };
    let with_login = |login| OidcSettings { login: Some(login), ..provider.settings() };
    for (settings, problem) in [
        (OidcSettings { issuer: String::new(), ..provider.settings() }, "the issuer is empty"),
        (OidcSettings { audience: String::new(), ..provider.settings() }, "the audience is empty"),
        (OidcSettings { roles_claim: None, ..provider.settings() }, "need a roles claim"),
        (OidcSettings { roles: Vec::new(), ..provider.settings() }, "needs roles of groups"),
        (OidcSettings { issuer: "http://id.example".to_owned(), ..with_login(login()) }, "must be an https URL"),
        (OidcSettings { issuer: "https://id.example?a=b".to_owned(), ..with_login(login()) }, "without a query"),
        (OidcSettings { issuer: "https://a@id.example".to_owned(), ..with_login(login()) }, "must be an https URL"),
        (with_login(LoginSettings { client_id: String::new(), ..login() }), "the client id is empty"),
        (with_login(LoginSettings { public_url: "http://q.example".to_owned(), ..login() }), "the public URL must be"),
        (
            with_login(LoginSettings { public_url: "https://q.example/".to_owned(), ..login() }),
            "the public URL must be",
        ),
        (with_login(LoginSettings { scopes: vec!["a b".to_owned()], ..login() }), "a scope must be"),
        (with_login(LoginSettings { client_secret: Some("missing".into()), ..login() }), "the secret of a client"),
    ] {
        let error = TokenVerifier::load(settings).expect_err(problem).to_string();
        assert!(error.contains(problem), "{problem}: {error}");
    }
    for text in ["ops", "=> reader", "ops =>", ""] {
        assert!(text.parse::<RoleMapping>().is_err(), "{text:?}");
    }
}

#[test]
fn a_url_of_a_provider_is_https_or_of_this_machine() {
    for url in [
        "https://id.example",
        "https://id.example:8443/a?b=c",
        "http://127.0.0.1:80/",
        "http://[::1]:80",
        "http://localhost",
    ] {
        assert!(url::is_protected(url), "{url}");
    }
    for url in [
        "http://id.example",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "https://user@id.example",
        "https://id.example/#a",
        "https://id.example/ a",
        "https://",
        "HTTPS://id.example",
        "ftp://localhost",
        "javascript:alert(1)",
        "/authorize",
        "",
    ] {
        assert!(!url::is_protected(url), "{url}");
    }
}
