//! `GET /v1/backup`: a backup of the database, as a tar archive that is streamed.
//!
//! The archive is made on another thread, at the pace of the client. The client's share of the byte
//! budget covers the file that is read, and the pieces on their way. One backup runs at a time.
//!
//! The archive is complete only when its thread reports that. So a failure and a panic of the
//! thread both end the connection in the middle of the response.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use quire::tools::BackupSink;
use quire::{Database, Operation, Resource};
use quire_access::RunningWork;
use quire_access::budget::{BudgetRefusal, ByteClaim};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;

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

/// The time in which a client must read the next piece. A slower client ends its backup, because
/// other backups wait for it.
const PIECE_TIME: Duration = Duration::from_secs(60);

/// Sends the pieces of an archive to a client.
struct PieceSender {
    pieces: mpsc::Sender<Bytes>,
    piece_time: Duration,
    claim: ByteClaim,
    /// Set when a file exceeds the whole budget.
    refusal: Option<BudgetRefusal>,
    right: BackupRight,
    runtime: Handle,
}

/// How often a backup that waits for its client checks that the client may still have it.
const LOOK: Duration = Duration::from_millis(250);

/// The right of a client to the backup, which it has as long as its session.
#[derive(Debug, Clone)]
struct BackupRight(Database);

impl BackupRight {
    /// Checks that the client still has the right.
    fn check(&self) -> io::Result<()> {
        if self.0.permits(Resource::BACKUP, Operation::Read) { Ok(()) } else { Err(lost()) }
    }

    /// Waits until the client has lost the right.
    async fn lost(&self) {
        while self.check().is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    }
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
        let right = self.right.clone();
        self.runtime.block_on(async {
            tokio::select! {
                () = claim.grow_patiently(more) => Ok(()),
                () = pieces.closed() => Err(left()),
                () = right.lost() => Err(lost()),
            }
        })
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut pieces = bytes.chunks(PIECE_BYTES).map(Bytes::copy_from_slice);
        pieces.try_for_each(|piece| {
            self.right.check()?;
            self.runtime.block_on(async {
                tokio::select! {
                    sent = tokio::time::timeout(self.piece_time, self.pieces.send(piece)) => match sent {
                        Ok(sent) => sent.map_err(|_| left()),
                        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads too slowly")),
                    },
                    () = self.right.lost() => Err(lost()),
                }
            })
        })
    }
}

/// The archive as the body of a response.
struct ArchiveStream {
    pieces: mpsc::Receiver<Bytes>,
    /// The end of the thread, which sends nothing when it panics.
    end: oneshot::Receiver<Result<(), Problem>>,
    has_ended: bool,
}

impl Stream for ArchiveStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if let Some(piece) = ready!(self.pieces.poll_recv(context)) {
            return Poll::Ready(Some(Ok(piece)));
        }
        let end = ready!(Pin::new(&mut self.end).poll(context));
        self.has_ended = true;
        Poll::Ready(match end {
            Ok(Ok(())) => None,
            Ok(Err(problem)) => Some(Err(io::Error::other(problem.into_message()))),
            Err(_) => Some(Err(io::Error::other("the backup ended early"))),
        })
    }
}

/// Makes an archive on another thread. Returns it once its first piece is there.
///
/// # Errors
/// Those of `make` before the first piece.
async fn archive(
    mut sink: PieceSender,
    mut pieces: mpsc::Receiver<Bytes>,
    make: impl FnOnce(&mut PieceSender) -> Result<(), Problem> + Send + 'static,
) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + 'static, Problem> {
    let (ended, end) = oneshot::channel();
    let running = RunningWork::begin(Box::new(move || {
        let made = make(&mut sink);
        drop(sink);
        // A client that has left gets no error.
        let _ = ended.send(made);
    }));
    match pieces.recv().await {
        Some(first) => {
            let rest = ArchiveStream { pieces, end, has_ended: false };
            Ok(tokio_stream::StreamExt::chain(tokio_stream::once(Ok(first)), rest))
        }
        None => {
            drop(running.ended().await);
            Err(end.await.ok().and_then(Result::err).unwrap_or_else(Problem::stopping))
        }
    }
}

fn lost() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the client may no longer read a backup")
}

fn left() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the client has left")
}

/// Responds with the archive. An error before its first byte is a response, and a later one ends
/// the connection.
pub(crate) async fn backup(State(app): State<Arc<App>>, params: Params) -> Result<Response, Problem> {
    params.end()?;
    let turn = Arc::clone(&app.backing_up).lock_owned().await;
    let (sender, pieces) = mpsc::channel(WAITING_MAX);
    let (database, claim) = (app.database(), app.memory.caller().claim());
    let runtime = Handle::current();
    let right = BackupRight(database.clone());
    let sink = PieceSender { pieces: sender, piece_time: PIECE_TIME, claim, refusal: None, right, runtime };
    let make = move |sink: &mut PieceSender| {
        let _turn = turn;
        let made = database.stream_backup(sink);
        made.map(drop).map_err(|error| sink.refusal.take().map_or_else(|| Problem::from(error), Problem::from))
    };
    let archive = archive(sink, pieces, make).await?;
    Ok(([(CONTENT_TYPE, TYPE)], Body::from_stream(archive)).into_response())
}

#[cfg(test)]
mod tests {
    use quire_access::budget::{ByteBudget, FrontEnd};
    use tokio_stream::StreamExt;

    use super::*;

    /// The pieces of an archive with this piece time, and whether it ends as a complete one.
    async fn made(
        piece_time: Duration,
        reads: bool,
        make: impl FnOnce(&mut PieceSender) -> Result<(), Problem> + Send + 'static,
    ) -> (usize, bool) {
        let claim = ByteBudget::new(16 << 20).caller(FrontEnd::Http, None).claim();
        let (sender, pieces) = mpsc::channel(WAITING_MAX);
        let runtime = Handle::current();
        let directory = tempfile::tempdir().expect("a directory");
        let right = BackupRight(Database::open(directory.path()).expect("a database"));
        let sink = PieceSender { pieces: sender, piece_time, claim, refusal: None, right, runtime };
        let (ended, end) = oneshot::channel();
        let work = move |sink: &mut PieceSender| {
            let _ended = ended;
            make(sink)
        };
        let mut archive = Box::pin(archive(sink, pieces, work).await.expect("it begins"));
        if !reads {
            // The thread ends although its client reads no further piece.
            let _: Result<(), oneshot::error::RecvError> = end.await;
        }
        let mut count = 0;
        while let Some(piece) = archive.next().await {
            match piece {
                Ok(_) => count += 1,
                Err(_) => {
                    assert!(archive.next().await.is_none());
                    return (count, false);
                }
            }
        }
        (count, true)
    }

    fn send(sink: &mut PieceSender, count: usize) -> Result<(), Problem> {
        let sent = (0..count).try_for_each(|_| sink.send(&[7; 10]));
        sent.map_err(|error| Problem::invalid(error.to_string()))
    }

    #[tokio::test]
    async fn an_archive_is_complete_only_when_its_thread_reports_success() {
        assert_eq!(made(PIECE_TIME, true, |sink| send(sink, 9)).await, (9, true));
        let failing = |sink: &mut PieceSender| send(sink, 9).and(Err(Problem::invalid("damaged")));
        assert_eq!(made(PIECE_TIME, true, failing).await, (9, false));
        let panicking = |sink: &mut PieceSender| {
            send(sink, 9)?;
            panic!("a defect of the backup")
        };
        assert_eq!(made(PIECE_TIME, true, panicking).await, (9, false));
    }

    #[tokio::test]
    async fn a_client_that_reads_too_slowly_ends_its_backup() {
        let (count, is_complete) = made(Duration::from_millis(1), false, |sink| send(sink, 100)).await;
        assert!(!is_complete && count < 100, "{count}");
    }
}
