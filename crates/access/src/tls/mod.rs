//! TLS of a listener.
//!
//! ```text
//! TlsSettings ─▶ files ─▶ one whole state, swapped at once ─▶ handshake ─▶ stream, TlsPeer
//!                          certificate, key, roots, CRLs, rules for names
//! ```
//!
//! * [`TlsSettings`]: paths and rules, as plain data.
//! * [`ListenerTls`]: the loaded state of a listener, which is replaced while it listens.
//! * [`NameRule`]: how the certificate of a client becomes the name of a principal.
//!
//! TLS 1.2 and 1.3, without early data. A state that can't be loaded changes nothing.

mod certificate;
mod handshake;
mod listener;
mod names;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use handshake::TlsByteStream;
pub use listener::ListenerTls;
pub use names::NameRule;
pub use settings::{ClientCertificates, TlsProtocol, TlsSettings};
