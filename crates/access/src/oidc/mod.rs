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
//! [`ProviderLogin`] signs in browsers at the provider. It accepts ID tokens by the same rules.
//!
//! # What is not here
//! Requests for keys: a program next to the server fetches their file.

mod claims;
mod jwk;
mod jwt;
mod login;
mod pending;
mod provider;
mod settings;
#[cfg(test)]
mod tests;
mod url;
mod verifier;

use ctutils::CtEq;

pub use login::{LoginAnswer, LoginError, PreparedLogin, ProviderLogin};
pub use pending::LOGIN;
pub use settings::{LoginSettings, OidcSettings, RoleMapping};
pub use verifier::TokenVerifier;

/// A token is not valid. No client learns the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WrongToken;

/// Whether two secrets are equal. The time of the comparison does not depend on where they differ.
fn is_same_secret(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).to_bool()
}
