//! Bearer tokens of an OpenID provider: signed JSON Web Tokens (RFC 7519) in the place of API keys.
//!
//! ```text
//! token ──▶ three parts ──▶ key by its id ──▶ signature by the key's algorithm ──▶ claims ──▶ Principal
//! ```
//!
//! The algorithm is that of the key, and never that of the token: a token that names another one is
//! refused. Every claim that counts has exactly one type, and one of another type is no missing
//! claim but a wrong token. The keys come from a file, which is loaded again after it has changed.
//!
//! # What is not here
//! Requests to the provider: a program next to the server fetches the file of the keys.

mod claims;
mod jwk;
mod jwt;
mod settings;
#[cfg(test)]
mod tests;
mod verifier;

pub use settings::{OidcSettings, RoleMapping};
pub use verifier::TokenVerifier;

/// A token is not valid. No client learns the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WrongToken;
