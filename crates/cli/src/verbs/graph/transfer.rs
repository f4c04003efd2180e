//! `quire graph import` and `export`: whole graphs as files.

use std::io::{Read, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::failure::{CommandError, Result};
use crate::progress::ProgressDisplay;
use crate::verbs::client::Path;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, word};

/// Imports the blocks and edges of a file. The whole file is checked first, and refused with the
/// number of a bad line. An interrupted import keeps its finished commits; the same file can be
/// imported again without duplicates.
#[derive(Debug, Args)]
pub(crate) struct ImportGraph {
    /// The graph, like air/routes; created when it does not exist
    graph: String,
    /// The file; - for standard input
    file: PathBuf,
    /// Format of the file
    #[arg(long, value_enum, default_value = "jsonl")]
    format: GraphFormat,
    /// Use several commits when the file does not fit into one
    #[arg(long)]
    batches: bool,
    /// Allow edges to blocks that do not exist
    #[arg(long)]
    allow_missing: bool,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Exports the blocks and edges as of one position.
#[derive(Debug, Args)]
pub(crate) struct ExportGraph {
    /// The graph, like air/routes
    graph: String,
    /// Format of the output
    #[arg(long, value_enum, default_value = "jsonl")]
    format: GraphFormat,
    /// Read the graph as of this position
    #[arg(long, value_name = "POSITION")]
    at: Option<u64>,
    #[command(flatten)]
    place: DatabaseArgs,
}

/// The format of a file.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum GraphFormat {
    /// JSON lines, blocks and edges
    Jsonl,
    /// CSV, blocks only
    CsvBlocks,
    /// CSV, edges only
    CsvEdges,
    /// GraphML, blocks and edges
    Graphml,
}

impl GraphFormat {
    fn name(self) -> &'static str {
        match self {
            GraphFormat::Jsonl => "jsonl",
            GraphFormat::CsvBlocks => "csv-blocks",
            GraphFormat::CsvEdges => "csv-edges",
            GraphFormat::Graphml => "graphml",
        }
    }
}

impl ImportGraph {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let mut bytes = Vec::new();
        let read = if self.file.as_os_str() == "-" {
            std::io::stdin().read_to_end(&mut bytes).map(drop)
        } else {
            std::fs::read(&self.file).map(|read| bytes = read)
        };
        read.map_err(|error| CommandError::at(format_args!("read {}", self.file.display()), error))?;
        self.place.visit(|client| {
            let path = Path::new(&["graphs", &self.graph, "import"]).with("format", self.format.name());
            let path =
                path.with("batches", self.batches).with("allow_missing", self.allow_missing).with("progress", true);
            let (mut progress, mut done, mut answer) = (None::<ProgressDisplay>, 0, None);
            client.post_lines(&path, &bytes, |line| {
                let told = client.json(line.as_bytes())?;
                if let Some(message) = told["detail"].as_str() {
                    return Err(CommandError::new(format!("{message}; {done} items were imported")));
                }
                match told["of"].as_u64() {
                    Some(of) => {
                        let imported = told["imported"].as_u64().unwrap_or_default();
                        progress.get_or_insert_with(|| ProgressDisplay::new("importing", of)).add(imported - done);
                        done = imported;
                    }
                    None => answer = Some(told),
                }
                Ok(true)
            })?;
            progress.into_iter().for_each(ProgressDisplay::finish);
            let Some(answer) = answer else {
                return Err(CommandError::new(format!(
                    "the server closed the connection; at least {done} items were imported"
                )));
            };
            self.form.print(out, std::slice::from_ref(&answer), |answer| {
                let count = |name: &str| word(answer, name);
                format!("{} blocks and {} edges in {} commits", count("blocks"), count("edges"), count("commits"))
            })
        })
    }
}

impl ExportGraph {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        self.place.visit(|client| {
            let path = Path::new(&["graphs", &self.graph, "export"]).with("format", self.format.name());
            let path = self.at.iter().fold(path, |path, at| path.with("at", at));
            client.download(&path, out)
        })
    }
}
