//! `/v1/indexes`: text indexes over event stores. `POST /v1/sql` searches them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire_access::BoundedRequest;
use quire_api::ListPage;
use quire_api::reply::TextIndexReply;
use quire_sql::{TextIndexStatus, TextIndexes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::app::{App, closing};
use crate::body::{Body, BodyText};
use crate::error::Problem;
use crate::idempotency::NoRequestKey;
use crate::json::BoundedList;
use crate::params::{Params, PathNames};
use crate::response::{JsonResponse, aside, bounded};

/// The time between two searches for deleted events in the files of text indexes.
pub(crate) const ERASE_INTERVAL: Duration = Duration::from_secs(5);

/// A text index that is to be created.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextIndexRequest<'r> {
    /// The event store.
    #[serde(borrow)]
    store: Cow<'r, str>,
    /// The name; that of the store by default.
    name: Option<Cow<'r, str>>,
    /// The JSON paths of the text in the data of events, such as `$.note`. `$` is the whole data.
    text: BoundedList<String, { quire::TEXT_PATHS_MAX }>,
}

/// What a request asks for.
struct NewIndex {
    store: String,
    name: Option<String>,
    paths: Vec<String>,
}

fn reply(status: TextIndexStatus) -> TextIndexReply {
    let TextIndexStatus { index, covered, head, documents, bytes } = status;
    let (covered, head) = (covered.get(), head.get());
    TextIndexReply { name: index.name, store: index.store, text: index.paths, covered, head, documents, bytes }
}

/// `POST /v1/indexes`: creates a text index, and builds it.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    _no_key: NoRequestKey,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let parse = |body: &BodyText| {
        let TextIndexRequest { store, name, text: BoundedList(paths) } = body.parse()?;
        Ok(NewIndex { store: store.into_owned(), name: name.map(Cow::into_owned), paths })
    };
    let NewIndex { store, name, paths } = body.read(parse).await?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let created = TextIndexes::over(database).create(&store, name.as_deref(), &paths)?;
        Ok(JsonResponse::of_done(&app.memory, &reply(created)))
    })
    .await
}

/// `GET /v1/indexes`: lists the text indexes.
pub(crate) async fn list(State(app): State<Arc<App>>, params: Params) -> Result<JsonResponse, Problem> {
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let indexes = TextIndexes::over(database).list()?;
        JsonResponse::of(&app.memory, &ListPage::whole(indexes.into_iter().map(reply).collect()))
    })
    .await
}

/// `DELETE /v1/indexes/{index}`: deletes a text index and its file.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    _no_key: NoRequestKey,
    PathNames(index): PathNames<String>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        TextIndexes::over(database).delete(&index)?;
        Ok(JsonResponse::of_done(&app.memory, &json!({})))
    })
    .await
}

/// Erases deleted events from the files of text indexes at each interval, until the server stops:
/// those that expired, and on a follower of a cluster those that the leader deleted.
pub(crate) async fn keep(app: Arc<App>, closed: watch::Receiver<bool>, interval: Duration) {
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = closing(closed.clone()) => return,
        }
        let database = app.owner().local();
        // The next interval tries again what failed.
        let erased = aside(move || Ok(TextIndexes::over(&database).erase_deleted().ok())).await;
        // A task that ended early is that of a server that stops.
        if erased.is_err() {
            return;
        }
    }
}
