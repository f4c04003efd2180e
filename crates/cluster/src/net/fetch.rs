//! The files of a node, for another one that lacks records which no node has as such any more.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use quire_access::PeerConnector;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::connection::greet;
use super::frame::{FRAME_OVERHEAD_BYTES, FrameKind, frame, invalid, read_frame};
use super::hello::{ClusterIdentity, HelloPurpose, PeerIdentity};
use super::join::{ANSWER, JoinError, error_of, hello_of};
use crate::agreement::NodeId;
use crate::driver::{DriverMailbox, LeaderAddress};

/// The most bytes of files in one frame.
const CHUNK_BYTES: usize = 128 << 10;

/// The chunks that wait between the network and the disk.
const CHUNKS_WAITING: usize = 16;

/// The longest wait for the next chunk. The sender reads and verifies a whole segment before it
/// sends its first bytes.
const CHUNK_WAIT: Duration = Duration::from_secs(60);

/// The files of a node that runs, as one stream of bytes.
pub trait NodeFiles: fmt::Debug + Send + Sync {
    /// Sends the stream to `sink`, from its beginning to its end.
    ///
    /// # Errors
    /// When the files can't be read, and the first error of `sink`.
    fn send(&self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>;
}

/// Sends the files of this node to `node` if it leads, and otherwise the address of the leader.
pub(super) async fn send_files(
    mailbox: &Arc<DriverMailbox>,
    files: &Arc<dyn NodeFiles>,
    node: NodeId,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<()> {
    let leader_is = |address: &str| frame(FrameKind::LeaderIs, |out| out.extend(address.as_bytes()));
    let open = match mailbox.leader() {
        LeaderAddress::This => mailbox.begin_files(node).ok_or_else(|| leader_is("")),
        LeaderAddress::Other(address) => Err(leader_is(&address)),
        LeaderAddress::Unknown => Err(leader_is("")),
    };
    let _open = match open {
        Ok(open) => open,
        Err(answer) => return stream.write_all(&answer).await,
    };
    let (sender, mut chunks) = mpsc::channel(CHUNKS_WAITING);
    let files = Arc::clone(files);
    let reading = spawn_blocking(move || {
        files.send(&mut |bytes| {
            let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the other node is gone");
            bytes.chunks(CHUNK_BYTES).try_for_each(|chunk| sender.blocking_send(chunk.to_vec()).map_err(gone))
        })
    });
    while let Some(chunk) = chunks.recv().await {
        let bytes = frame(FrameKind::Files, |out| out.extend(chunk));
        timeout(ANSWER, stream.write_all(&bytes)).await??;
    }
    let end = match reading.await.map_err(io::Error::other)? {
        Ok(()) => frame(FrameKind::FilesEnd, |_| ()),
        Err(error) => frame(FrameKind::Refused, |out| out.extend(error.to_string().as_bytes())),
    };
    stream.write_all(&end).await?;
    stream.flush().await
}

/// The stream of files that arrives. It ends early when the transfer fails.
#[derive(Debug)]
pub struct FetchedFiles {
    chunks: mpsc::Receiver<Vec<u8>>,
    chunk: Vec<u8>,
    /// The bytes of `chunk` that were read.
    read: usize,
}

impl Read for FetchedFiles {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.read == self.chunk.len() {
            let Some(next) = self.chunks.blocking_recv() else { return Ok(0) };
            (self.chunk, self.read) = (next, 0);
        }
        let count = out.len().min(self.chunk.len() - self.read);
        out[..count].copy_from_slice(&self.chunk[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

/// Fetches the files of the leader, which the nodes at these addresses name. The returned task ends
/// with the stream, and says why it ended.
pub fn fetch_files(
    runtime: &Handle,
    connector: PeerConnector,
    addresses: Vec<String>,
    own: PeerIdentity,
    cluster: Option<ClusterIdentity>,
) -> (FetchedFiles, JoinHandle<Result<(), JoinError>>) {
    let (sender, chunks) = mpsc::channel(CHUNKS_WAITING);
    let task = runtime.spawn(async move { fetch(&connector, addresses, own, cluster, &sender).await });
    (FetchedFiles { chunks, chunk: Vec::new(), read: 0 }, task)
}

async fn fetch(
    connector: &PeerConnector,
    mut asked: Vec<String>,
    own: PeerIdentity,
    cluster: Option<ClusterIdentity>,
    chunks: &mpsc::Sender<Vec<u8>>,
) -> Result<(), JoinError> {
    let (mut failures, mut next) = (Vec::new(), 0);
    while let Some(address) = asked.get(next).cloned() {
        next += 1;
        match fetch_from(connector, &address, own, cluster, chunks).await {
            Ok(None) => return Ok(()),
            Ok(Some(leader)) if leader.is_empty() || asked.contains(&leader) => {}
            Ok(Some(leader)) => asked.push(leader),
            Err(FetchError::Before(error)) => match error_of(&address, &error) {
                JoinError::Unreachable(failure) => failures.push(failure),
                refused => return Err(refused),
            },
            Err(FetchError::Within(error)) => {
                return Err(JoinError::Unreachable(format!("the files of {address} ended early: {error}")));
            }
        }
    }
    if failures.is_empty() {
        failures.push("no node leads the cluster now, or it sends its files to another node".to_owned());
    }
    Err(JoinError::Unreachable(failures.join("; ")))
}

/// A failure before the first byte of the files, or after it.
enum FetchError {
    Before(io::Error),
    Within(io::Error),
}

/// Fetches the files of one node. Returns the address of the leader if that is another node.
async fn fetch_from(
    connector: &PeerConnector,
    address: &str,
    own: PeerIdentity,
    cluster: Option<ClusterIdentity>,
    chunks: &mpsc::Sender<Vec<u8>>,
) -> Result<Option<String>, FetchError> {
    let hello = hello_of(own, cluster, HelloPurpose::Fetch);
    let greeted = timeout(ANSWER, greet(connector, address, &hello)).await;
    let greeted = greeted.map_err(|error| FetchError::Before(error.into()))?;
    let (mut stream, _) = greeted.map_err(FetchError::Before)?;
    let mut has_begun = false;
    loop {
        let failed = |error| if has_begun { FetchError::Within(error) } else { FetchError::Before(error) };
        let read = timeout(CHUNK_WAIT, read_frame(&mut stream, FRAME_OVERHEAD_BYTES)).await;
        let read = read.map_err(|error| failed(error.into()))?.map_err(failed)?;
        match read {
            Some((FrameKind::Files, bytes)) => {
                has_begun = true;
                let gone = |_| FetchError::Within(io::Error::other("the files can't be written"));
                chunks.send(bytes).await.map_err(gone)?;
            }
            Some((FrameKind::FilesEnd, _)) => return Ok(None),
            Some((FrameKind::LeaderIs, bytes)) if !has_begun => {
                let address = String::from_utf8(bytes);
                return address.map(Some).map_err(|_| failed(invalid("the address of the leader is not UTF-8")));
            }
            Some((FrameKind::Refused, reason)) => {
                return Err(failed(io::Error::other(String::from_utf8_lossy(&reason).into_owned())));
            }
            _ => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}
