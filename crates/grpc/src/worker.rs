//! The client side of the stream `Work`, for workers in Rust.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::proto::jobs_client::JobsClient;
use crate::proto::work_response::Kind;
use crate::proto::{WorkRequest, WorkResponse};

/// How many frames may wait to be sent.
const FRAMES_MAX: usize = 64;

/// A worker's stream: it sends frames, and receives jobs and replies.
#[derive(Debug)]
pub struct WorkerStream {
    /// `None` once the worker has finished.
    frames: Option<mpsc::Sender<WorkRequest>>,
    messages: Streaming<WorkResponse>,
}

impl WorkerStream {
    /// Opens the stream with its first frame, which may subscribe.
    ///
    /// # Errors
    /// The server's errors, or that it is unreachable.
    pub async fn begin(client: &mut JobsClient<Channel>, first: WorkRequest) -> Result<Self, Status> {
        let (frames, receiver) = mpsc::channel(FRAMES_MAX);
        let messages = client.work(begun(first, receiver)).await?.into_inner();
        Ok(WorkerStream { frames: Some(frames), messages })
    }

    /// Sends a frame, once the buffer has space for it.
    ///
    /// # Errors
    /// When the stream has ended, or the worker has [finished](WorkerStream::finish).
    /// [`WorkerStream::receive`] returns the reason.
    pub async fn send(&self, frame: WorkRequest) -> Result<(), Status> {
        let ended = || Status::unavailable("the stream has ended");
        let frames = self.frames.as_ref().ok_or_else(ended)?;
        frames.send(frame).await.map_err(|_| ended())
    }

    /// Signals that the worker sends no more frames: the server answers the open ones, and ends the
    /// stream.
    pub fn finish(&mut self) {
        self.frames = None;
    }

    /// Receives the next message of the server; `None` at the end.
    ///
    /// # Errors
    /// The server's errors, or that the connection broke.
    pub async fn receive(&mut self) -> Result<Option<Kind>, Status> {
        loop {
            match self.messages.message().await? {
                None => return Ok(None),
                Some(WorkResponse { kind: Some(kind) }) => return Ok(Some(kind)),
                // A kind of message of a later version.
                Some(WorkResponse { kind: None }) => {}
            }
        }
    }
}

/// The first frame, and the following ones.
fn begun(first: WorkRequest, frames: mpsc::Receiver<WorkRequest>) -> impl tokio_stream::Stream<Item = WorkRequest> {
    tokio_stream::StreamExt::chain(tokio_stream::once(first), ReceiverStream::new(frames))
}
