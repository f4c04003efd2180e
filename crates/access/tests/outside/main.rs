//! Credentials, rules and files of TLS from outside: the corpora of the fuzz targets, as they are
//! and damaged.

mod checks;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use quire::system::KeyText;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, SerialNumber, date_time_ymd,
};

fn corpus(name: &str) -> String {
    format!("{}/tests/corpus/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_sasl_message_of_any_bytes_is_answered_or_ends_the_exchange() {
    let (mut answered, mut refused) = (0, 0);
    replay::replay(&corpus("sasl"), &[], 1_000, |bytes, is_damaged| match checks::sasl::check(bytes) {
        Some(true) => answered += 1,
        found => {
            assert!(is_damaged, "a sound exchange is answered, not {found:?}");
            refused += 1;
        }
    });
    assert!(answered > 100 && refused > 1_000, "{answered} answered, {refused} refused");
}

#[test]
fn an_api_key_of_any_bytes_is_itself_or_none() {
    let (mut read, mut refused) = (0, 0);
    let made = [("key".to_owned(), KeyText::of_random([1; 16], [2; 32]).reveal().as_bytes().to_vec())];
    replay::replay(&corpus("keys"), &made, 1_000, |bytes, is_damaged| match checks::key::check(bytes) {
        true => read += 1,
        false => {
            assert!(is_damaged, "a sound key is read");
            refused += 1;
        }
    });
    assert!(read > 0 && refused > 500, "{read} read, {refused} refused");
}

#[test]
fn a_rule_of_any_bytes_is_shown_as_it_is_read_or_an_error() {
    let (mut read, mut refused) = (0, 0);
    replay::replay(&corpus("rules"), &[], 500, |bytes, is_damaged| match checks::rule::check(bytes) {
        true => read += 1,
        false => {
            assert!(is_damaged, "a sound rule is read");
            refused += 1;
        }
    });
    assert!(read > 100 && refused > 500, "{read} read, {refused} refused");
}

/// An authority, a certificate that it signed, the key of the certificate and a revocation list.
fn pem() -> String {
    let key_pair = || KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, "authority");
    let issuer = CertifiedIssuer::self_signed(params, key_pair()).expect("signed");
    let key = key_pair();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let certificate = params.signed_by(&key, &*issuer).expect("signed");
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2026, 1, 1),
        next_update: date_time_ymd(4000, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = list.signed_by(&*issuer).expect("signed").pem().expect("text");
    [certificate.pem(), issuer.pem(), key.serialize_pem(), list].concat()
}

#[test]
fn a_pem_file_of_any_bytes_is_loaded_or_refused_with_its_name() {
    let (mut loaded, mut refused) = (0, 0);
    let made = [("all.pem".to_owned(), pem().into_bytes())];
    replay::replay(&corpus("pem"), &made, 1_000, |bytes, is_damaged| match checks::pem::check(bytes) {
        true => loaded += 1,
        false => {
            assert!(is_damaged, "sound files are loaded");
            refused += 1;
        }
    });
    assert!(loaded > 10 && refused > 100, "{loaded} loaded, {refused} refused");
}
