//! The worker's end of the stream `Work`, for clients in Rust.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::proto::jobs_client::JobsClient;
use crate::proto::work_response::Kind;
use crate::proto::{WorkRequest, WorkResponse};

/// How many frames may wait to be sent.
const FRAMES_MAX: usize = 64;

/// A worker's stream: frames go out, jobs and answers come in.
#[derive(Debug)]
pub struct WorkerStream {
    /// `None` once the worker has said all.
    frames: Option<mpsc::Sender<WorkRequest>>,
    messages: Streaming<WorkResponse>,
}

impl WorkerStream {
    /// Begins with the frame that may subscribe.
    ///
    /// # Errors
    /// The server's, or that it can't be reached.
    pub async fn begin(client: &mut JobsClient<Channel>, first: WorkRequest) -> Result<Self, Status> {
        let (frames, receiver) = mpsc::channel(FRAMES_MAX);
        let messages = client.work(begun(first, receiver)).await?.into_inner();
        Ok(WorkerStream { frames: Some(frames), messages })
    }

    /// Sends a frame, once there is room for it.
    ///
    /// # Errors
    /// When the stream has ended, or the worker has [finished](WorkerStream::finish); why, [`WorkerStream::receive`] says.
    pub async fn send(&self, frame: WorkRequest) -> Result<(), Status> {
        let ended = || Status::unavailable("the stream has ended");
        let frames = self.frames.as_ref().ok_or_else(ended)?;
        frames.send(frame).await.map_err(|_| ended())
    }

    /// Says that there is nothing more to say: the server answers what is under way, and ends the stream.
    pub fn finish(&mut self) {
        self.frames = None;
    }

    /// What the server says next; `None` at the end.
    ///
    /// # Errors
    /// The server's, or that the connection broke.
    pub async fn receive(&mut self) -> Result<Option<Kind>, Status> {
        loop {
            match self.messages.message().await? {
                None => return Ok(None),
                Some(WorkResponse { kind: Some(kind) }) => return Ok(Some(kind)),
                // Of a kind that a later server has.
                Some(WorkResponse { kind: None }) => {}
            }
        }
    }
}

/// The first frame, and those that follow.
fn begun(first: WorkRequest, frames: mpsc::Receiver<WorkRequest>) -> impl tokio_stream::Stream<Item = WorkRequest> {
    tokio_stream::StreamExt::chain(tokio_stream::once(first), ReceiverStream::new(frames))
}
