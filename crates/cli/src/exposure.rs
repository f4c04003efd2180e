//! Whether a listener may be reached by other machines.
//!
//! A server listens beyond its machine only with TLS and a check of credentials: access control, or
//! certificates that every client must have. `--insecure-listen` permits any other listener.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use quire_access::ServerTls;

use crate::failure::{CommandError, Result};
use crate::served_address::ServedAddress;
use crate::servers::Addresses;
use crate::text::quoted;

/// The protection that the listeners of a server share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerProtection<'p> {
    /// Whether its TLS requires certificates of clients; `None` without TLS.
    pub(crate) requires_certificates: Option<bool>,
    pub(crate) has_access_control: bool,
    /// The directory of the database, for the commands that add protection; `None` when the command
    /// can have none.
    pub(crate) data: Option<&'p Path>,
}

/// The protection that a listener has, of both that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListenerProtection {
    has_tls: bool,
    has_credentials: bool,
}

impl ServerProtection<'_> {
    /// The protection of a server with these files of TLS.
    pub(crate) fn with_tls(self, tls: Option<&Arc<ServerTls>>) -> Self {
        let requires_certificates = tls.map(|tls| tls.requires_client_certificates());
        ServerProtection { requires_certificates, ..self }
    }

    /// The protection of a listener; `None` when other machines can't reach it.
    fn of(self, address: &ServedAddress) -> Result<Option<ListenerProtection>> {
        if address.address.is_local() {
            return Ok(None);
        }
        let tls = address.tls(self.requires_certificates.as_ref()).map_err(CommandError::new)?;
        let has_credentials = self.has_access_control || tls == Some(&true);
        Ok(Some(ListenerProtection { has_tls: tls.is_some(), has_credentials }))
    }
}

impl ListenerProtection {
    fn problem(self) -> Option<&'static str> {
        match self {
            ListenerProtection { has_tls: true, has_credentials: true } => None,
            ListenerProtection { has_tls: false, has_credentials: false } => Some("no TLS and no access control"),
            ListenerProtection { has_tls: false, .. } => Some("no TLS"),
            ListenerProtection { has_credentials: false, .. } => Some("no access control"),
        }
    }
}

/// Checks that other machines reach protected listeners only.
///
/// # Errors
/// The message names each other listener, what it lacks, and the ways out.
pub(crate) fn check(addresses: &Addresses, server: ServerProtection<'_>) -> Result {
    if addresses.insecure_listen {
        return Ok(());
    }
    let mut exposed = Vec::new();
    for (flag, address) in addresses.all() {
        if let Some(listener) = server.of(address)?
            && let Some(problem) = listener.problem()
        {
            exposed.push((flag, address, listener, problem));
        }
    }
    let Some((flag, first, ..)) = exposed.first() else { return Ok(()) };
    let named = exposed.iter().map(|(flag, address, _, problem)| format!("{flag} {} has {problem}", address.address));
    let port = first.tcp().map_or(0, |address| address.port());
    let mut ways = vec![format!("listen on loopback with `{flag} 127.0.0.1:{port}`")];
    if let Some(data) = server.data {
        let mut missing = Vec::new();
        if exposed.iter().any(|(.., listener, _)| !listener.has_tls) {
            missing.push(match server.requires_certificates {
                Some(_) => "an address without `plain://`".to_owned(),
                None => "`--tls-certificate FILE --tls-key FILE`".to_owned(),
            });
        }
        if exposed.iter().any(|(.., listener, _)| !listener.has_credentials) {
            let data = quoted(&data.display().to_string());
            missing.push(format!("`quire access init root --data {data} --save-key root.key`"));
        }
        ways.push(format!("protect the server with {}", missing.join(" and ")));
    }
    Err(CommandError::new(format!(
        "other machines could reach an unprotected server: {}; {}, or accept that with `--insecure-listen`",
        named.collect::<Vec<_>>().join(", "),
        ways.join(", "),
    )))
}

/// Whether a directory can have a database with access control: it exists and is not empty.
pub(crate) fn may_have_access_control(data: &Path) -> bool {
    fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = "/var/lib/my quire";

    /// The message for one HTTP address, without `--insecure-listen`.
    fn message(http: &str, requires_certificates: Option<bool>, has_access_control: bool) -> String {
        let local: ServedAddress = "127.0.0.1:1".parse().expect("an address");
        let addresses = Addresses {
            kafka: vec![local.clone()],
            http: http.parse().expect("an address"),
            grpc: local,
            insecure_listen: false,
        };
        let server = ServerProtection { requires_certificates, has_access_control, data: Some(Path::new(DATA)) };
        let lax = check(&Addresses { insecure_listen: true, ..addresses.clone() }, server);
        assert!(lax.is_ok(), "{lax:?}");
        match check(&addresses, server) {
            Ok(()) => String::new(),
            Err(CommandError::Message(message)) => message,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn other_machines_reach_listeners_with_tls_and_credentials_only() {
        for address in ["127.0.0.1:7", "[::1]:7", "[::ffff:127.0.0.1]:7", "unix:/run/quire.sock"] {
            assert_eq!(message(address, None, false), "", "{address}");
        }
        for address in ["0.0.0.0:7", "[::]:7", "192.0.2.7:7"] {
            assert!(message(address, None, false).contains("has no TLS and no access control"), "{address}");
            assert!(message(address, None, true).contains("has no TLS;"), "{address}");
            assert!(message(address, Some(false), false).contains("has no access control;"), "{address}");
            assert_eq!(message(address, Some(false), true), "", "{address}");
            assert_eq!(message(address, Some(true), false), "", "{address}");
        }
        let plain = message("plain://192.0.2.7:7", Some(true), true);
        assert!(plain.contains("has no TLS; ") && plain.contains("with an address without `plain://`"), "{plain}");
        assert!(message("plain://192.0.2.7:7", Some(true), false).contains("no TLS and no access control"));
    }

    #[test]
    fn the_message_names_the_listener_and_the_possible_settings() {
        assert_eq!(
            message("192.0.2.7:7070", None, false),
            "other machines could reach an unprotected server: --http 192.0.2.7:7070 has no TLS and no access control; \
             listen on loopback with `--http 127.0.0.1:7070`, protect the server with `--tls-certificate FILE --tls-key \
             FILE` and `quire access init root --data '/var/lib/my quire' --save-key root.key`, or accept that with \
             `--insecure-listen`"
        );
    }
}
