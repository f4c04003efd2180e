//! Requests that a node which does not lead forwards to the leader: those that clients send to any
//! broker, and only the leader answers.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use quire_access::budget::{BudgetCaller, FrontEnd};
use quire_access::{ForwardOrigin, LeaderConnection, PeerStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::api::{self, AnsweringNode};
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::frame::RequestFrame;
use crate::request::Api;

/// The length before each frame, in bytes.
const LENGTH_BYTES: usize = 4;

/// Returns whether the leader answers the request, and this node forwards it now.
pub(crate) fn is_forwarded(broker: &Broker, api: Api) -> bool {
    api::answering_node(api) == AnsweringNode::Forwarded && broker.forwarding().is_some()
}

/// Forwards the frame of a request, without its length. Returns the frame of the response.
///
/// # Errors
/// [`CloseReason::Failed`] when the leader can't be reached or does not answer. It may have carried
/// out the request then, as with every connection that ends early.
pub(crate) async fn ask_leader(
    broker: &Broker,
    origin: ForwardOrigin,
    caller: &BudgetCaller,
    frame: Bytes,
) -> Result<RequestFrame, CloseReason> {
    assert_eq!(origin.front_end, FrontEnd::Kafka, "a request of another protocol");
    // A new leader answers by itself.
    let forwarding = broker.forwarding().ok_or(CloseReason::Failed)?;
    let connected = forwarding.connect(origin).await.map_err(|_| CloseReason::Failed)?;
    let LeaderConnection { mut stream, deposed } = connected;
    let answered = timeout(api::SHORT_OF_MEMORY, exchange(&mut stream, caller, frame));
    tokio::select! {
        answered = answered => answered.map_err(|_| CloseReason::Failed)?.map_err(|_| CloseReason::Failed),
        () = deposed => Err(CloseReason::Failed),
    }
}

async fn exchange(leader: &mut PeerStream, caller: &BudgetCaller, frame: Bytes) -> io::Result<RequestFrame> {
    let length = i32::try_from(frame.len()).map_err(io::Error::other)?;
    leader.write_all(&length.to_be_bytes()).await?;
    leader.write_all(&frame).await?;
    drop(frame);
    leader.flush().await?;
    let length = usize::try_from(leader.read_i32().await?).map_err(io::Error::other)?;
    let mut held = caller.claim();
    held.grow_patiently(LENGTH_BYTES + length).await;
    let mut bytes = BytesMut::with_capacity(LENGTH_BYTES + length);
    bytes.put_i32(i32::try_from(length).map_err(io::Error::other)?);
    bytes.resize(LENGTH_BYTES + length, 0);
    leader.read_exact(&mut bytes[LENGTH_BYTES..]).await?;
    Ok(RequestFrame { bytes: bytes.freeze(), held: Some(held) })
}
