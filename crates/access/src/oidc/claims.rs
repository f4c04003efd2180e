//! The claims of a token whose signature is right (RFC 7519, section 4).

use std::sync::Arc;

use quire::Timestamp;
use quire::system::{Principal, is_access_name};
use serde_json::{Map, Value};

use super::WrongToken;
use super::settings::OidcSettings;

/// How far the clock of the provider may be ahead, in seconds.
const AHEAD_S: f64 = 60.0;

/// The principal that the claims of a bearer token stand for at `now`.
///
/// # Errors
/// [`WrongToken`]: a claim is missing, of another type or not accepted.
pub(super) fn principal(
    claims: &Map<String, Value>,
    settings: &OidcSettings,
    now: Timestamp,
) -> Result<Principal, WrongToken> {
    principal_for(claims, settings, &settings.audience, now)
}

/// The principal that the claims of an ID token for this client stand for at `now` (OpenID Connect
/// Core 1.0, section 3.1.3.7). The caller compares the nonce. A session may outlast the token.
///
/// # Errors
/// Like [`principal`].
pub(super) fn principal_of_login(
    claims: &Map<String, Value>,
    settings: &OidcSettings,
    client_id: &str,
    now: Timestamp,
) -> Result<Principal, WrongToken> {
    let principal = principal_for(claims, settings, client_id, now)?;
    let is_for_others = texts(claims.get("aud").ok_or(WrongToken)?)?.len() > 1;
    // The client that the token was issued to.
    match claims.get("azp") {
        None if is_for_others => Err(WrongToken),
        Some(party) if party.as_str() != Some(client_id) => Err(WrongToken),
        _ => Ok(Principal { expires: None, ..principal }),
    }
}

fn principal_for(
    claims: &Map<String, Value>,
    settings: &OidcSettings,
    audience: &str,
    now: Timestamp,
) -> Result<Principal, WrongToken> {
    if text(claims, "iss")? != settings.issuer || !has_audience(claims, audience)? {
        return Err(WrongToken);
    }
    let now_s = now.as_micros() as f64 / 1_000_000.0;
    let expires_s = time(claims, "exp")?.ok_or(WrongToken)?;
    let begins_s = time(claims, "nbf")?.unwrap_or_default();
    time(claims, "iat")?;
    if now_s >= expires_s || begins_s > now_s + AHEAD_S {
        return Err(WrongToken);
    }
    let name = text(claims, &settings.principal_claim)?;
    if !is_access_name(name) {
        return Err(WrongToken);
    }
    let roles = roles(claims, settings)?;
    // A conversion from a float ends at the largest number.
    let expires = Some(Timestamp::from_micros((expires_s * 1_000_000.0) as u64));
    Ok(Principal { expires, roles, ..Principal::named(name) })
}

pub(super) fn text<'c>(claims: &'c Map<String, Value>, name: &str) -> Result<&'c str, WrongToken> {
    claims.get(name).and_then(Value::as_str).ok_or(WrongToken)
}

/// A time in seconds since 1970, which may have a fraction.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<f64>, WrongToken> {
    match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().filter(|seconds| *seconds >= 0.0).map(Some).ok_or(WrongToken),
    }
}

fn has_audience(claims: &Map<String, Value>, audience: &str) -> Result<bool, WrongToken> {
    Ok(texts(claims.get("aud").ok_or(WrongToken)?)?.contains(&audience))
}

/// A text, or a list of texts.
fn texts(value: &Value) -> Result<Vec<&str>, WrongToken> {
    match value {
        Value::String(text) => Ok(vec![text]),
        Value::Array(values) => values.iter().map(|value| value.as_str().ok_or(WrongToken)).collect(),
        _ => Err(WrongToken),
    }
}

/// The roles of the groups that the claims have. A token without the claim has none.
fn roles(claims: &Map<String, Value>, settings: &OidcSettings) -> Result<Arc<[Arc<str>]>, WrongToken> {
    let found = settings.roles_claim.as_ref().and_then(|claim| claims.get(claim));
    let groups = found.map_or(Ok(Vec::new()), texts)?;
    let held = settings.roles.iter().filter(|mapping| groups.contains(&&*mapping.group));
    let mut roles: Vec<Arc<str>> = held.map(|mapping| mapping.role.as_str().into()).collect();
    roles.sort_unstable();
    roles.dedup();
    Ok(roles.into())
}
