//! Requests that this node forwards to the leader, and those that it gets as the leader.
//!
//! ```text
//! client  front end u8 │ peer u8 │ 1, 2 (TLS): remote, local · 3: user u32, group u32 │ has principal u8
//!         │ name │ key, or empty │ roles: count u32, names │ has expiry u8, expiry u64
//! ```
//! Addresses and names are texts with their length before them.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use quire_access::budget::FrontEnd;
use quire_access::{BoxedFuture, ForwardOrigin, LeaderConnection, LeaderConnector, Peer, PeerConnector, TlsPeer};
use quire_model::Timestamp;
use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_shard::{ClusterLeader, Shard};
use quire_system::{KeyId, Principal};
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::connection::greet;
use super::frame::{FRAME_OVERHEAD_BYTES, FrameKind, frame, invalid, read_frame};
use super::hello::{HelloPurpose, PeerHello};
use super::table::MemberTable;

/// The time for a connection to the leader.
const CONNECT: Duration = Duration::from_secs(2);

/// How often a request that waits for the leader looks whether it still leads.
const LOOK: Duration = Duration::from_millis(250);

/// The most roles of a principal.
const ROLES_MAX: usize = 1_024;

/// Connects to the leader for the front ends of this node.
#[derive(Debug, Clone)]
pub(crate) struct LeaderLine {
    table: Arc<MemberTable>,
    shard: Weak<Shard>,
    connector: Arc<PeerConnector>,
}

/// The leader that this shard names to clients. So a client that learns of a leader is also
/// forwarded to it.
fn leader_of(shard: &Weak<Shard>) -> Option<ClusterLeader> {
    shard.upgrade()?.not_leader().leader().cloned()
}

impl LeaderLine {
    pub(crate) fn new(table: Arc<MemberTable>, shard: Weak<Shard>, connector: Arc<PeerConnector>) -> Self {
        LeaderLine { table, shard, connector }
    }

    async fn connect_for(&self, origin: ForwardOrigin) -> io::Result<LeaderConnection> {
        let Some(leader) = leader_of(&self.shard) else {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "no other node leads the cluster now"));
        };
        let address = &leader.addresses.cluster;
        let cluster = Some(self.table.cluster());
        let hello = PeerHello { cluster, from: self.table.own(), purpose: HelloPurpose::Forward };
        let (mut stream, _) = greet(&self.connector, address, &hello).await?;
        stream.write_all(&frame(FrameKind::Client, |out| out.extend(encode(&origin)))).await?;
        stream.flush().await?;
        let shard = Weak::clone(&self.shard);
        let deposed = Box::pin(async move {
            while leader_of(&shard).as_ref() == Some(&leader) {
                sleep(LOOK).await;
            }
        });
        Ok(LeaderConnection { stream, deposed })
    }
}

impl LeaderConnector for LeaderLine {
    fn connect(&self, origin: ForwardOrigin) -> BoxedFuture<io::Result<LeaderConnection>> {
        let line = self.clone();
        Box::pin(async move { timeout(CONNECT, line.connect_for(origin)).await? })
    }
}

/// Reads the client of a forwarded request; `None` at the end of the stream.
///
/// # Errors
/// Those of the stream, and when the client is not valid.
pub(super) async fn read_origin(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<ForwardOrigin>> {
    match read_frame(stream, FRAME_OVERHEAD_BYTES).await? {
        Some((FrameKind::Client, bytes)) => match decode(&bytes) {
            Ok(Some(origin)) => Ok(Some(origin)),
            _ => Err(invalid("the client of a forwarded request is not valid")),
        },
        Some((kind, _)) => Err(invalid(format!("unexpected frame {kind:?}"))),
        None => Ok(None),
    }
}

fn number_of(front_end: FrontEnd) -> u8 {
    match front_end {
        FrontEnd::Kafka => 1,
        FrontEnd::Http => 2,
        FrontEnd::Grpc => 3,
    }
}

fn encode(origin: &ForwardOrigin) -> Vec<u8> {
    let mut out = Encoder::new();
    out.u8(number_of(origin.front_end));
    match &origin.peer {
        Peer::Tcp { local, remote, tls } => {
            out.u8(if tls.is_some() { 2 } else { 1 });
            out.str(&remote.to_string()).str(&local.to_string());
        }
        Peer::Unix { uid, gid, .. } => _ = out.u8(3).u32(*uid).u32(*gid),
    }
    out.u8(u8::from(origin.principal.is_some()));
    if let Some(Principal { name, key, roles, expires, password: _ }) = &origin.principal {
        out.str(name).str(key.as_ref().map_or("", KeyId::as_str));
        out.u32(u32::try_from(roles.len()).expect("a principal has few roles"));
        roles.iter().for_each(|role| _ = out.str(role));
        out.u8(u8::from(expires.is_some()));
        if let Some(expires) = expires {
            out.u64(expires.as_millis());
        }
    }
    out.into_bytes()
}

fn decode(bytes: &[u8]) -> Result<Option<ForwardOrigin>, CodecError> {
    let mut from = Decoder::new(bytes);
    let front_end = from.u8()?;
    let Some(front_end) = FrontEnd::ALL.into_iter().find(|known| number_of(*known) == front_end) else {
        return Ok(None);
    };
    let peer = match from.u8()? {
        kind @ (1 | 2) => {
            let (remote, local) = (from.str()?.parse::<SocketAddr>(), from.str()?.parse::<SocketAddr>());
            let (Ok(remote), Ok(local)) = (remote, local) else { return Ok(None) };
            Peer::Tcp { local, remote, tls: (kind == 2).then(TlsPeer::default) }
        }
        // Kafka clients connect over TCP.
        3 if front_end != FrontEnd::Kafka => Peer::Unix { uid: from.u32()?, gid: from.u32()?, pid: None },
        _ => return Ok(None),
    };
    let mut principal = None;
    if from.u8()? == 1 {
        let name = from.str()?.into();
        let key = match from.str()? {
            "" => None,
            text => match KeyId::parse(text) {
                Some(key) => Some(key),
                None => return Ok(None),
            },
        };
        let count = from.u32()? as usize;
        if count > ROLES_MAX {
            return Ok(None);
        }
        let mut roles = Vec::new();
        for _ in 0..count {
            roles.push(from.str()?.into());
        }
        let expires = if from.u8()? == 1 { Some(Timestamp::from_millis(from.u64()?)) } else { None };
        principal = Some(Principal { name, key, password: None, roles: roles.into(), expires });
    }
    from.end()?;
    Ok(Some(ForwardOrigin { front_end, peer, principal }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_reads_back_and_a_shortened_one_does_not() {
        let address = |text: &str| text.parse().expect("an address");
        let named = Principal {
            name: "ada".into(),
            key: KeyId::parse("aB3dE6gH9j"),
            password: None,
            roles: ["readers".into(), "writers".into()].into(),
            expires: Some(Timestamp::from_millis(1_000)),
        };
        let tcp = |tls| Peer::Tcp { local: address("127.0.0.1:7070"), remote: address("[::1]:5"), tls };
        for (front_end, peer, principal) in [
            (FrontEnd::Http, tcp(None), None),
            (FrontEnd::Kafka, tcp(Some(TlsPeer::default())), Some(named.clone())),
            (FrontEnd::Grpc, Peer::Unix { uid: 7, gid: 8, pid: None }, Some(Principal::named("uid:7".to_owned()))),
        ] {
            let origin = ForwardOrigin { front_end, peer, principal };
            let bytes = encode(&origin);
            assert_eq!(decode(&bytes).expect("it is whole"), Some(origin));
            for length in 0..bytes.len() {
                assert!(!matches!(decode(&bytes[..length]), Ok(Some(_))), "{length}");
            }
        }
        let unix = ForwardOrigin {
            front_end: FrontEnd::Kafka,
            peer: Peer::Unix { uid: 1, gid: 1, pid: None },
            principal: None,
        };
        assert_eq!(decode(&encode(&unix)).expect("it is whole"), None);
    }
}
