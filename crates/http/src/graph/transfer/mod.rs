//! Import and export of a whole graph, as JSON lines, CSV or GraphML.
//!
//! An import is read completely and checked before the first commit; an error names its line. It is
//! one commit if it fits into one. If it does not, several must be allowed (`batches=true`): blocks
//! first, then edges. The response, or the refusal, has the number of committed items. With
//! `progress=true` the response is lines: the progress, and then the result.
//!
//! A server runs one import at a time, and others wait for their turn. An import ends when its
//! client disconnects, after the commit that is running.

mod caller;
pub(crate) mod commit;
mod csv;
mod each;
mod graphml;
mod item;
mod json_lines;
#[cfg(test)]
mod tests;
mod xml;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use quire::{Operation, Resource, ResourceKind};
use quire_access::BoundedRequest;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::{position, snapshot};
use crate::app::App;
use crate::body::Body as RequestBody;
use crate::error::Problem;
use crate::idempotency::NoRequestKey;
use crate::memory::Claim;
use crate::params::{Params, PathNames};
use crate::response::{aside, bounded, text_of};
use caller::{ImportClient, ResponseGuard};
use commit::ImportOptions;
use item::{Item, ItemList, NumberedItem};
use quire_api::reply::{ImportProgress, ImportReply};

/// Maximum size of an import in bytes.
pub(crate) const IMPORT_BYTES_MAX: usize = 256 << 20;

/// The bytes that an export keeps of each item besides the file: an id and a name.
const ITEM_BYTES: usize = 128;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    JsonLines,
    CsvBlocks,
    CsvEdges,
    GraphMl,
}

const FORMATS: [(&str, Format); 4] = [
    ("jsonl", Format::JsonLines),
    ("csv-blocks", Format::CsvBlocks),
    ("csv-edges", Format::CsvEdges),
    ("graphml", Format::GraphMl),
];

/// A file, and its memory until it is written.
#[derive(Debug)]
struct ExportedFile {
    bytes: Vec<u8>,
    _claim: Claim,
}

impl AsRef<[u8]> for ExportedFile {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Format {
    /// The blocks and edges of a file, whose memory is added to `claim`. Ends early when the caller
    /// is gone.
    fn read(self, bytes: &[u8], caller: &ImportClient, claim: &mut Claim) -> Result<Vec<NumberedItem>, Problem> {
        // The byte order mark that some tools begin UTF-8 with.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut items = ItemList::new(claim);
        match self {
            Format::JsonLines => json_lines::read(bytes, caller, &mut items),
            Format::CsvBlocks => csv::read_blocks(bytes, caller, &mut items),
            Format::CsvEdges => csv::read_edges(bytes, caller, &mut items),
            Format::GraphMl => graphml::read(bytes, caller, &mut items),
        }?;
        Ok(items.into_items())
    }

    /// A file of everything that `each` passes, and its memory.
    fn write(
        self,
        graph: &str,
        mut claim: Claim,
        each: impl FnOnce(&mut dyn FnMut(Item) -> Result<(), Problem>) -> Result<(), Problem>,
    ) -> Result<ExportedFile, Problem> {
        let mut out = Vec::new();
        let mut items = 0;
        let mut cover = |bytes: usize| {
            items += 1;
            claim.cover(bytes + ITEM_BYTES * items)
        };
        match self {
            Format::JsonLines => each(&mut |item| {
                json_lines::write(&item, &mut out);
                cover(out.capacity())
            })?,
            Format::CsvBlocks | Format::CsvEdges => {
                let mut writer = csv::CsvWriter::new(self == Format::CsvBlocks);
                each(&mut |item| {
                    writer.add(&item);
                    cover(writer.bytes())
                })?;
                out = writer.finish();
            }
            Format::GraphMl => {
                graphml::begin(graph, &mut out);
                each(&mut |item| {
                    graphml::write(&item, &mut out);
                    cover(out.capacity())
                })?;
                graphml::end_of_file(&mut out);
            }
        }
        claim.cover(out.capacity())?;
        Ok(ExportedFile { bytes: out, _claim: claim })
    }
}

/// `POST /v1/graphs/{graph}/import`: puts the blocks and edges of a file.
pub(crate) async fn import(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    _no_key: NoRequestKey,
    mut params: Params,
    request: Request,
) -> Result<Response, Problem> {
    let database = app.database();
    // Before the file is received.
    database.check_permission(Resource::new(ResourceKind::Graph, &graph), Operation::Write)?;
    let too_long = "the file exceeds 256 MiB: import it in parts";
    let body = RequestBody::receive(request, &app.memory, too_long).await;
    let body = body.map_err(|problem| match problem.is_too_large() {
        true => problem.fact("most", IMPORT_BYTES_MAX),
        false => problem,
    })?;
    let format = params.word("format", &FORMATS)?.unwrap_or(Format::JsonLines);
    let may_batch = params.one("batches")?.unwrap_or(false);
    let allow_missing = params.one("allow_missing")?.unwrap_or(false);
    let tells = params.one("progress")?.unwrap_or(false);
    params.end()?;
    let terms = ImportOptions { may_batch, allow_missing };
    // The items of a file can take several times its bytes, so one file at a time is read.
    let turn = Arc::clone(&app.importing).lock_owned().await;
    let caller = ImportClient::default();
    let waiting = caller.waiting();
    let import = move |progress: &mut dyn FnMut(ImportProgress)| {
        // The turn ends with the import, which may outlast its client by a commit.
        let _turn = turn;
        let (file, mut claim) = body.into_parts();
        let items = format.read(&file, &caller, &mut claim)?;
        commit::import(&database, &graph, &items, terms, &caller, progress)
    };
    if tells {
        return told(import, waiting).await;
    }
    let done = aside(move || import(&mut |_| ())).await;
    drop(waiting);
    Ok(Json(done?).into_response())
}

/// Streams the progress of an import as lines, and then the result. After the first line a problem
/// is a line, too.
async fn told(
    import: impl FnOnce(&mut dyn FnMut(ImportProgress)) -> Result<ImportReply, Problem> + Send + 'static,
    waiting: ResponseGuard,
) -> Result<Response, Problem> {
    // One line for each commit: no commit waits for the client.
    let (sender, mut lines) = mpsc::unbounded_channel::<Bytes>();
    let line = |text: String| Bytes::from(text + "\n");
    let importing = tokio::task::spawn_blocking(move || {
        let mut begun = false;
        let done = import(&mut |progress| {
            begun = true;
            let _ = sender.send(line(text_of(&progress)));
        });
        let last = match done {
            Ok(imported) => text_of(&imported),
            Err(problem) if begun => text_of(&problem),
            Err(problem) => return Err(problem),
        };
        let _ = sender.send(line(last));
        Ok(())
    });
    let Some(first) = lines.recv().await else {
        let refused = importing.await.map_err(|_| Problem::stopping())?;
        return Err(refused.expect_err("a channel without progress means an early refusal"));
    };
    let lines = tokio_stream::once(first).chain(UnboundedReceiverStream::new(lines));
    let lines = lines.map(move |line| {
        // Dropped with the response, which a client that disconnects ends.
        let _waiting = &waiting;
        Ok::<Bytes, Infallible>(line)
    });
    let body = Body::from_stream(lines);
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// `GET /v1/graphs/{graph}/export`: the blocks and edges as of one position.
pub(crate) async fn export(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    mut params: Params,
) -> Result<Response, Problem> {
    let format = params.word("format", &FORMATS)?.unwrap_or(Format::JsonLines);
    let at = position(&mut params)?;
    params.end()?;
    // As many steps as the graph has items. It ends when its client leaves.
    let (kind, file) = bounded(BoundedRequest::unbounded(&app.database()), move |database| {
        let snapshot = snapshot(database, &graph, at)?;
        let each = |take: &mut dyn FnMut(Item) -> _| each::each(&snapshot, take);
        let file = format.write(&graph, app.memory.claim(), each)?;
        let kind = match format {
            Format::JsonLines => "application/x-ndjson",
            Format::CsvBlocks | Format::CsvEdges => "text/csv",
            Format::GraphMl => "application/graphml+xml",
        };
        Ok((kind, file))
    })
    .await?;
    Ok(([(CONTENT_TYPE, kind)], Bytes::from_owner(file)).into_response())
}
