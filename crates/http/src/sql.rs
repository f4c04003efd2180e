//! `POST /v1/sql`: a read-only SQL statement, answered as JSON or as lines of JSON.
//!
//! Lines are sent at the pace of the client: the names of the columns, an array for each row, and
//! the position. A statement that fails after its first line ends with a line that has the error. A
//! statement holds a thread, so a few run at a time, and others wait. One whose client leaves ends
//! within some hundred steps.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body as ResponseBody, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quire::{ErrorKind, Position};
use quire_access::budget::ByteClaim;
use quire_access::{BoundedRequest, RunningWork, StatementTurn, StatementsBusy};
use quire_api::reply::{SqlEnd, SqlReply};
use quire_sql::{OwnedSqlStatement, Sql, SqlSummary, SqlValue, SqlValueRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;

use crate::app::App;
use crate::body::{Body, BodyText};
use crate::error::{self, Problem};
use crate::json::BoundedList;
use crate::memory::{Claim, PIECE_BYTES};
use crate::params::Params;
use crate::response::{JsonResponse, bounded, text_of};

/// The most values of a statement.
const PARAMETERS_MAX: usize = 1_000;

/// The memory of a statement besides its result: a page of rows, and what becomes of one row.
const STATEMENT_BYTES: usize = 2 << 20;

/// Lines that wait for the client, in pieces.
const WAITING_MAX: usize = 4;

/// The time in which a client must read the next piece.
const PIECE_TIME: Duration = Duration::from_secs(60);

/// A statement with its parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SqlRequest<'r> {
    /// One `SELECT`.
    #[serde(borrow)]
    sql: std::borrow::Cow<'r, str>,
    /// The values of `?1`, `?2` and so on.
    #[serde(default)]
    params: BoundedList<SqlParameter, PARAMETERS_MAX>,
    /// The values of `:name`, `@name` and `$name`.
    #[serde(default)]
    named: BTreeMap<String, SqlParameter>,
    /// The position as of which the log is read.
    as_of: Option<u64>,
}

/// A value of a statement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum SqlParameter {
    Null(()),
    Flag(bool),
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(SqlBlob),
}

/// Bytes of a statement or a result.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SqlBlob {
    base64: String,
}

impl SqlParameter {
    fn value(self) -> Result<SqlValue, Problem> {
        Ok(match self {
            SqlParameter::Null(()) => SqlValue::Null,
            SqlParameter::Flag(is_set) => SqlValue::Integer(is_set.into()),
            SqlParameter::Integer(number) => SqlValue::Integer(number),
            SqlParameter::Real(number) => SqlValue::Real(number),
            SqlParameter::Text(text) => SqlValue::Text(text),
            SqlParameter::Blob(SqlBlob { base64 }) => {
                let bytes = STANDARD.decode(base64);
                SqlValue::Blob(bytes.map_err(|error| Problem::invalid(format!("a parameter is not base64: {error}")))?)
            }
        })
    }
}

/// Parses a request.
fn statement_of(body: &BodyText) -> Result<OwnedSqlStatement, Problem> {
    let SqlRequest { sql, params: BoundedList(params), named, as_of } = body.parse()?;
    if named.len() > PARAMETERS_MAX {
        return Err(Problem::invalid(format!("named has more than {PARAMETERS_MAX} values")));
    }
    let parameters = params.into_iter().map(SqlParameter::value).collect::<Result<_, _>>()?;
    let named = named.into_iter().map(|(name, value)| Ok((name, value.value()?))).collect::<Result<_, Problem>>()?;
    Ok(OwnedSqlStatement { text: sql.into_owned(), parameters, named, as_of: as_of.map(Position::new) })
}

impl From<StatementsBusy> for Problem {
    fn from(busy: StatementsBusy) -> Self {
        error::busy(&busy, busy.retry_after())
    }
}

/// A value of a row as JSON: bytes become `{"base64": "…"}`.
struct ShownValue<'v>(SqlValueRef<'v>);

impl Serialize for ShownValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            SqlValueRef::Null => serializer.serialize_none(),
            SqlValueRef::Integer(number) => serializer.serialize_i64(number),
            SqlValueRef::Real(number) => serializer.serialize_f64(number),
            SqlValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => serializer.serialize_str(text),
                Err(_) => SqlBlob { base64: STANDARD.encode(text) }.serialize(serializer),
            },
            SqlValueRef::Blob(bytes) => SqlBlob { base64: STANDARD.encode(bytes) }.serialize(serializer),
        }
    }
}

fn row_text(row: &[SqlValueRef<'_>]) -> String {
    text_of(&row.iter().map(|value| ShownValue(*value)).collect::<Vec<_>>())
}

/// How the result is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultFormat {
    Json,
    Lines,
}

/// Runs a statement.
pub(crate) async fn query(State(app): State<Arc<App>>, mut params: Params, body: Body) -> Result<Response, Problem> {
    let formats = [("json", ResultFormat::Json), ("ndjson", ResultFormat::Lines)];
    let format = params.word("format", &formats)?.unwrap_or(ResultFormat::Json);
    params.end()?;
    let statement = body.read(statement_of).await?;
    let turn = app.querying.turn().await?;
    let request = BoundedRequest::begin(&app.database());
    let mut claim = app.memory.claim();
    claim.grow(STATEMENT_BYTES)?;
    match format {
        ResultFormat::Json => whole(request, statement, claim, turn).await.map(IntoResponse::into_response),
        ResultFormat::Lines => lines(request, statement, claim, turn).await,
    }
}

/// Returns the whole result as one value.
async fn whole(
    request: BoundedRequest,
    statement: OwnedSqlStatement,
    mut claim: Claim,
    turn: StatementTurn,
) -> Result<JsonResponse, Problem> {
    bounded(request, move |database| {
        let _turn = turn;
        let (mut columns, mut rows, mut refused) = (Vec::new(), Vec::new(), None);
        let keep = |row: &[SqlValueRef<'_>]| {
            let row = RawValue::from_string(row_text(row)).expect("a row is JSON");
            match claim.grow(row.get().len() + size_of::<Box<RawValue>>()) {
                Ok(()) => rows.push(row),
                Err(problem) => refused = Some(problem),
            }
            if refused.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let begin = |names: &[String]| columns = names.to_vec();
        let summary = statement.with(|statement| Sql::over(database).visit(statement, begin, keep))?;
        match refused {
            Some(problem) => Err(problem),
            None => {
                let SqlSummary { as_of, scanned, .. } = summary;
                JsonResponse::within(claim, &SqlReply { columns, rows, as_of: as_of.get(), scanned })
            }
        }
    })
    .await
}

/// The names of the columns: the first line.
#[derive(Debug, Serialize)]
struct ColumnsLine<'c> {
    columns: &'c [String],
}

/// The error that ends a result: the last line.
#[derive(Debug, Serialize)]
struct ErrorLine<'e> {
    error: &'e Problem,
}

/// Sends lines to a client, in pieces.
struct LineSender {
    pieces: mpsc::Sender<Bytes>,
    line_bytes: Vec<u8>,
    runtime: Handle,
    has_left: bool,
}

impl LineSender {
    fn line(&mut self, text: &str) {
        self.line_bytes.extend_from_slice(text.as_bytes());
        self.line_bytes.push(b'\n');
        if self.line_bytes.len() >= PIECE_BYTES {
            self.send();
        }
    }

    /// Sends the lines so far, and waits until the client has space for them.
    fn send(&mut self) {
        let piece = Bytes::from(std::mem::take(&mut self.line_bytes));
        if piece.is_empty() || self.has_left {
            return;
        }
        let sending = tokio::time::timeout(PIECE_TIME, self.pieces.send(piece));
        self.has_left = !matches!(self.runtime.block_on(sending), Ok(Ok(())));
    }
}

/// The lines of a result as the body of a response. Dropping it ends the statement.
struct LineStream {
    pieces: mpsc::Receiver<Bytes>,
    _request: BoundedRequest,
    /// The memory of the pieces.
    _held: ByteClaim,
}

impl Stream for LineStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.pieces.poll_recv(context).map(|piece| piece.map(Ok))
    }
}

/// Returns the result line by line. An error before the first row is a response of its own.
async fn lines(
    request: BoundedRequest,
    statement: OwnedSqlStatement,
    mut claim: Claim,
    turn: StatementTurn,
) -> Result<Response, Problem> {
    let held = claim.apart((WAITING_MAX + 2) * PIECE_BYTES)?;
    let (sender, pieces) = mpsc::channel(WAITING_MAX);
    let (started, start) = oneshot::channel();
    let (database, runtime) = (request.database().clone(), Handle::current());
    let running = RunningWork::begin(Box::new(move || {
        let (_turn, _claim) = (turn, claim);
        let mut sender = LineSender { pieces: sender, line_bytes: Vec::new(), runtime, has_left: false };
        let (mut started, columns) = (Some(started), RefCell::new(String::new()));
        let begin = |names: &[String]| columns.replace(text_of(&ColumnsLine { columns: names })).clear();
        let send = |row: &[SqlValueRef<'_>]| {
            if let Some(started) = started.take() {
                drop(started.send(Ok(())));
                sender.line(&columns.borrow());
            }
            sender.line(&row_text(row));
            if sender.has_left { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let done = statement.with(|statement| Sql::over(&database).visit(statement, begin, send));
        match (done, started.take()) {
            (Err(error), Some(started)) => drop(started.send(Err(Problem::from(error)))),
            (Err(error), None) => {
                if error.kind() != ErrorKind::Cancelled {
                    sender.line(&text_of(&ErrorLine { error: &Problem::from(error) }));
                }
            }
            (Ok(summary), waiting) => {
                if let Some(started) = waiting {
                    drop(started.send(Ok(())));
                    sender.line(&columns.borrow());
                }
                let SqlSummary { as_of, scanned, rows } = summary;
                sender.line(&text_of(&SqlEnd { as_of: as_of.get(), scanned, rows }));
            }
        }
        sender.send();
    }));
    match start.await {
        Ok(started) => started?,
        Err(_) => {
            drop(running.ended().await);
            return Err(Problem::stopping());
        }
    }
    let body = LineStream { pieces, _request: request, _held: held };
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], ResponseBody::from_stream(body)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_returns_the_time_of_a_retry() {
        let problem = serde_json::to_value(Problem::from(StatementsBusy)).expect("JSON");
        assert_eq!(problem["code"], "overloaded");
        assert_eq!((&problem["status"], &problem["retry_after_ms"]), (&503.into(), &1_000.into()));
    }
}
