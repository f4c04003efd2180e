//! Responses in pages: each is built on another thread once the client has space for it. So a slow
//! client blocks neither a thread nor a writer.

use std::sync::Arc;

use quire_access::BoundedRequest;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::app::App;
use crate::aside::aside;
use crate::error::stopping;

/// The pages of a response.
pub(super) type PageStream<T> = ReceiverStream<Result<T, Status>>;

/// A page ends with the item that reaches this size in bytes.
pub(super) const PAGE_BYTES: usize = 256 << 10;

/// Maximum number of items in a page.
pub(super) const PAGE_ITEMS_MAX: usize = 1_024;

/// How many pages may wait for the client.
const PAGES_WAITING_MAX: usize = 2;

/// A result that is sent in pages.
pub(super) trait PagedResult: Send + 'static {
    type Page: Send + 'static;

    /// The next page; `None` at the end.
    ///
    /// # Errors
    /// The error at the end of the stream, or, for the first page, of the call.
    fn next(&mut self, app: &App) -> Result<Option<Self::Page>, Status>;

    /// Waits until there may be another page; returns whether there may ever be one.
    fn more(&mut self, _app: &App) -> impl Future<Output = Result<bool, Status>> + Send {
        async { Ok(false) }
    }
}

/// Sends all pages.
///
/// # Errors
/// The error of the first page.
pub(super) async fn stream<P: PagedResult>(app: Arc<App>, pages: P) -> Result<PageStream<P::Page>, Status> {
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
            () = sender.closed() => Ok(()),
            () = app.closing() => Err(stopping()),
        };
        if let Err(status) = told {
            // A client that has disconnected, or does not read, is disconnected by the transport.
            let _ = sender.try_send(Err(status));
        }
    });
    Ok(ReceiverStream::new(stream))
}

/// Builds the next page on another thread, within the steps of a request. The work ends when the
/// client leaves, which drops this future.
async fn next<P: PagedResult>(app: Arc<App>, mut pages: P) -> Result<(P, Option<P::Page>), Status> {
    let request = BoundedRequest::begin(&app.database);
    let app = app.within(&request);
    aside(move || pages.next(&app).map(|page| (pages, page))).await
}
