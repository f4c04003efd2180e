//! The header `Quire-Read`: reads that this node of a cluster answers, whichever node leads.
//!
//! ```text
//! Quire-Read: local       ──▶ the commits that this node has published
//! Quire-Read: at=POSITION ──▶ the same, once this node has published that position
//! ```
//!
//! The response has the header `Quire-Position`: it shows at least the commits up to there. The
//! client has the rights that the rules published on this node give it. Without `Quire-Read`, the
//! leader answers.

use std::pin::pin;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use quire::{Error, Position};
use quire_access::Session;
use quire_api::Code;
use tokio::time::timeout;

use crate::app::App;
use crate::error::Problem;
use crate::route_kinds::{is_of_each_node, is_read};

pub(crate) const QUIRE_READ: HeaderName = HeaderName::from_static("quire-read");
const QUIRE_POSITION: HeaderName = HeaderName::from_static("quire-position");

/// How long a read waits for its position.
const REACHED_WITHIN: Duration = Duration::from_secs(2);

/// How long a read waits while this node has unpublished records and publishes none of them: it may
/// have lost its connections.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// A read that this node answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalRead {
    /// At once.
    Now,
    /// Once this position is published here.
    At(Position),
}

impl LocalRead {
    /// The local read that a request asks for; `None` for one that the leader answers.
    ///
    /// # Errors
    /// When the header is invalid, or the route takes none.
    pub(crate) fn of(method: &Method, route: &str, headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let mut fields = headers.get_all(&QUIRE_READ).iter();
        let Some(field) = fields.next().filter(|_| !is_of_each_node(method, route)) else { return Ok(None) };
        if !takes_header(method, route) {
            return Err(Problem::invalid("this request takes no Quire-Read: it is for reads that do not continue"));
        }
        let text = field.to_str().unwrap_or_default();
        let local_read = match text.strip_prefix("at=") {
            _ if fields.next().is_some() => None,
            None => (text == "local").then_some(LocalRead::Now),
            Some(position) => position.parse().ok().map(|position| LocalRead::At(Position::new(position))),
        };
        let invalid = || Problem::invalid(format!("Quire-Read must be local or at=POSITION, once, got {text:?}"));
        local_read.ok_or_else(invalid).map(Some)
    }

    /// Answers the request by its route.
    pub(crate) async fn answer(self, app: &App, request: Request, next: Next) -> Response {
        if let LocalRead::At(position) = self
            && let Err(problem) = reach(app, position).await
        {
            return problem.into_response();
        }
        let database = app.owner();
        let begun_at = database.published();
        let mut answered = pin!(async {
            match Session::current() {
                Some(session) => session.reading_here().scope(next.run(request)).await,
                None => next.run(request).await,
            }
        });
        loop {
            let published = database.published();
            match timeout(STALLED_AFTER, &mut answered).await {
                Ok(mut response) => {
                    response.headers_mut().insert(QUIRE_POSITION, HeaderValue::from(begun_at.get()));
                    return response;
                }
                Err(_) if database.has_unpublished() && database.published() == published => {
                    return Problem::from(Error::unconfirmed_here()).into_response();
                }
                Err(_) => {}
            }
        }
    }
}

/// Whether a request reads once: a stream ends when another node leads.
pub(crate) fn takes_header(method: &Method, route: &str) -> bool {
    is_read(method, route) && !route.ends_with("/subscribe") && route != "/v1/backup"
}

/// Waits until this node has published the position.
async fn reach(app: &App, position: Position) -> Result<(), Problem> {
    let database = app.owner();
    let Some(before) = position.get().checked_sub(1) else { return Ok(()) };
    match timeout(REACHED_WITHIN, database.publication_after(Position::new(before))).await {
        Ok(published) => Ok(published?),
        Err(_) => {
            let published = database.published();
            let message = format!("this node has published position {published}, and not {position} in time");
            Err(Problem::new(Code::AheadOfLog, message).fact("at", position.get()))
        }
    }
}
