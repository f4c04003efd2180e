//! What is read from a certificate: its names and its end.

use std::io;

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// The names of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CertificateNames {
    /// The URIs of the subject alternative names.
    pub(super) uris: Vec<String>,
    /// The DNS names of the subject alternative names, in lower case.
    pub(super) dns: Vec<String>,
    /// The common name of the subject. Of several, none: it would be unclear which one is meant.
    pub(super) common: Vec<String>,
}

impl CertificateNames {
    /// # Errors
    /// When the certificate can't be read.
    pub(super) fn read(certificate: &CertificateDer<'_>) -> io::Result<Self> {
        let certificate = parse(certificate)?;
        let mut names = CertificateNames::default();
        if let Some(alternative) = certificate.subject_alternative_name().map_err(invalid)? {
            for name in &alternative.value.general_names {
                match name {
                    GeneralName::URI(uri) => names.uris.push((*uri).to_owned()),
                    GeneralName::DNSName(dns) => names.dns.push(dns.to_ascii_lowercase()),
                    _ => {}
                }
            }
        }
        let mut common = certificate.subject().iter_common_name();
        if let (Some(only), None) = (common.next(), common.next()) {
            names.common.extend(only.as_str().map(str::to_owned));
        }
        Ok(names)
    }
}

/// The end of a certificate's validity, in seconds since 1970.
///
/// # Errors
/// When the certificate can't be read.
pub(super) fn end(certificate: &CertificateDer<'_>) -> io::Result<i64> {
    Ok(parse(certificate)?.validity().not_after.timestamp())
}

fn parse<'c>(certificate: &'c CertificateDer<'_>) -> io::Result<X509Certificate<'c>> {
    X509Certificate::from_der(certificate).map(|(_, certificate)| certificate).map_err(invalid)
}

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("invalid certificate: {error}"))
}
