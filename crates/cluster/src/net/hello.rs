//! The first frames of a connection: which node speaks, to which node, and of which database.
//!
//! ```text
//! hello    "QUIREPER" │ version u16 │ purpose u8 │ database 16 │ from: node u64, incarnation 16 │ to: the same
//! welcome  database 16 │ node u64, incarnation 16
//! ```

use quire_model::codec::{CodecError, Decoder, Encoder};

use crate::agreement::NodeId;

const MAGIC: &[u8; 8] = b"QUIREPER";

/// The version of the protocol between nodes. Nodes of one cluster have the same.
pub(super) const PROTOCOL: u16 = 2;

/// A node: its number, and the random number that was made with its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerIdentity {
    /// The number.
    pub node: NodeId,
    /// The incarnation.
    pub incarnation: u128,
}

/// Why a node connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HelloPurpose {
    /// To exchange messages of the agreement with the node `to`.
    Replicate { to: PeerIdentity },
    /// To become a member, or to announce new addresses.
    Join,
    /// To get all files.
    Fetch,
}

/// The first frame of the node that connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerHello {
    /// The database; `None` when the node has none yet.
    pub(super) database: Option<u128>,
    pub(super) from: PeerIdentity,
    pub(super) purpose: HelloPurpose,
}

/// The answer to a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerWelcome {
    pub(super) database: u128,
    pub(super) from: PeerIdentity,
}

fn put_identity(identity: PeerIdentity, out: &mut Encoder) {
    out.u64(identity.node.get()).raw(&identity.incarnation.to_le_bytes());
}

fn read_u128(from: &mut Decoder<'_>) -> Result<u128, CodecError> {
    Ok(u128::from_le_bytes(from.raw(16)?.try_into().expect("16 bytes were taken")))
}

fn read_identity(from: &mut Decoder<'_>) -> Result<Option<PeerIdentity>, CodecError> {
    let (node, incarnation) = (from.u64()?, read_u128(from)?);
    Ok(NodeId::new(node).map(|node| PeerIdentity { node, incarnation }))
}

impl PeerHello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.raw(MAGIC).u16(PROTOCOL);
        out.u8(match self.purpose {
            HelloPurpose::Replicate { .. } => 1,
            HelloPurpose::Join => 2,
            HelloPurpose::Fetch => 3,
        });
        out.raw(&self.database.unwrap_or(0).to_le_bytes());
        put_identity(self.from, &mut out);
        match self.purpose {
            HelloPurpose::Replicate { to } => put_identity(to, &mut out),
            HelloPurpose::Join | HelloPurpose::Fetch => _ = out.raw(&[0; 24]),
        }
        out.into_bytes()
    }

    /// Reads a hello.
    ///
    /// # Errors
    /// The reason, for the other node.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut from = Decoder::new(bytes);
        if from.raw(MAGIC.len()).ok() != Some(MAGIC) {
            return Err("this port is for the nodes of a Quire cluster".to_owned());
        }
        let version = from.u16().map_err(|error| error.to_string())?;
        if version != PROTOCOL {
            return Err(format!("this node speaks version {PROTOCOL} of the protocol between nodes, got {version}"));
        }
        PeerHello::read(&mut from).map_err(|error| error.to_string())?.ok_or_else(|| "an invalid hello".to_owned())
    }

    fn read(from: &mut Decoder<'_>) -> Result<Option<Self>, CodecError> {
        let purpose = from.u8()?;
        let database = Some(read_u128(from)?).filter(|id| *id != 0);
        let (sender, receiver) = (read_identity(from)?, read_identity(from)?);
        from.end()?;
        let purpose = match (purpose, receiver) {
            (1, Some(to)) => HelloPurpose::Replicate { to },
            (2, None) => HelloPurpose::Join,
            (3, None) => HelloPurpose::Fetch,
            _ => return Ok(None),
        };
        Ok(sender.map(|from| PeerHello { database, from, purpose }))
    }
}

impl PeerWelcome {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.raw(&self.database.to_le_bytes());
        put_identity(self.from, &mut out);
        out.into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Decoder::new(bytes);
        let (database, identity) = (read_u128(&mut from).ok()?, read_identity(&mut from).ok()??);
        from.end().ok()?;
        Some(PeerWelcome { database, from: identity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_reads_back_and_others_are_refused_with_the_reason() {
        let identity = |node| PeerIdentity { node: NodeId::new(node).expect("not zero"), incarnation: 9 << 100 };
        for (database, purpose) in [
            (Some(7), HelloPurpose::Replicate { to: identity(2) }),
            (None, HelloPurpose::Join),
            (Some(1), HelloPurpose::Join),
            (None, HelloPurpose::Fetch),
        ] {
            let hello = PeerHello { database, from: identity(1), purpose };
            let bytes = hello.encode();
            assert_eq!(PeerHello::decode(&bytes), Ok(hello));
            for length in 0..bytes.len() {
                assert!(PeerHello::decode(&bytes[..length]).is_err());
            }
            let mut other = bytes.clone();
            other[8] = 9;
            assert!(PeerHello::decode(&other).unwrap_err().contains("got 9"));
            other[0] = b'G';
            assert!(PeerHello::decode(&other).unwrap_err().contains("this port is for"));
        }
        let welcome = PeerWelcome { database: 5, from: identity(3) };
        assert_eq!(PeerWelcome::decode(&welcome.encode()), Some(welcome));
        assert_eq!(PeerWelcome::decode(&welcome.encode()[1..]), None);
    }
}
