//! TLS of the listeners of a server.
//!
//! ```text
//! TlsSettings ─▶ files ─▶ one whole state, swapped at once ─▶ handshake ─▶ stream, TlsPeer
//!                          certificate, key, roots, CRLs, rules for names
//! ```
//!
//! * [`TlsSettings`]: paths and rules, as plain data.
//! * [`ServerTls`]: the loaded state, which is replaced while the listeners listen.
//! * [`PeerConnector`]: connections to other nodes of a cluster, with a certificate on both sides.
//! * [`NameRule`]: how the certificate of a client becomes the name of a principal.
//!
//! TLS 1.2 and 1.3, without early data. A state that can't be loaded changes nothing.

mod certificate;
mod connector;
mod handshake;
mod names;
mod server;
mod settings;
#[cfg(test)]
mod tests;

pub use connector::{PeerBytes, PeerConnector, PeerStream};
pub(crate) use handshake::TlsByteStream;
pub use names::NameRule;
pub use server::ServerTls;
pub(crate) use server::provider;
pub use settings::{ClientCertificates, TlsProtocol, TlsSettings, TlsVersion};
