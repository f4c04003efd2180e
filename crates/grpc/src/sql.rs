//! The service `Sql`: read-only statements, with their rows in pages.
//!
//! A statement holds a thread and a turn, which it shares with the statements over HTTP. It reads
//! no further than a few pages ahead of its client, and ends when the client leaves.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use quire::{Database, ErrorKind, Position};
use quire_access::budget::ByteClaim;
use quire_access::{BoundedRequest, RunningWork};
use quire_sql::{OwnedSqlStatement, Sql, SqlSummary, SqlValue, SqlValueRef};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use crate::app::{App, ServiceComponents};
use crate::error::{self, failed, invalid, overloaded, stopping, unread};
use crate::pages::{PAGE_BYTES, PAGE_ITEMS_MAX, PageStream};
use crate::proto;
use crate::proto::sql_value::Kind;

/// The most values of a statement.
const PARAMETERS_MAX: usize = 1_000;

/// The memory of a statement besides its result: a page of rows of a table.
const STATEMENT_BYTES: usize = 2 << 20;

/// Pages that wait for the client.
const WAITING_MAX: usize = 4;

/// The time in which a client must read the next page.
const PAGE_TIME: Duration = Duration::from_secs(60);

/// The service.
#[derive(Debug)]
pub(crate) struct SqlService {
    components: Arc<ServiceComponents>,
}

impl SqlService {
    pub(crate) fn new(components: Arc<ServiceComponents>) -> Self {
        SqlService { components }
    }
}

#[tonic::async_trait]
impl proto::sql_server::Sql for SqlService {
    type QueryStream = PageStream<proto::SqlQueryResponse>;

    async fn query(
        &self,
        request: Request<proto::SqlQueryRequest>,
    ) -> Result<Response<PageStream<proto::SqlQueryResponse>>, Status> {
        let statement = statement(request.into_inner())?;
        let app = self.components.call();
        let turn = tokio::select! {
            turn = app.statements().turn() => turn.map_err(|busy| error::busy(&busy, busy.retry_after()))?,
            status = app.closing() => return Err(status),
        };
        let request = BoundedRequest::begin(app.database());
        let mut claim = app.caller().claim();
        let waiting_bytes = (WAITING_MAX + 2) * PAGE_BYTES;
        claim.grow(STATEMENT_BYTES + waiting_bytes).map_err(overloaded)?;
        let held = claim.split(waiting_bytes);
        let (sender, mut pages) = mpsc::channel(WAITING_MAX);
        let (theirs, runtime) = (app.within(&request), Handle::current());
        let running = RunningWork::begin(Box::new(move || {
            let (_turn, _claim) = (turn, claim);
            run(theirs.database(), &statement, PageSender::new(sender, runtime));
        }));
        let first = tokio::select! {
            first = pages.recv() => first,
            status = app.closing() => return Err(status),
            status = app.session_ended() => return Err(status),
        };
        let Some(first) = first else {
            drop(running.ended().await);
            return Err(stopping());
        };
        let ending = ended(Arc::clone(&app));
        let (first, ending) = (Some(first?), Box::pin(ending));
        let pages = StatementPages { first, pages, ending, is_whole: false, _request: request, _held: held };
        Ok(Response::new(Box::pin(pages)))
    }
}

/// The statement of a request.
fn statement(request: proto::SqlQueryRequest) -> Result<OwnedSqlStatement, Status> {
    let proto::SqlQueryRequest { sql, params, named, as_of } = request;
    for (name, count) in [("params", params.len()), ("named", named.len())] {
        if count > PARAMETERS_MAX {
            return Err(invalid(format!("{name} has {count} values, at most {PARAMETERS_MAX}")));
        }
    }
    let parameters = params.into_iter().map(value).collect();
    let named = named.into_iter().map(|(name, given)| (name, value(given))).collect();
    Ok(OwnedSqlStatement { text: sql, parameters, named, as_of: as_of.map(Position::new) })
}

fn value(value: proto::SqlValue) -> SqlValue {
    match value.kind {
        None => SqlValue::Null,
        Some(Kind::Integer(number)) => SqlValue::Integer(number),
        Some(Kind::Real(number)) => SqlValue::Real(number),
        Some(Kind::Text(text)) => SqlValue::Text(text),
        Some(Kind::Blob(bytes)) => SqlValue::Blob(bytes.to_vec()),
    }
}

fn message(value: SqlValueRef<'_>) -> proto::SqlValue {
    let kind = match SqlValue::from(value) {
        SqlValue::Null => None,
        SqlValue::Integer(number) => Some(Kind::Integer(number)),
        SqlValue::Real(number) => Some(Kind::Real(number)),
        SqlValue::Text(text) => Some(Kind::Text(text)),
        SqlValue::Blob(bytes) => Some(Kind::Blob(bytes.into())),
    };
    proto::SqlValue { kind }
}

/// Runs a statement, and sends its pages, the last one with the end or an error.
fn run(database: &Database, statement: &OwnedSqlStatement, sender: PageSender) {
    let sender = RefCell::new(sender);
    let begin = |names: &[String]| sender.borrow_mut().page.columns = names.to_vec();
    let rows = |row: &[SqlValueRef<'_>]| sender.borrow_mut().row(row);
    let done = statement.with(|statement| Sql::over(database).visit(statement, begin, rows));
    let mut sender = sender.into_inner();
    match done {
        Ok(SqlSummary { as_of, scanned, rows }) => {
            sender.page.end = Some(proto::SqlEnd { as_of: as_of.get(), scanned, rows });
            sender.send();
        }
        // The client has left.
        Err(error) if error.kind() == ErrorKind::Cancelled => {}
        Err(error) => sender.offer(Err(failed(error))),
    }
}

/// Sends pages to a client.
struct PageSender {
    pages: mpsc::Sender<Result<proto::SqlQueryResponse, Status>>,
    page: proto::SqlQueryResponse,
    /// The memory of the page.
    bytes: usize,
    runtime: Handle,
    /// Whether the client reads no more pages.
    has_left: bool,
}

impl PageSender {
    fn new(pages: mpsc::Sender<Result<proto::SqlQueryResponse, Status>>, runtime: Handle) -> Self {
        PageSender { pages, page: proto::SqlQueryResponse::default(), bytes: 0, runtime, has_left: false }
    }

    fn row(&mut self, row: &[SqlValueRef<'_>]) -> ControlFlow<()> {
        let values: Vec<_> = row.iter().map(|value| message(*value)).collect();
        let bytes_of = |value: &proto::SqlValue| match &value.kind {
            Some(Kind::Text(text)) => text.len(),
            Some(Kind::Blob(bytes)) => bytes.len(),
            _ => 0,
        };
        let long_bytes: usize = values.iter().map(bytes_of).sum();
        self.bytes += size_of::<proto::SqlRow>() + values.len() * size_of::<proto::SqlValue>() + long_bytes;
        self.page.rows.push(proto::SqlRow { values });
        if self.bytes >= PAGE_BYTES || self.page.rows.len() >= PAGE_ITEMS_MAX {
            self.send();
        }
        if self.has_left { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Sends the page so far, and waits until the client has space for it.
    fn send(&mut self) {
        self.bytes = 0;
        let page = std::mem::take(&mut self.page);
        self.offer(Ok(page));
    }

    fn offer(&mut self, page: Result<proto::SqlQueryResponse, Status>) {
        if !self.has_left {
            let sending = tokio::time::timeout(PAGE_TIME, self.pages.send(page));
            self.has_left = !matches!(self.runtime.block_on(sending), Ok(Ok(())));
        }
    }
}

/// Waits until the server stops or the session of the call has ended.
async fn ended(app: Arc<App>) -> Status {
    tokio::select! {
        status = app.closing() => status,
        status = app.session_ended() => status,
    }
}

/// The pages of a statement. Dropping it ends the statement.
struct StatementPages {
    first: Option<proto::SqlQueryResponse>,
    pages: mpsc::Receiver<Result<proto::SqlQueryResponse, Status>>,
    ending: Pin<Box<dyn Future<Output = Status> + Send>>,
    /// Whether the last page or an error was returned.
    is_whole: bool,
    _request: BoundedRequest,
    /// The memory of the pages.
    _held: ByteClaim,
}

impl Stream for StatementPages {
    type Item = Result<proto::SqlQueryResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_whole {
            return Poll::Ready(None);
        }
        let page = match self.first.take() {
            Some(first) => Ok(first),
            None => match self.ending.as_mut().poll(context) {
                Poll::Ready(status) => Err(status),
                Poll::Pending => ready!(self.pages.poll_recv(context)).unwrap_or_else(|| Err(unread())),
            },
        };
        self.is_whole = page.as_ref().map_or(true, |page| page.end.is_some());
        Poll::Ready(Some(page))
    }
}
