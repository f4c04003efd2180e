//! Responses in pages: each is read on another thread when the transport asks for it, which is when
//! the client has read the previous ones. So a slow client blocks neither a thread nor a writer.
//!
//! The memory of a page is claimed before the page is read, and held until the next page is asked
//! for. By then the page is encoded, and `metering` has claimed the encoded bytes. A page waits for
//! memory while its stream holds none; the first page is refused instead.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use prost::Message;
use quire_access::budget::{BudgetCaller, ByteClaim, handle_for};
use quire_access::{BoundedRequest, ReadTurn};
use tokio::time::timeout;
use tokio_stream::Stream;
use tonic::Status;

use crate::app::App;
use crate::aside::aside;
use crate::error::overloaded;

/// The pages of a response.
pub(crate) type PageStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A page ends with the item that reaches this size in bytes.
pub(crate) const PAGE_BYTES: usize = 256 << 10;

/// Maximum number of items in a page.
pub(crate) const PAGE_ITEMS_MAX: usize = 1_024;

/// How long a page waits for memory.
pub(crate) const MEMORY_WAIT: Duration = Duration::from_secs(20);

/// A result that is sent in pages.
pub(crate) trait PagedResult: Send + 'static {
    type Page: Message + Send + 'static;

    /// The next page; `None` when there is none now.
    ///
    /// # Errors
    /// The error at the end of the stream, or, for the first page, of the call.
    fn next(&mut self, app: &App) -> Result<Option<Self::Page>, Status>;

    /// Waits until there may be another page; returns whether there may ever be one.
    fn more(&mut self, _app: &App) -> impl Future<Output = Result<bool, Status>> + Send {
        async { Ok(false) }
    }
}

/// Sends all pages, of which the first is read at once.
///
/// # Errors
/// The error of the first page.
pub(crate) async fn stream<P: PagedResult>(app: Arc<App>, pages: P) -> Result<PageStream<P::Page>, Status> {
    let caller = app.caller();
    let mut claim = caller.claim();
    claim.grow(PAGE_BYTES).map_err(overloaded)?;
    let (pages, page) = next(&app, pages, claim, None).await?;
    let step = match page {
        Some(page) => PageStep::Read(pages, page),
        None => PageStep::Idle(pages),
    };
    Ok(Box::pin(PagesInProgress { app, caller, step, held: None, _watched: None }))
}

/// Sends all pages, each when it is asked for. They are read with the database of `watched`, whose
/// work ends when the client leaves.
pub(crate) fn stream_later<P: PagedResult>(app: Arc<App>, watched: BoundedRequest, pages: P) -> PageStream<P::Page> {
    let caller = app.caller();
    Box::pin(PagesInProgress { app, caller, step: PageStep::Idle(pages), held: None, _watched: Some(watched) })
}

/// A page, and its memory.
type HeldPage<P> = (<P as PagedResult>::Page, ByteClaim);

type PageFuture<P> = Pin<Box<dyn Future<Output = Result<Option<(P, HeldPage<P>)>, Status>> + Send>>;

/// The stream of pages.
struct PagesInProgress<P: PagedResult> {
    app: Arc<App>,
    caller: BudgetCaller,
    step: PageStep<P>,
    /// The memory of the page that was taken last.
    held: Option<ByteClaim>,
    /// The request of pages that are read with its database.
    _watched: Option<BoundedRequest>,
}

enum PageStep<P: PagedResult> {
    /// A page is ready.
    Read(P, HeldPage<P>),
    /// The next page was not asked for yet.
    Idle(P),
    Reading(PageFuture<P>),
    Ended,
}

// Nothing is pinned in place.
impl<P: PagedResult> Unpin for PagesInProgress<P> {}

impl<P: PagedResult> Stream for PagesInProgress<P> {
    type Item = Result<P::Page, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.held = None;
        loop {
            match std::mem::replace(&mut this.step, PageStep::Ended) {
                PageStep::Read(pages, (page, claim)) => {
                    this.held = Some(claim);
                    this.step = PageStep::Idle(pages);
                    return Poll::Ready(Some(Ok(page)));
                }
                PageStep::Idle(pages) => {
                    let reading = following(Arc::clone(&this.app), this.caller.clone(), pages);
                    let reading = handle_for(this.caller.clone(), reading);
                    this.step = PageStep::Reading(Box::pin(reading));
                }
                PageStep::Reading(mut reading) => {
                    let Poll::Ready(read) = reading.as_mut().poll(context) else {
                        this.step = PageStep::Reading(reading);
                        return Poll::Pending;
                    };
                    match read {
                        Ok(Some((pages, page))) => this.step = PageStep::Read(pages, page),
                        Ok(None) => return Poll::Ready(None),
                        Err(status) => return Poll::Ready(Some(Err(status))),
                    }
                }
                PageStep::Ended => return Poll::Ready(None),
            }
        }
    }
}

/// Reads the next page, and waits until there is one; `None` at the end.
async fn following<P: PagedResult>(
    app: Arc<App>,
    caller: BudgetCaller,
    mut pages: P,
) -> Result<Option<(P, HeldPage<P>)>, Status> {
    let reading = async {
        loop {
            let mut claim = caller.claim();
            if timeout(MEMORY_WAIT, claim.grow_patiently(PAGE_BYTES)).await.is_err() {
                // Counts the refusal, unless there is memory by now.
                claim.grow(PAGE_BYTES).map_err(overloaded)?;
            }
            let page;
            (pages, page) = next(&app, pages, claim, Some(app.pages().turn().await)).await?;
            match page {
                Some(page) => return Ok(Some((pages, page))),
                None if pages.more(&app).await? => {}
                None => return Ok(None),
            }
        }
    };
    tokio::select! {
        read = reading => read,
        status = app.closing() => Err(status),
    }
}

/// Reads a page on another thread, in its turn and within the steps of a request. The work ends
/// when the client leaves, which drops this future. The memory of the page is then that of its
/// encoded size.
async fn next<P: PagedResult>(
    app: &Arc<App>,
    mut pages: P,
    mut claim: ByteClaim,
    turn: Option<ReadTurn>,
) -> Result<(P, Option<HeldPage<P>>), Status> {
    app.check_session()?;
    let request = BoundedRequest::begin(app.database());
    let theirs = app.within(&request);
    let read = move || {
        let _turn = turn;
        let page = pages.next(&theirs)?.map(|page| {
            // A page ends with the item that exceeds the limit.
            let bytes = page.encoded_len();
            claim.grow_anyway(bytes.saturating_sub(claim.bytes()));
            claim.shrink_to(bytes);
            (page, claim)
        });
        Ok((pages, page))
    };
    aside(read).await
}
