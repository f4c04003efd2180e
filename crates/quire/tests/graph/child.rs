//! A process that shares the graph. It commits and reads until it is killed, and prints the
//! replies.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use quire::graph::{BlockId, Direction, WalkPlan};
use quire::{Database, GraphSnapshot, Outcome, Reply, graph};

use crate::naive::{Shown, digest};
use crate::steps::{commit, names, steps};
use crate::{GRAPH, builder};

/// Number of commits between two reads of the whole graph.
const READ_EVERY: u64 = 7;

/// The arguments of the child.
pub(crate) struct Task {
    pub(crate) path: PathBuf,
    /// Number of the child. No two children have the same number.
    pub(crate) run: u64,
}

impl Task {
    pub(crate) fn to_environment(&self, command: &mut Command) {
        command.env("QUIRE_GRAPH_PATH", &self.path).env("QUIRE_GRAPH_RUN", self.run.to_string());
    }

    pub(crate) fn from_environment() -> Option<Self> {
        let path = PathBuf::from(std::env::var_os("QUIRE_GRAPH_PATH")?);
        let run = std::env::var("QUIRE_GRAPH_RUN").expect("it comes with the path").parse().expect("a number");
        Some(Task { path, run })
    }

    pub(crate) fn work_until_killed(&self) {
        let database = builder(&self.path).open().expect("the database opens");
        let names = names();
        for number in 0.. {
            let steps = steps(self.run, number);
            let told = match database.commit(&commit(&steps, &names)).expect("durable") {
                Outcome::Committed(committed) => {
                    let replies: Vec<String> = committed.replies[1..].iter().map(shown).collect();
                    format!("committed {} {number} {} {}", self.run, committed.at.position, replies.join(" "))
                }
                Outcome::Refused(_) => format!("refused {} {number}", self.run),
            };
            tell(&told);
            if number % READ_EVERY == 0 {
                self.read(&database, &names);
            }
        }
    }

    fn read(&self, database: &Database, names: &[String]) {
        let Some(snapshot) = database.graph(GRAPH).snapshot().expect("readable") else { return };
        tell(&format!("read {} {:016x}", snapshot.at(), digest(&everything(&snapshot, names))));
    }
}

/// The whole graph as of the snapshot.
pub(crate) fn everything(snapshot: &GraphSnapshot, names: &[String]) -> Shown {
    let id = |name: &String| BlockId::of_name(name);
    let number = |block: BlockId| names.iter().position(|name| id(name) == block).expect("one of ours");
    let block = |name: &String| {
        let look = |block: &graph::Block<'_>| {
            (block.version.get(), String::from_utf8(block.content.to_vec()).expect("it was put as text"))
        };
        snapshot.block(id(name), look).expect("readable")
    };
    let neighbours = |name: &String| {
        let shown = |found: graph::Neighbour<'_>| {
            (found.end == graph::End::Source, found.edge_type.to_owned(), number(found.block))
        };
        snapshot.neighbours(id(name), Direction::Both, &[], None, usize::MAX, shown).expect("readable")
    };
    let blocks: Vec<_> = names.iter().map(block).collect();
    // Starts at an existing block.
    let start = names.iter().zip(&blocks).find(|(_, block)| block.is_some()).map(|(name, _)| id(name));
    let plan = WalkPlan { depth_max: usize::MAX, ..WalkPlan::default() };
    let walk = start.map_or(Vec::new(), |start| {
        let walk = snapshot.walk(&[start], plan, None).expect("readable");
        walk.visits().map(|visit| (number(visit.block), visit.depth)).collect()
    });
    Shown { blocks, neighbours: names.iter().map(neighbours).collect(), walk }
}

/// Returns a reply as one word.
pub(crate) fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Graph(graph::Reply::BlockPut { version, created, .. }) => format!("put:{version}:{created}"),
        Reply::Graph(graph::Reply::BlockDeleted { version, .. }) => format!("deleted:{version}"),
        Reply::Graph(graph::Reply::EdgePut { created }) => format!("edge:{created}"),
        Reply::Graph(graph::Reply::EdgeDeleted { existed }) => format!("no-edge:{existed}"),
        other => panic!("the graph does not answer {other:?}"),
    }
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent reads");
}
