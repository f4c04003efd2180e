//! The messages of a SCRAM client (RFC 5802, section 7).

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The first message of a client. It shows its user only.
#[derive(PartialEq, Eq)]
pub(super) struct ClientFirst<'m> {
    /// The header of GS2, with its last comma.
    pub(super) header: &'m str,
    /// The message without the header.
    pub(super) bare: &'m str,
    pub(super) user: String,
    pub(super) nonce: &'m str,
}

/// The last message of a client. It shows nothing of it.
#[derive(PartialEq, Eq)]
pub(super) struct ClientFinal<'m> {
    /// The header of GS2 and the data of a channel binding.
    pub(super) binding: Vec<u8>,
    /// The nonces of both sides.
    pub(super) nonces: &'m str,
    pub(super) proof: Vec<u8>,
    /// The message before the proof.
    pub(super) without_proof: &'m str,
}

impl<'m> ClientFirst<'m> {
    /// Reads a message. `None` for one that demands channel binding, an extension that the server
    /// must know, or another user's rights.
    pub(super) fn parse(message: &'m str) -> Option<Self> {
        let after_flag = message.strip_prefix("n,").or_else(|| message.strip_prefix("y,"))?;
        let (acts_as, bare) = after_flag.split_once(',')?;
        let header = &message[..message.len() - bare.len()];
        let mut attributes = bare.split(',');
        let user = name_of(attributes.next()?.strip_prefix("n=")?)?;
        let nonce = attributes.next()?.strip_prefix("r=")?;
        let is_self = match acts_as {
            "" => true,
            _ => name_of(acts_as.strip_prefix("a=")?)? == user,
        };
        let is_valid = is_self && is_nonce(nonce) && attributes.all(is_extension);
        is_valid.then(|| ClientFirst { header, bare, user: user.into_owned(), nonce })
    }
}

impl<'m> ClientFinal<'m> {
    /// Reads a message.
    pub(super) fn parse(message: &'m str) -> Option<Self> {
        let (without_proof, proof) = message.rsplit_once(",p=")?;
        let mut attributes = without_proof.split(',');
        let binding = STANDARD.decode(attributes.next()?.strip_prefix("c=")?).ok()?;
        let nonces = attributes.next()?.strip_prefix("r=")?;
        let proof = STANDARD.decode(proof).ok()?;
        let is_valid = is_nonce(nonces) && attributes.all(is_extension);
        is_valid.then_some(ClientFinal { binding, nonces, proof, without_proof })
    }
}

impl fmt::Debug for ClientFirst<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientFirst({:?})", self.user)
    }
}

impl fmt::Debug for ClientFinal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientFinal")
    }
}

/// A name, in which `=2C` stands for a comma and `=3D` for an equals sign.
fn name_of(text: &str) -> Option<Cow<'_, str>> {
    if text.is_empty() || text.contains('\0') {
        return None;
    }
    if !text.contains('=') {
        return Some(text.into());
    }
    let mut pieces = text.split('=');
    let mut name = pieces.next()?.to_owned();
    for piece in pieces {
        let (escaped, rest) = piece.split_at_checked(2)?;
        name.push(match escaped {
            "2C" => ',',
            "3D" => '=',
            _ => return None,
        });
        name.push_str(rest);
    }
    Some(name.into())
}

fn is_nonce(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (b'!'..=b'~').contains(&byte))
}

/// An attribute that the server may ignore. Kafka's have names of several letters. `m` stands for
/// one that the server must know.
fn is_extension(attribute: &str) -> bool {
    attribute.split_once('=').is_some_and(|(name, value)| {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
        is_name && name != "m" && !value.is_empty()
    })
}
