//! Answers in pages: each made aside once the client has room for it, so that a slow client holds neither a thread nor a
//! writer.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::app::App;
use crate::aside::aside;
use crate::error::stopping;

/// The pages of an answer.
pub(super) type Stream<T> = ReceiverStream<Result<T, Status>>;

/// A page ends with what takes it to so many bytes, ...
pub(super) const PAGE_BYTES: usize = 256 << 10;

/// ... and has at most so many items.
pub(super) const PAGE_ITEMS_MAX: usize = 1_024;

/// How many pages may wait for the client.
const PAGES_WAITING_MAX: usize = 2;

/// Something that is told page by page.
pub(super) trait Pages: Send + 'static {
    type Page: Send + 'static;

    /// The next page; `None` when all was told.
    ///
    /// # Errors
    /// What the client is told at the end of the stream, or, of the first page, at once.
    fn next(&mut self, app: &App) -> Result<Option<Self::Page>, Status>;

    /// Waits until there may be more, when all that there was is told; says whether there ever will be.
    fn more(&mut self, _app: &App) -> impl Future<Output = Result<bool, Status>> + Send {
        async { Ok(false) }
    }
}

/// Tells all of it.
///
/// # Errors
/// What the first page fails with.
pub(super) async fn stream<P: Pages>(app: Arc<App>, pages: P) -> Result<Stream<P::Page>, Status> {
    let (sender, stream) = mpsc::channel(PAGES_WAITING_MAX);
    let (mut pages, mut page) = next(Arc::clone(&app), pages).await?;
    tokio::spawn(async move {
        let telling = async {
            loop {
                match page {
                    Some(page) => {
                        if sender.send(Ok(page)).await.is_err() {
                            return Ok(());
                        }
                    }
                    None => {
                        let more = tokio::select! {
                            more = pages.more(&app) => more?,
                            () = sender.closed() => false,
                        };
                        if !more {
                            return Ok(());
                        }
                    }
                }
                (pages, page) = next(Arc::clone(&app), pages).await?;
            }
        };
        let told = tokio::select! {
            told = telling => told,
            () = app.closing() => Err(stopping()),
        };
        if let Err(status) = told {
            // A client that has left, or takes nothing, is cut off with its connection.
            let _ = sender.try_send(Err(status));
        }
    });
    Ok(ReceiverStream::new(stream))
}

/// Makes the next page aside.
async fn next<P: Pages>(app: Arc<App>, mut pages: P) -> Result<(P, Option<P::Page>), Status> {
    aside(move || pages.next(&app).map(|page| (pages, page))).await
}
