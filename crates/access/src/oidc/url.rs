//! URLs of a provider, and the parameters of requests to it.

use std::net::IpAddr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ureq::http::Uri;

/// The bytes of a parameter that are encoded: all others are unreserved (RFC 3986, section 2.3).
const PARAMETER: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Whether a URL is `https`, or `http` to this machine.
pub(super) fn is_protected(url: &str) -> bool {
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let Some(host) = host_of(url).filter(|_| is_plain) else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    url.starts_with("https://") || url.starts_with("http://") && is_loopback
}

/// The host of a URL without user and password.
pub(super) fn host_of(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    Some(authority.host().to_owned())
}

/// Parameters, as a query or a form has them.
pub(super) fn query_of(parameters: &[(&str, &str)]) -> String {
    let pairs = parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// A text as the value of a parameter.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PARAMETER).to_string()
}
