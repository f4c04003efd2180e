//! How a node finds a cluster, and becomes a member.

use std::fmt;
use std::io;
use std::time::Duration;

use quire_access::PeerConnector;
use quire_model::codec::Encoder;
use quire_system::MemberAddresses;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::connection::greet;
use super::frame::{FRAME_OVERHEAD_BYTES, FrameKind, frame, invalid, read_frame};
use super::hello::{ClusterIdentity, HelloPurpose, PeerHello, PeerIdentity};

/// The time for one answer of a node.
pub(super) const ANSWER: Duration = Duration::from_secs(6);

/// Why a node does not join.
#[derive(Debug)]
pub enum JoinError {
    /// A member refuses it, with the reason. Trying again does not help.
    Refused(String),
    /// No member answers now, with what each address answered.
    Unreachable(String),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Refused(reason) | JoinError::Unreachable(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for JoinError {}

pub(super) fn hello_of(own: PeerIdentity, cluster: Option<ClusterIdentity>, purpose: HelloPurpose) -> PeerHello {
    PeerHello { cluster, from: own, purpose }
}

pub(super) fn error_of(address: &str, error: &io::Error) -> JoinError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => JoinError::Refused(error.to_string()),
        _ => JoinError::Unreachable(format!("{address}: {error}")),
    }
}

/// Asks the nodes at these addresses for their cluster, one after the other, until one answers.
///
/// # Errors
/// When one refuses, or none answers.
pub async fn discover(
    connector: &PeerConnector,
    addresses: &[String],
    own: PeerIdentity,
    cluster: Option<ClusterIdentity>,
) -> Result<ClusterIdentity, JoinError> {
    let mut failures = Vec::new();
    for address in addresses {
        match timeout(ANSWER, greet(connector, address, &hello_of(own, cluster, HelloPurpose::Join))).await {
            Ok(Ok((_, welcome))) => return Ok(welcome.cluster),
            Ok(Err(error)) => match error_of(address, &error) {
                JoinError::Unreachable(failure) => failures.push(failure),
                refused => return Err(refused),
            },
            Err(_) => failures.push(format!("{address}: no answer within {} s", ANSWER.as_secs())),
        }
    }
    Err(JoinError::Unreachable(failures.join("; ")))
}

/// Asks the nodes at these addresses, and the leader that they name, to make `own` a member with
/// these addresses.
///
/// # Errors
/// When none makes it a member now, and [`JoinError::Refused`] when each of them refuses. One that
/// refuses may be a member of an earlier cluster.
pub(crate) async fn join(
    connector: &PeerConnector,
    addresses: &[String],
    own: PeerIdentity,
    cluster: ClusterIdentity,
    announced: &MemberAddresses,
) -> Result<(), JoinError> {
    let (mut failures, mut refusals) = (Vec::new(), Vec::new());
    let mut asked = addresses.to_vec();
    let mut next = 0;
    while let Some(address) = asked.get(next).cloned() {
        next += 1;
        let answered = timeout(ANSWER, join_at(connector, &address, own, cluster, announced)).await;
        match answered {
            Ok(Ok(None)) => return Ok(()),
            Ok(Ok(Some(leader))) if leader.is_empty() || asked.contains(&leader) => {
                failures.push(format!("{address}: it knows no other leader now"));
            }
            Ok(Ok(Some(leader))) => asked.push(leader),
            Ok(Err(error)) => match error_of(&address, &error) {
                JoinError::Unreachable(failure) => failures.push(failure),
                JoinError::Refused(refusal) => refusals.push(refusal),
            },
            Err(_) => failures.push(format!("{address}: no answer within {} s", ANSWER.as_secs())),
        }
    }
    if failures.is_empty() && !refusals.is_empty() {
        return Err(JoinError::Refused(refusals.join("; ")));
    }
    failures.extend(refusals);
    Err(JoinError::Unreachable(failures.join("; ")))
}

/// Asks one node. Returns the address of the leader if that is another node.
async fn join_at(
    connector: &PeerConnector,
    address: &str,
    own: PeerIdentity,
    cluster: ClusterIdentity,
    announced: &MemberAddresses,
) -> io::Result<Option<String>> {
    let (mut stream, _) = greet(connector, address, &hello_of(own, Some(cluster), HelloPurpose::Join)).await?;
    let mut body = Encoder::new();
    announced.encode(&mut body);
    stream.write_all(&frame(FrameKind::Join, |out| out.extend(body.as_slice()))).await?;
    stream.flush().await?;
    match read_frame(&mut stream, FRAME_OVERHEAD_BYTES).await? {
        Some((FrameKind::Joined, _)) => Ok(None),
        Some((FrameKind::LeaderIs, bytes)) => {
            String::from_utf8(bytes).map(Some).map_err(|_| invalid("the address of the leader is not UTF-8"))
        }
        Some((FrameKind::Refused, reason)) => {
            let reason = format!("{address} refuses: {}", String::from_utf8_lossy(&reason));
            Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
        }
        _ => Err(invalid("no answer")),
    }
}
