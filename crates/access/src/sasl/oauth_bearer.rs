//! OAUTHBEARER (RFC 7628): `n,[a=authorization id],␁auth=Bearer TOKEN␁[name=value␁…]␁`, where ␁ is
//! the byte 1.
//!
//! A client whose token is not accepted gets the reason as JSON, answers it with the byte 1, and
//! fails then.

use quire::system::Principal;

use super::exchange::{Credentials, SaslFailure, SaslStep};
use crate::oidc::TokenVerifier;

/// Longest message of a client, in bytes: the longest token, and some fields.
pub(super) const MESSAGE_BYTES_MAX: usize = 17 << 10;

/// Separates the fields of a message.
const SEPARATOR: char = '\u{1}';

/// The response to a message whose token is not accepted.
const INVALID_TOKEN: &[u8] = br#"{"status":"invalid_token"}"#;

/// Answers the message of a client. A server without tokens accepts none.
///
/// # Errors
/// [`SaslFailure`] for a malformed message, and for one that asks for another principal than that
/// of its token.
pub(super) fn answer(
    message: &str,
    tokens: Option<&TokenVerifier>,
    with: Credentials<'_>,
) -> Result<SaslStep, SaslFailure> {
    let (acts_as, token) = read(message).ok_or(SaslFailure)?;
    let accepted = |principal: &Principal| with.rules.admits(principal, with.now);
    match tokens.and_then(|tokens| tokens.verify(token, with.now)).filter(accepted) {
        None => Ok(SaslStep::Refused(INVALID_TOKEN.to_vec())),
        Some(principal) if acts_as.is_none_or(|name| name == *principal.name) => {
            Ok(SaslStep::Authenticated { principal, message: Vec::new() })
        }
        Some(_) => Err(SaslFailure),
    }
}

/// The principal that the client asks for, if any, and its token.
fn read(message: &str) -> Option<(Option<String>, &str)> {
    let (header, fields) = message.split_once(SEPARATOR)?;
    // A client that could bind the channel may say so: `y`.
    let header = header.strip_prefix("n,").or_else(|| header.strip_prefix("y,"))?.strip_suffix(',')?;
    let acts_as = match header.strip_prefix("a=") {
        Some(name) => Some(name.replace("=2C", ",").replace("=3D", "=")).filter(|name| !name.is_empty()),
        None if header.is_empty() => None,
        None => return None,
    };
    let fields = fields.strip_suffix(SEPARATOR)?.strip_suffix(SEPARATOR)?;
    let mut found = None;
    for field in fields.split(SEPARATOR) {
        let (name, value) = field.split_once('=')?;
        // Other fields are extensions, which have no meaning here.
        if name == "auth" && found.replace(value).is_some() {
            return None;
        }
    }
    let (scheme, token) = found?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some((acts_as, token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_the_rfc_and_clients_write_them() {
        let plain = |token| Some((None, token));
        assert_eq!(read("n,,\u{1}auth=Bearer a.b.c\u{1}\u{1}"), plain("a.b.c"));
        assert_eq!(read("y,,\u{1}auth=bearer a.b.c\u{1}\u{1}"), plain("a.b.c"));
        let extended = "n,,\u{1}host=server.example\u{1}port=143\u{1}auth=Bearer a=\u{1}\u{1}";
        assert_eq!(read(extended), plain("a="));
        let named = "n,a=ann=2Cof=3Dacme,\u{1}auth=Bearer t\u{1}\u{1}";
        assert_eq!(read(named), Some((Some("ann,of=acme".to_owned()), "t")));
        assert_eq!(read("n,a=,\u{1}auth=Bearer t\u{1}\u{1}"), plain("t"));
        for wrong in [
            "",
            "\u{1}",
            "n,,",
            "n,,\u{1}\u{1}",
            "n,,\u{1}auth=Bearer t",
            "n,,\u{1}auth=Bearer t\u{1}",
            "n,\u{1}auth=Bearer t\u{1}\u{1}",
            "p=tls-exporter,,\u{1}auth=Bearer t\u{1}\u{1}",
            "n,b=x,\u{1}auth=Bearer t\u{1}\u{1}",
            "n,,\u{1}auth=Basic t\u{1}\u{1}",
            "n,,\u{1}auth=Bearer\u{1}\u{1}",
            "n,,\u{1}auth\u{1}\u{1}",
            "n,,\u{1}host=a\u{1}\u{1}",
            "n,,\u{1}auth=Bearer t\u{1}auth=Bearer u\u{1}\u{1}",
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
