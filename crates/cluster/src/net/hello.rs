//! The first frames of a connection: which node speaks, to which node, and of which database.
//!
//! ```text
//! hello    "QUIREPER" │ version u16 │ purpose u8 │ cluster │ from │ to
//! welcome  cluster │ from
//! cluster  database 16 │ founder 16
//! from     node u64 │ incarnation 16, and so is `to`
//! ```
//! A database of zeros stands for no cluster yet.

use quire_model::codec::{CodecError, Decoder, Encoder};

use crate::agreement::NodeId;

const MAGIC: &[u8; 8] = b"QUIREPER";

/// The version of the protocol between nodes. Nodes of one cluster have the same.
pub(super) const PROTOCOL: u16 = 3;

/// A node: its number, and the random number that was made with its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerIdentity {
    /// The number.
    pub node: NodeId,
    /// The incarnation.
    pub incarnation: u128,
}

/// A cluster. Two clusters may have copies of one database: a backup that was restored keeps its
/// id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterIdentity {
    /// The id of the database.
    pub database: u128,
    /// The incarnation of the node that made the cluster.
    pub founder: u128,
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
    /// To forward a request of a client to a front end of the other node.
    Forward,
}

/// The first frame of the node that connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerHello {
    /// The cluster; `None` when the node belongs to none yet.
    pub(super) cluster: Option<ClusterIdentity>,
    pub(super) from: PeerIdentity,
    pub(super) purpose: HelloPurpose,
}

/// The answer to a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerWelcome {
    pub(super) cluster: ClusterIdentity,
    pub(super) from: PeerIdentity,
}

fn put_cluster(cluster: ClusterIdentity, out: &mut Encoder) {
    out.raw(&cluster.database.to_le_bytes()).raw(&cluster.founder.to_le_bytes());
}

fn read_cluster(from: &mut Decoder<'_>) -> Result<ClusterIdentity, CodecError> {
    Ok(ClusterIdentity { database: read_u128(from)?, founder: read_u128(from)? })
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
            HelloPurpose::Forward => 4,
        });
        put_cluster(self.cluster.unwrap_or(ClusterIdentity { database: 0, founder: 0 }), &mut out);
        put_identity(self.from, &mut out);
        match self.purpose {
            HelloPurpose::Replicate { to } => put_identity(to, &mut out),
            HelloPurpose::Join | HelloPurpose::Fetch | HelloPurpose::Forward => _ = out.raw(&[0; 24]),
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
        let cluster = Some(read_cluster(from)?).filter(|cluster| cluster.database != 0);
        let (sender, receiver) = (read_identity(from)?, read_identity(from)?);
        from.end()?;
        let purpose = match (purpose, receiver) {
            (1, Some(to)) => HelloPurpose::Replicate { to },
            (2, None) => HelloPurpose::Join,
            (3, None) => HelloPurpose::Fetch,
            (4, None) => HelloPurpose::Forward,
            _ => return Ok(None),
        };
        Ok(sender.map(|from| PeerHello { cluster, from, purpose }))
    }
}

impl PeerWelcome {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        put_cluster(self.cluster, &mut out);
        put_identity(self.from, &mut out);
        out.into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Decoder::new(bytes);
        let (cluster, identity) = (read_cluster(&mut from).ok()?, read_identity(&mut from).ok()??);
        from.end().ok()?;
        Some(PeerWelcome { cluster, from: identity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_reads_back_and_others_are_refused_with_the_reason() {
        let identity = |node| PeerIdentity { node: NodeId::new(node).expect("not zero"), incarnation: 9 << 100 };
        let cluster = |database| Some(ClusterIdentity { database, founder: 3 << 90 });
        for (cluster, purpose) in [
            (cluster(7), HelloPurpose::Replicate { to: identity(2) }),
            (None, HelloPurpose::Join),
            (cluster(1), HelloPurpose::Join),
            (None, HelloPurpose::Fetch),
            (cluster(7), HelloPurpose::Forward),
        ] {
            let hello = PeerHello { cluster, from: identity(1), purpose };
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
        let welcome = PeerWelcome { cluster: ClusterIdentity { database: 5, founder: 6 }, from: identity(3) };
        assert_eq!(PeerWelcome::decode(&welcome.encode()), Some(welcome));
        assert_eq!(PeerWelcome::decode(&welcome.encode()[1..]), None);
    }
}
