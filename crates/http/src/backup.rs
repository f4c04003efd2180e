//! `GET /v1/backup`: a backup of the database, as a tar archive that is streamed.
//!
//! The archive is made on another thread, at the pace of the client. The client's share of the byte
//! budget covers the file that is read, and the pieces on their way. One backup runs at a time.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use quire::tools::BackupSink;
use quire_access::budget::{BudgetRefusal, ByteClaim, carried};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::app::App;
use crate::error::Problem;
use crate::memory::PIECE_BYTES;
use crate::params::Params;

/// The type of a tar archive.
const TYPE: &str = "application/x-tar";

/// Pieces of the archive that wait for the client.
const WAITING_MAX: usize = 4;

/// The memory of the pieces that wait, are written and are read.
const PIECES_BYTES: usize = (WAITING_MAX + 2) * PIECE_BYTES;

/// Sends the pieces of an archive to a client.
struct PieceSender {
    pieces: mpsc::Sender<Result<Bytes, Problem>>,
    claim: ByteClaim,
    /// Set when a file exceeds the whole budget.
    refusal: Option<BudgetRefusal>,
    runtime: Handle,
}

impl BackupSink for PieceSender {
    fn make_space(&mut self, bytes: u64) -> io::Result<()> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(PIECES_BYTES);
        self.claim.shrink_to(bytes);
        let more = bytes - self.claim.bytes();
        if self.claim.try_grow(more) {
            return Ok(());
        }
        if let Err(refusal @ BudgetRefusal::TooLarge { .. }) = self.claim.caller().check(bytes, false) {
            self.refusal = Some(refusal);
            return Err(io::Error::other(refusal));
        }
        let (claim, pieces) = (&mut self.claim, &self.pieces);
        self.runtime.block_on(async {
            tokio::select! {
                () = claim.grow_patiently(more) => Ok(()),
                () = pieces.closed() => Err(left()),
            }
        })
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut pieces = bytes.chunks(PIECE_BYTES).map(Bytes::copy_from_slice);
        pieces.try_for_each(|piece| self.pieces.blocking_send(Ok(piece)).map_err(|_| left()))
    }
}

fn left() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the client has left")
}

/// Responds with the archive. An error before its first byte is a response, and a later one ends
/// the connection.
pub(crate) async fn backup(State(app): State<Arc<App>>, params: Params) -> Result<Response, Problem> {
    params.end()?;
    let turn = Arc::clone(&app.backing_up).lock_owned().await;
    let (sender, mut pieces) = mpsc::channel(WAITING_MAX);
    let (database, claim) = (app.database.clone(), app.memory.caller().claim());
    let mut sink = PieceSender { pieces: sender, claim, refusal: None, runtime: Handle::current() };
    let work = carried(move || {
        let _turn = turn;
        if let Err(error) = database.stream_backup(&mut sink) {
            let problem = sink.refusal.map_or_else(|| Problem::from(error), Problem::from);
            // A client that has left gets no error.
            let _ = sink.pieces.blocking_send(Err(problem));
        }
    });
    drop(tokio::task::spawn_blocking(work));
    match pieces.recv().await {
        Some(Ok(first)) => {
            let rest = ReceiverStream::new(pieces)
                .map(|piece| piece.map_err(|problem| io::Error::other(problem.into_message())));
            let body = Body::from_stream(tokio_stream::once(Ok(first)).chain(rest));
            Ok(([(CONTENT_TYPE, TYPE)], body).into_response())
        }
        Some(Err(problem)) => Err(problem),
        None => Err(Problem::stopping()),
    }
}
