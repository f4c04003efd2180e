//! A file in PEM that is the certificate, the key, the authorities and the revocation list of a
//! server.

use std::fs;

use quire_access::{ClientCertificates, ServerTls, TlsSettings, TlsVersion};

/// Whether the file can be used.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tls.pem");
    fs::write(&file, bytes).expect("written");
    let settings = TlsSettings {
        certificate: file.clone(),
        key: file.clone(),
        version_min: TlsVersion::Tls12,
        client_certificates: ClientCertificates::Optional,
        client_roots: Some(file.clone()),
        client_crls: vec![file.clone()],
        client_names: Vec::new(),
    };
    match ServerTls::load(&settings) {
        Ok(tls) => {
            tls.certificate_days_left(0);
            true
        }
        Err(error) => {
            assert!(error.to_string().contains("tls.pem"), "{error} names no file");
            false
        }
    }
}
