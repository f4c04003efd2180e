//! A signed token in its compact form (RFC 7515): `header.payload.signature`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::WrongToken;
use super::jwk::ProviderKey;

/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// The types of tokens: RFC 7519, and RFC 9068 for access tokens.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// Verifies the signature of a token with the key that it names, and returns its claims.
///
/// # Errors
/// [`WrongToken`].
pub(super) fn verified(token: &str, keys: &[ProviderKey]) -> Result<Map<String, Value>, WrongToken> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(WrongToken);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(WrongToken)?;
    let (header, payload) = signed.split_once('.').ok_or(WrongToken)?;
    let key = key_of(&object(header)?, keys)?;
    // More than three parts have another dot, which is not base64url.
    let signature = decode(signature)?;
    if !key.verifies(signed.as_bytes(), &signature) {
        return Err(WrongToken);
    }
    object(payload)
}

/// The key that the header names. Its algorithm must be that of the key.
fn key_of<'k>(header: &Map<String, Value>, keys: &'k [ProviderKey]) -> Result<&'k ProviderKey, WrongToken> {
    let text = |name: &str| match header.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(WrongToken),
    };
    // An extension that the server would have to know.
    if header.contains_key("crit") {
        return Err(WrongToken);
    }
    if text("typ")?.is_some_and(|kind| !TYPES.contains(&&*kind.to_ascii_lowercase())) {
        return Err(WrongToken);
    }
    let key = match (text("kid")?, keys) {
        (Some(id), _) => keys.iter().find(|key| key.id.as_deref() == Some(id)).ok_or(WrongToken)?,
        (None, [only]) => only,
        (None, _) => return Err(WrongToken),
    };
    if text("alg")? == Some(key.algorithm) { Ok(key) } else { Err(WrongToken) }
}

fn object(part: &str) -> Result<Map<String, Value>, WrongToken> {
    match serde_json::from_slice(&decode(part)?) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(WrongToken),
    }
}

fn decode(part: &str) -> Result<Vec<u8>, WrongToken> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| WrongToken)
}
