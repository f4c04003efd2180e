//! Import and export of a whole graph, as JSON lines, CSV or GraphML.
//!
//! An import is read to its end and checked before anything is committed: what can't be is refused with its line. It is one
//! commit when it fits into one. When it does not, it has to be allowed to be several (`batches=true`): blocks first, then
//! edges, and the answer, or the refusal, says how many items are in. With `progress=true` the answer is lines: how far it has come, and then how it
//! went.

mod commit;
mod csv;
mod each;
mod graphml;
mod item;
mod json_lines;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::{position, snapshot};
use crate::answer::{aside, text_of};
use crate::app::App;
use crate::error::Problem;
use crate::params::{Named, Params};
use commit::{Imported, Progress, Terms};
use item::{Item, Lined};

/// The most bytes of an import.
pub(crate) const IMPORT_BYTES_MAX: usize = 256 << 20;

/// In which form a graph is written.
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

impl Format {
    /// The blocks and edges of a file.
    fn read(self, bytes: &[u8]) -> Result<Vec<Lined>, Problem> {
        // The byte order mark that some tools begin UTF-8 with.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        match self {
            Format::JsonLines => json_lines::read(bytes),
            Format::CsvBlocks => csv::read_blocks(bytes),
            Format::CsvEdges => csv::read_edges(bytes),
            Format::GraphMl => graphml::read(bytes),
        }
    }

    /// A file of all that `each` gives.
    fn write(
        self,
        graph: &str,
        each: impl FnOnce(&mut dyn FnMut(Item)) -> Result<(), Problem>,
    ) -> Result<Vec<u8>, Problem> {
        let mut out = Vec::new();
        match self {
            Format::JsonLines => each(&mut |item| json_lines::write(&item, &mut out))?,
            Format::CsvBlocks | Format::CsvEdges => {
                let mut writer = csv::Writer::new(self == Format::CsvBlocks);
                each(&mut |item| writer.add(&item))?;
                out = writer.finish();
            }
            Format::GraphMl => {
                graphml::begin(graph, &mut out);
                each(&mut |item| graphml::write(&item, &mut out))?;
                graphml::end_of_file(&mut out);
            }
        }
        Ok(out)
    }
}

/// `POST /v1/graph/{graph}/import`: puts the blocks and edges of a file.
pub(crate) async fn import(
    State(app): State<Arc<App>>,
    Named(graph): Named<String>,
    mut params: Params,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let body = body.map_err(|rejection| unread(&rejection))?;
    let format = params.word("format", &FORMATS)?.unwrap_or(Format::JsonLines);
    let may_batch = params.one("batches")?.unwrap_or(false);
    let allow_missing = params.one("allow_missing")?.unwrap_or(false);
    let tells = params.one("progress")?.unwrap_or(false);
    params.end()?;
    let terms = Terms { may_batch, allow_missing };
    let import = move |progress: &mut dyn FnMut(Progress)| {
        let items = format.read(&body)?;
        commit::import(&app.database, &graph, &items, terms, progress)
    };
    if tells { told(import).await } else { Ok(Json(aside(move || import(&mut |_| ())).await?).into_response()) }
}

/// Why the file is not here.
fn unread(rejection: &BytesRejection) -> Problem {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let message = format!("the file has more than {} MiB; import it in parts", IMPORT_BYTES_MAX >> 20);
        return Problem::too_large(message).fact("most", IMPORT_BYTES_MAX);
    }
    Problem::invalid(rejection.body_text())
}

/// Answers line by line how far an import has come, and then how it went: as it would be answered otherwise, the problem too once the first
/// line is out.
async fn told(
    import: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<Imported, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    // As many lines as there are commits: none of them is waited for, and a client that has left stops nothing.
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
        return Err(refused.expect_err("nothing was told of what was not refused at once"));
    };
    let lines = tokio_stream::once(first).chain(UnboundedReceiverStream::new(lines));
    let body = Body::from_stream(lines.map(Ok::<Bytes, Infallible>));
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// `GET /v1/graph/{graph}/export`: the blocks and edges as of one position.
pub(crate) async fn export(
    State(app): State<Arc<App>>,
    Named(graph): Named<String>,
    mut params: Params,
) -> Result<Response, Problem> {
    let format = params.word("format", &FORMATS)?.unwrap_or(Format::JsonLines);
    let at = position(&mut params)?;
    params.end()?;
    let (kind, bytes) = aside(move || {
        let snapshot = snapshot(&app.database, &graph, at)?;
        let out = format.write(&graph, |take| each::each(&app.database, &graph, &snapshot, take))?;
        let kind = match format {
            Format::JsonLines => "application/x-ndjson",
            Format::CsvBlocks | Format::CsvEdges => "text/csv",
            Format::GraphMl => "application/graphml+xml",
        };
        Ok((kind, out))
    })
    .await?;
    Ok(([(CONTENT_TYPE, kind)], bytes).into_response())
}
