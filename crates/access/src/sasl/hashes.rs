//! HMAC and hashes of the SCRAM mechanisms, and a comparison in constant time.

use ctutils::CtEq;
use hmac::{Hmac, KeyInit, Mac};
use quire::system::ScramMechanism;
use sha2::{Digest, Sha256, Sha512};

/// The HMAC of the concatenated parts.
pub(super) fn hmac(mechanism: ScramMechanism, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    match mechanism {
        ScramMechanism::Sha256 => mac_of::<Hmac<Sha256>>(key, parts),
        ScramMechanism::Sha512 => mac_of::<Hmac<Sha512>>(key, parts),
    }
}

fn mac_of<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

/// The hash of the bytes.
pub(super) fn hash(mechanism: ScramMechanism, bytes: &[u8]) -> Vec<u8> {
    match mechanism {
        ScramMechanism::Sha256 => Sha256::digest(bytes).to_vec(),
        ScramMechanism::Sha512 => Sha512::digest(bytes).to_vec(),
    }
}

/// Whether the bytes are equal. The time of the comparison does not depend on where they differ.
pub(super) fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).to_bool()
}
