//! `quire graph get`, `blocks`, `neighbours`, `walk` and `path`.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::by::By;
use super::{Direction, at, dot, lines};
use crate::failure::{CommandError, Result, aside};
use crate::verbs::client::Path;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, list};

/// Shows blocks.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// The graph, like air/routes
    graph: String,
    /// The blocks
    #[arg(required = true, value_name = "BLOCK")]
    blocks: Vec<String>,
    #[command(flatten)]
    by: By,
    /// Read the graph as of this position
    #[arg(long, value_name = "POSITION")]
    at: Option<u64>,
    /// List the versions of one block instead, newest first
    #[arg(long, conflicts_with = "at")]
    versions: bool,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Lists blocks.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// The graph, like air/routes
    graph: String,
    #[command(flatten)]
    filter: BlockConditions,
    /// Only blocks whose source starts with this prefix
    #[arg(long, value_name = "PREFIX")]
    source: Option<String>,
    /// Read the graph as of this position
    #[arg(long, value_name = "POSITION")]
    at: Option<u64>,
    /// Stop after this many blocks
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: u64,
    /// Print the number of blocks instead of the blocks
    #[arg(long, conflicts_with = "limit")]
    count: bool,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Lists neighbours.
#[derive(Debug, Args)]
pub(crate) struct Neighbours {
    /// The graph, like air/routes
    graph: String,
    /// The block
    block: String,
    #[command(flatten)]
    by: By,
    /// Direction in which to follow edges
    #[arg(long, value_enum, default_value = "both")]
    direction: Direction,
    /// Only along edges of this type; given several times, of any of them
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Read the graph as of this position
    #[arg(long, value_name = "POSITION")]
    at: Option<u64>,
    /// Stop after this many neighbours
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: u64,
    /// Print the number of neighbours instead of the neighbours
    #[arg(long, conflicts_with = "limit")]
    count: bool,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Walks from a block.
#[derive(Debug, Args)]
pub(crate) struct Walk {
    /// The graph, like air/routes
    graph: String,
    /// The block to start from
    start: String,
    #[command(flatten)]
    by: By,
    /// Order of the visits
    #[arg(long, value_enum, default_value = "breadth")]
    order: VisitOrder,
    #[command(flatten)]
    way: Way,
    /// Largest distance from the start, in edges
    #[arg(long, value_name = "N", default_value_t = 3)]
    depth: u64,
    /// Print at most this many blocks, up to 10,000
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Print the number of blocks instead of the blocks
    #[arg(long, conflicts_with_all = ["limit", "dot"])]
    count: bool,
    /// Print for Graphviz: the visited blocks, and all edges between them
    #[arg(long, conflicts_with = "json")]
    dot: bool,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Finds paths.
#[derive(Debug, Args)]
pub(crate) struct Paths {
    /// The graph, like air/routes
    graph: String,
    /// The block to start from
    from: String,
    /// The block to reach
    to: String,
    #[command(flatten)]
    by: By,
    /// Find every path that visits no block twice, shortest first, instead of a shortest one
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    way: Way,
    /// Longest path, in edges
    #[arg(long, value_name = "N", default_value_t = 100)]
    depth: u64,
    /// Print at most this many paths, up to 10,000, shortest first
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// The filter of blocks.
#[derive(Debug, Args)]
struct BlockConditions {
    /// Only blocks of this kind; given several times, of any of them
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// Only blocks with this tag; given several times, with all of them
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only blocks whose metadata has this value; given several times, with all of them. FIELD is a
    /// name, or a JSON pointer that begins with `/`, in which ~2 stands for =. Strings are compared
    /// by their text, numbers by value (1e2 is 100), objects and arrays as JSON
    #[arg(long = "metadata", value_name = "FIELD=VALUE")]
    metadata: Vec<String>,
}

/// The limits of a walk.
#[derive(Debug, Args)]
pub(super) struct Way {
    /// Direction in which to follow edges
    #[arg(long, value_enum, default_value = "outgoing")]
    direction: Direction,
    /// Only along edges of this type; given several times, of any of them
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    #[command(flatten)]
    filter: BlockConditions,
    /// Continue only from blocks that match the filter; the start and the end of a path need not
    /// match
    #[arg(long)]
    only: bool,
    /// Leave out missing blocks, the ends of edges that were put with --allow-missing
    #[arg(long)]
    without_missing: bool,
    /// Visit at most this many blocks
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    visited: u64,
    /// Stop after this many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    time_ms: u64,
    /// Read the graph as of this position
    #[arg(long, value_name = "POSITION")]
    at: Option<u64>,
}

/// The order of visits.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum VisitOrder {
    /// Nearest blocks first
    Breadth,
    /// Depth first: finish one neighbour before the next
    Depth,
}

impl BlockConditions {
    fn says_nothing(&self) -> bool {
        self.kinds.is_empty() && self.tags.is_empty() && self.metadata.is_empty()
    }

    fn add_to(&self, path: Path) -> Path {
        path.with_all("kind", &self.kinds).with_all("tag", &self.tags).with_all("metadata", &self.metadata)
    }
}

impl Way {
    /// Checks that a filter restricts the walk, for `what` it has no other use for.
    ///
    /// # Errors
    /// When there is a filter without --only.
    pub(super) fn check_only(&self, what: &str) -> Result {
        if self.only || self.filter.says_nothing() {
            return Ok(());
        }
        Err(CommandError::new(format!("--kind, --tag and --metadata filter the blocks of {what}: add --only")))
    }

    /// Adds the limits to the parameters of a read.
    pub(super) fn add_to(&self, path: Path) -> Path {
        let path = path.with("direction", self.direction.name()).with_all("type", &self.types);
        let path = self.filter.add_to(path).with("visited", self.visited).with("time_ms", self.time_ms);
        at(path.with("through", !self.only).with("missing", !self.without_missing), self.at)
    }
}

/// Reports the limit that cut a result short: on standard error, or in JSON output as the last
/// line.
pub(super) fn tell_bound(answer: &Value, form: OutputForm, out: &mut dyn Write) -> Result {
    match answer["bound"].as_str() {
        Some(bound) if form.is_json() => writeln!(out, "{}", json!({ "bound": bound }))?,
        Some(bound) => aside(format_args!("incomplete: the limit on {bound} was reached")),
        None => {}
    }
    Ok(())
}

/// Prints a number, or in JSON output the whole answer.
fn print_count(answer: &Value, form: OutputForm, out: &mut dyn Write) -> Result {
    form.print(out, std::slice::from_ref(answer), |answer| answer["count"].to_string())
}

impl Get {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let Get { graph, blocks, by, at: position, versions, place, form } = self;
        if versions && blocks.len() > 1 {
            return Err(CommandError::new("--versions takes exactly one block"));
        }
        place.visit(|client| {
            let path = |block: &str| Path::new(&["graphs", &graph, "blocks", block]);
            if !versions && let [block] = &blocks[..] {
                let block = client.get(&at(by.add_to(path(block)), position))?;
                return form.print(out, std::slice::from_ref(&block), lines::block);
            }
            if !versions {
                let blocks_asked = blocks.iter().map(|block| by.block(block)).collect::<Result<Vec<_>>>()?;
                let asked = json!({ "blocks": blocks_asked, "at": position });
                let answer = client.post(&Path::new(&["graphs", &graph, "get"]), &asked)?;
                let found = list(&answer, "blocks");
                let is_there = |block: &&Value| !block.is_null();
                let there: Vec<Value> = found.iter().filter(is_there).cloned().collect();
                form.print(out, &there, lines::block)?;
                let missing = blocks.iter().zip(found).filter(|(_, found)| found.is_null());
                let missing: Vec<&str> = missing.map(|(block, _)| block.as_str()).collect();
                return match &missing[..] {
                    [] => Ok(()),
                    missing => {
                        Err(CommandError::new(format!("block {} not found in graph {graph}", missing.join(", "))))
                    }
                };
            }
            let path = Path::new(&["graphs", &graph, "blocks", &blocks[0], "versions"]);
            let answer = client.get(&by.add_to(path).with("limit", 1_000))?;
            form.print(out, list(&answer, "data"), |version| match &version["put"] {
                Value::Null => format!("at {}: deleted", version["deleted"]["position"]),
                put => format!("at {}: {}", put["position"], lines::short(put)),
            })
        })
    }
}

impl List {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let List { graph, filter, source, at: position, limit, count, place, form } = self;
        let asked = |after: &Option<String>| {
            let path = filter.add_to(Path::new(&["graphs", &graph, "blocks"]));
            let path = source.iter().fold(path, |path, source| path.with("source_prefix", source));
            match after {
                Some(after) => path.with("cursor", after),
                None => at(path, position),
            }
        };
        place.visit(|client| {
            let (mut left, mut after) = (limit, None::<String>);
            if count {
                let mut counted = 0;
                loop {
                    let mut answer = client.get(&asked(&after).with("count", true))?;
                    counted += answer["count"].as_u64().unwrap_or_default();
                    after = answer["next_cursor"].as_str().map(str::to_owned);
                    if after.is_none() {
                        answer["count"] = counted.into();
                        return print_count(&answer, form, out);
                    }
                }
            }
            while left > 0 {
                let answer = client.get(&asked(&after).with("limit", left.min(1_000)))?;
                let blocks = list(&answer, "data");
                form.print(out, blocks, lines::short)?;
                left -= left.min(blocks.len() as u64);
                after = answer["next_cursor"].as_str().map(str::to_owned);
                if after.is_none() {
                    return Ok(());
                }
            }
            aside(format_args!("more than {limit} found; raise --limit to see the rest"));
            Ok(())
        })
    }
}

impl Neighbours {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let Neighbours { graph, block, by, direction, types, at: position, limit, count, place, form } = self;
        let asked = || {
            let path = Path::new(&["graphs", &graph, "blocks", &block, "neighbours"]);
            by.add_to(path.with("direction", direction.name()).with_all("type", &types))
        };
        place.visit(|client| {
            if count {
                return print_count(&client.get(&at(asked().with("count", true), position))?, form, out);
            }
            let (mut left, mut after) = (limit, None::<String>);
            while left > 0 {
                let path = asked().with("limit", left.min(1_000));
                let path = match &after {
                    Some(after) => path.with("cursor", after),
                    None => at(path, position),
                };
                let answer = client.get(&path)?;
                let neighbours = list(&answer, "data");
                form.print(out, neighbours, lines::neighbour)?;
                left -= left.min(neighbours.len() as u64);
                after = answer["next_cursor"].as_str().map(str::to_owned);
                if after.is_none() {
                    return Ok(());
                }
            }
            aside(format_args!("more than {limit} found; raise --limit to see the rest"));
            Ok(())
        })
    }
}

impl Walk {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let Walk { graph, start, by, order, way, depth, limit, count, dot, place, form } = self;
        if dot && matches!(order, VisitOrder::Depth) {
            return Err(CommandError::new("--dot needs --order breadth"));
        }
        place.visit(|client| {
            let order = if matches!(order, VisitOrder::Breadth) { "breadth" } else { "depth" };
            let path = Path::new(&["graphs", &graph, "walk"]).with("start", &start).with("order", order);
            let path = way.add_to(by.add_to(path)).with("depth", depth);
            if count {
                let answer = client.get(&path.with("count", true))?;
                print_count(&answer, form, out)?;
                return if form.is_json() { Ok(()) } else { tell_bound(&answer, form, out) };
            }
            let answer = client.get(&path.with("limit", limit).with("edges", dot))?;
            if dot {
                dot::write(out, &answer)?;
            } else {
                form.print(out, list(&answer, "visits"), lines::visit)?;
            }
            tell_bound(&answer, form, out)
        })
    }
}

impl Paths {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let Paths { graph, from, to, by, all, way, depth, limit, place, form } = self;
        way.check_only("a path")?;
        place.visit(|client| {
            let path = Path::new(&["graphs", &graph, "paths"]).with("from", &from).with("to", &to).with("all", all);
            let answer = client.get(&way.add_to(by.add_to(path)).with("depth", depth).with("limit", limit))?;
            let paths = list(&answer, "paths");
            form.print(out, paths, lines::way)?;
            tell_bound(&answer, form, out)?;
            if paths.is_empty() && answer["bound"].is_null() {
                aside(format_args!("no path from {from} to {to}"));
            }
            Ok(())
        })
    }
}
