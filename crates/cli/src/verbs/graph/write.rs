//! `quire graph put`, `delete`, `link`, `unlink`, `unlink-all`, `retain` and `trim`. Each is a
//! commit of one part, except `unlink-all`, which is several.

use std::io::Write;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::by::By;
use crate::failure::{CommandError, Result};
use crate::text::counted;
use crate::verbs::client::Path;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, word};

/// Puts a block.
#[derive(Debug, Args)]
pub(crate) struct PutBlockArgs {
    /// The graph, like air/routes; created when it does not exist
    graph: String,
    /// The block
    block: String,
    #[command(flatten)]
    by: By,
    /// Kind of the block
    #[arg(long)]
    kind: String,
    /// Source of the block, like a file
    #[arg(long, default_value = "")]
    source: String,
    /// A tag; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Metadata, as JSON, stored byte for byte
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// Content of the block
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    content: Option<String>,
    /// File with the content
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Refuse unless the block has this version; 0: unless it does not exist
    #[arg(long, value_name = "VERSION")]
    expect: Option<u64>,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Deletes a block.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The graph, like air/routes
    graph: String,
    /// The block
    block: String,
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Puts an edge.
#[derive(Debug, Args)]
pub(crate) struct Link {
    /// The graph, like air/routes; created when it does not exist
    graph: String,
    /// Source block
    source: String,
    /// Type of the edge, like calls
    edge_type: String,
    /// Target block
    target: String,
    #[command(flatten)]
    by: By,
    /// Properties, as JSON, stored byte for byte
    #[arg(long, value_name = "JSON")]
    properties: Option<String>,
    /// Allow a source or target that does not exist
    #[arg(long)]
    allow_missing: bool,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Deletes an edge.
#[derive(Debug, Args)]
pub(crate) struct Unlink {
    /// The graph, like air/routes
    graph: String,
    /// Source block
    source: String,
    /// Type of the edge, like calls
    edge_type: String,
    /// Target block
    target: String,
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Deletes all edges of a block, in several commits. Other writers can commit in between.
#[derive(Debug, Args)]
pub(crate) struct UnlinkAll {
    /// The graph, like air/routes
    graph: String,
    /// The block
    block: String,
    #[command(flatten)]
    by: By,
    /// Edges per commit
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    batch: u64,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Sets how much history a graph keeps. The present state always stays. Older history is deleted
/// within a minute, and a compaction reclaims its disk space.
#[derive(Debug, Args)]
pub(crate) struct RetainGraphArgs {
    /// The graph, like air/routes; created when it does not exist
    graph: String,
    /// Milliseconds of history to keep [default: forever]
    #[arg(long, value_name = "MS")]
    history_ms: Option<u64>,
    /// Newest versions to keep of each block, whatever their age
    #[arg(long, value_name = "N", default_value_t = 1)]
    versions: u64,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Deletes a graph's history before a position.
#[derive(Debug, Args)]
pub(crate) struct TrimGraphArgs {
    /// The graph, like air/routes
    graph: String,
    /// First position that stays readable
    from: u64,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Checks that a text is JSON, and keeps it byte for byte. Parsing and printing it again would
/// change numbers and their order.
fn checked(option: &str, text: Option<String>) -> Result<Option<String>> {
    let no_json = |error| CommandError::new(format!("--{option} is not JSON: {error}"));
    text.map(|text| serde_json::from_str::<IgnoredAny>(&text).map(|_| text)).transpose().map_err(no_json)
}

/// Commits one part, and prints the reply.
fn commit(
    place: &DatabaseArgs,
    form: OutputForm,
    part: &Value,
    out: &mut dyn Write,
    line: impl Fn(&Value) -> String,
) -> Result {
    place.visit(|client| {
        let answer = client.post(&Path::new(&["commit"]), &json!({ "parts": [part] }))?;
        form.print(out, std::slice::from_ref(&answer["replies"][0]), line)
    })
}

impl PutBlockArgs {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let content = match &self.file {
            Some(file) => {
                let bytes = std::fs::read(file);
                Some(bytes.map_err(|error| CommandError::at(format_args!("read {}", file.display()), error))?)
            }
            None => self.content.map(String::into_bytes),
        };
        let part = json!({ "put_block": {
            "graph": self.graph,
            "block": self.by.block(&self.block)?,
            "kind": self.kind,
            "source": self.source,
            "tags": self.tags,
            "metadata_text": checked("metadata", self.metadata)?,
            "content_base64": content.map(|content| STANDARD.encode(content)),
            "expect_version": self.expect,
        } });
        commit(&self.place, self.form, &part, out, |reply| {
            let put = &reply["block_put"];
            let what = if put["created"] == true { "created" } else { "replaced" };
            format!("{} {what}, version {}", self.block, word(put, "version"))
        })
    }
}

impl Delete {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let part = json!({ "delete_block": { "graph": self.graph, "block": self.by.block(&self.block)? } });
        self.place.visit(|client| {
            let answer = client.try_post(&Path::new(&["commit"]), &json!({ "parts": [part] }))?;
            let answer = answer.map_err(|problem| {
                let message = word(&problem, "detail");
                let is_large = problem["code"] == "too_many_edges";
                let hint = if is_large { "; quire graph unlink-all does that" } else { "" };
                CommandError::new(format!("{message}{hint}"))
            })?;
            self.form.print(out, std::slice::from_ref(&answer["replies"][0]), |reply| {
                match reply["block_deleted"]["version"].as_u64() {
                    None | Some(0) => format!("{} was not there", self.block),
                    Some(version) => format!("{} deleted, version {version}", self.block),
                }
            })
        })
    }
}

impl Link {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let part = json!({ "put_edge": {
            "graph": self.graph,
            "source": self.by.block(&self.source)?,
            "type": self.edge_type,
            "target": self.by.block(&self.target)?,
            "properties_text": checked("properties", self.properties)?,
            "allow_missing": self.allow_missing,
        } });
        commit(&self.place, self.form, &part, out, |reply| {
            let what = if reply["edge_put"]["created"] == true { "created" } else { "replaced" };
            format!("{} --{}-> {} {what}", self.source, self.edge_type, self.target)
        })
    }
}

impl Unlink {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let part = json!({ "delete_edge": {
            "graph": self.graph,
            "source": self.by.block(&self.source)?,
            "type": self.edge_type,
            "target": self.by.block(&self.target)?,
        } });
        commit(&self.place, self.form, &part, out, |reply| {
            let what = if reply["edge_deleted"]["existed"] == true { "deleted" } else { "was not there" };
            format!("{} --{}-> {} {what}", self.source, self.edge_type, self.target)
        })
    }
}

impl UnlinkAll {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let part = json!({ "delete_edges": { "graph": self.graph, "block": self.by.block(&self.block)?, "count_max": self.batch } });
        self.place.visit(|client| {
            let mut edges = 0;
            loop {
                let answer = client.post(&Path::new(&["commit"]), &json!({ "parts": [part] }))?;
                let deleted = &answer["replies"][0]["edges_deleted"];
                edges += deleted["edges"].as_u64().unwrap_or_default();
                if deleted["more"] != true {
                    break;
                }
            }
            let reply = json!({ "edges_deleted": { "edges": edges, "more": false } });
            self.form.print(out, &[reply], |_| format!("{} of {} deleted", counted(edges, "edge"), self.block))
        })
    }
}

impl RetainGraphArgs {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let RetainGraphArgs { graph, history_ms, versions, .. } = &self;
        let part = json!({ "retain_graph": { "graph": graph, "history_ms": history_ms, "versions": versions } });
        commit(&self.place, self.form, &part, out, |_| match history_ms {
            Some(ms) => format!("{graph} keeps {ms} ms of its past, and {versions} of the versions of each block"),
            None => format!("{graph} keeps all of its past from now on"),
        })
    }
}

impl TrimGraphArgs {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        // A graph that does not exist has no history to delete.
        self.place.visit(|client| client.get(&Path::new(&["graphs", &self.graph])).map(|_| ()))?;
        let part = json!({ "trim_graph": { "graph": self.graph, "from": self.from } });
        commit(&self.place, self.form, &part, out, |reply| {
            let from = word(&reply["history_trimmed"], "from");
            format!("{} can be read as of position {from} and later", self.graph)
        })
    }
}
