//! The public keys of a provider: a JSON Web Key Set (RFC 7517, RFC 7518, RFC 8037).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Map, Value};

/// A key that verifies signatures of one algorithm.
#[derive(Debug)]
pub(super) struct ProviderKey {
    /// The id. A set with one key may leave it out.
    pub(super) id: Option<String>,
    /// The name of the algorithm, such as `RS256`.
    pub(super) algorithm: &'static str,
    material: KeyMaterial,
}

enum KeyMaterial {
    Rsa { parameters: &'static RsaParameters, modulus: Vec<u8>, exponent: Vec<u8> },
    Point { algorithm: &'static dyn VerificationAlgorithm, point: Vec<u8> },
}

impl std::fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            KeyMaterial::Rsa { .. } => "Rsa",
            KeyMaterial::Point { .. } => "Point",
        })
    }
}

/// The algorithms of RSA keys. A key without an algorithm has the first one.
const RSA: [(&str, &RsaParameters); 6] = [
    ("RS256", &RSA_PKCS1_2048_8192_SHA256),
    ("RS384", &RSA_PKCS1_2048_8192_SHA384),
    ("RS512", &RSA_PKCS1_2048_8192_SHA512),
    ("PS256", &RSA_PSS_2048_8192_SHA256),
    ("PS384", &RSA_PSS_2048_8192_SHA384),
    ("PS512", &RSA_PSS_2048_8192_SHA512),
];

/// The fewest and the most bytes of the modulus of an RSA key.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1_024;

impl ProviderKey {
    /// Parses the keys that verify signatures. Other keys are left out: for encryption, of unknown
    /// types, and secret ones.
    ///
    /// # Errors
    /// The problem, when the text is no set, has a broken key, or has no key that can be used.
    pub(super) fn parse_set(text: &[u8]) -> Result<Vec<Self>, String> {
        let set: Value = serde_json::from_slice(text).map_err(|error| format!("not JSON: {error}"))?;
        let keys = set.get("keys").and_then(Value::as_array).ok_or("no JSON Web Key Set: it has no list `keys`")?;
        let mut parsed = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let key = key.as_object().ok_or_else(|| format!("key {number} is no object"))?;
            parsed.extend(ProviderKey::parse(key).map_err(|problem| format!("key {number}: {problem}"))?);
        }
        if parsed.is_empty() {
            return Err("the set has no public key for signatures by RSA, P-256, P-384 or Ed25519".to_owned());
        }
        let ids = || parsed.iter().map(|key| &key.id);
        let is_twice = |(number, id): (usize, &Option<String>)| ids().take(number).any(|other| other == id);
        match ids().enumerate().any(is_twice) {
            true => Err("two keys have the same `kid`, or none".to_owned()),
            false => Ok(parsed),
        }
    }

    /// Parses a key; `None` when it verifies no signatures.
    fn parse(key: &Map<String, Value>) -> Result<Option<Self>, String> {
        let text = |name: &str| match key.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(format!("`{name}` is no text")),
        };
        let bytes = |name: &str| {
            let text = text(name)?.ok_or_else(|| format!("`{name}` is missing"))?;
            URL_SAFE_NO_PAD.decode(text).map_err(|_| format!("`{name}` is not base64url"))
        };
        if text("use")?.is_some_and(|purpose| purpose != "sig") {
            return Ok(None);
        }
        let named = text("alg")?;
        let (algorithm, material) = match (text("kty")?, text("crv")?) {
            (Some("RSA"), _) => {
                let found = RSA.iter().find(|(name, _)| named.is_none_or(|named| named == *name));
                let Some((name, parameters)) = found else { return Ok(None) };
                let (modulus, exponent) = (bytes("n")?, bytes("e")?);
                // Leading zeros are no part of a number.
                let modulus: Vec<u8> = modulus.into_iter().skip_while(|byte| *byte == 0).collect();
                if !MODULUS_BYTES.contains(&modulus.len()) {
                    return Err(format!("an RSA key must have 2,048 to 8,192 bits, got {}", modulus.len() * 8));
                }
                (*name, KeyMaterial::Rsa { parameters, modulus, exponent })
            }
            (Some("EC"), Some("P-256")) => ("ES256", point(&ECDSA_P256_SHA256_FIXED, &bytes("x")?, &bytes("y")?, 32)?),
            (Some("EC"), Some("P-384")) => ("ES384", point(&ECDSA_P384_SHA384_FIXED, &bytes("x")?, &bytes("y")?, 48)?),
            (Some("OKP"), Some("Ed25519")) => {
                let point = bytes("x")?;
                if point.len() != 32 {
                    return Err(format!("`x` must have 32 bytes, got {}", point.len()));
                }
                ("EdDSA", KeyMaterial::Point { algorithm: &ED25519, point })
            }
            _ => return Ok(None),
        };
        if named.is_some_and(|named| named != algorithm) {
            return Err(format!("`alg` does not fit the key, which has {algorithm}"));
        }
        Ok(Some(ProviderKey { id: text("kid")?.map(str::to_owned), algorithm, material }))
    }

    /// Whether the signature is that of the key's owner.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            KeyMaterial::Rsa { parameters, modulus, exponent } => {
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, message, signature).is_ok()
            }
            KeyMaterial::Point { algorithm, point } => {
                UnparsedPublicKey::new(*algorithm, point).verify(message, signature).is_ok()
            }
        }
    }
}

/// A point of an elliptic curve, uncompressed.
fn point(
    algorithm: &'static dyn VerificationAlgorithm,
    x: &[u8],
    y: &[u8],
    bytes: usize,
) -> Result<KeyMaterial, String> {
    if x.len() != bytes || y.len() != bytes {
        return Err(format!("`x` and `y` must have {bytes} bytes, got {} and {}", x.len(), y.len()));
    }
    Ok(KeyMaterial::Point { algorithm, point: [&[4], x, y].concat() })
}
