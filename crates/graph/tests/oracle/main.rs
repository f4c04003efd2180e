//! Random commits against a naive graph made of a map and a list, and against restarts at every
//! position.

mod path_searches;
mod retention;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;
use quire_graph::{
    Block, BlockFilter, BlockId, BlockRef, Command, DeleteBlock, DeleteEdge, DeleteEdges, Direction, End, Graphs,
    ListCursor, ListPlan, PutBlock, PutEdge, Refusal, Reply, TraversalOrder, Version, WalkPlan, WalkProgress, Walker,
    Wants,
};
use quire_model::memory::World;
use quire_model::{DecideError, Position, Timestamp};

use path_searches::BegunSearch;

const GRAPHS: [&str; 2] = ["a", "b/c"];
const TYPES: [&str; 3] = ["z", "y", "x"];
const BLOCKS: usize = 6;

/// A command before its borrows.
#[derive(Debug, Clone)]
enum WalkStep {
    PutBlock { graph: usize, block: usize, by_name: bool, expect: Option<u64>, tags: Vec<u8>, content: Vec<u8> },
    DeleteBlock { graph: usize, block: usize },
    PutEdge { graph: usize, edge: (usize, usize, usize), properties: Vec<u8>, allow_missing: bool },
    DeleteEdge { graph: usize, edge: (usize, usize, usize) },
    DeleteEdges { graph: usize, block: usize, count_max: usize },
}

/// Nothing for nothing, and of other bytes an array.
fn json(bytes: Vec<u8>) -> Vec<u8> {
    if bytes.is_empty() { bytes } else { format!("{bytes:?}").into_bytes() }
}

fn step() -> impl Strategy<Value = WalkStep> {
    let graph = 0..GRAPHS.len();
    let edge = (0..BLOCKS, 0..TYPES.len(), 0..BLOCKS);
    let expect = prop_oneof![9 => Just(None), 1 => (0u64..4).prop_map(Some)];
    let bytes = || vec(any::<u8>(), 0..4);
    prop_oneof![
        5 => (graph.clone(), 0..BLOCKS, any::<bool>(), expect, vec(0u8..5, 0..4), bytes()).prop_map(
            |(graph, block, by_name, expect, tags, content)| {
                WalkStep::PutBlock { graph, block, by_name, expect, tags, content }
            }
        ),
        2 => (graph.clone(), 0..BLOCKS).prop_map(|(graph, block)| WalkStep::DeleteBlock { graph, block }),
        6 => (graph.clone(), edge.clone(), bytes().prop_map(json), prop::bool::weighted(0.7)).prop_map(
            |(graph, edge, properties, allow_missing)| WalkStep::PutEdge { graph, edge, properties, allow_missing }
        ),
        2 => (graph.clone(), edge).prop_map(|(graph, edge)| WalkStep::DeleteEdge { graph, edge }),
        2 => (graph, 0..BLOCKS, 0usize..5)
            .prop_map(|(graph, block, count_max)| WalkStep::DeleteEdges { graph, block, count_max }),
    ]
}

#[derive(Debug, Clone, Default, PartialEq)]
struct NaiveBlock {
    version: u64,
    name: Option<String>,
    tags: BTreeSet<String>,
    content: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
struct NaiveGraph {
    blocks: BTreeMap<BlockId, NaiveBlock>,
    /// Source, edge type, target, properties.
    edges: Vec<(BlockId, String, BlockId, Vec<u8>)>,
    /// In the order of first use.
    types: Vec<String>,
    /// Every version that a block ever had.
    versions: BTreeSet<(BlockId, u64)>,
}

impl NaiveGraph {
    /// Type and block at the other end, in the order that is promised.
    fn neighbours(&self, block: BlockId, end: End) -> Vec<(&str, BlockId)> {
        let mut found: Vec<(usize, BlockId)> = Vec::new();
        for (source, edge_type, target, _) in &self.edges {
            let (near, far) = if end == End::Target { (source, target) } else { (target, source) };
            if *near == block {
                found.push((self.types.iter().position(|name| name == edge_type).unwrap(), *far));
            }
        }
        found.sort();
        found.into_iter().map(|(edge_type, far)| (&*self.types[edge_type], far)).collect()
    }

    fn walk(&self, start: BlockId) -> Vec<(BlockId, usize)> {
        let (mut seen, mut queue, mut visits) = (BTreeSet::from([start]), VecDeque::from([(start, 0)]), Vec::new());
        while let Some((block, depth)) = queue.pop_front() {
            visits.push((block, depth));
            for (_, next) in self.neighbours(block, End::Target) {
                if seen.insert(next) {
                    queue.push_back((next, depth + 1));
                }
            }
        }
        visits
    }
}

/// A block, its depth, and the block before it on the way.
type DepthVisit = (BlockId, usize, Option<BlockId>);

impl NaiveGraph {
    /// The edges of a block, outgoing ones first, each once.
    fn edges_of(&self, block: BlockId) -> Vec<(BlockId, String, BlockId)> {
        let outgoing = self.neighbours(block, End::Target).into_iter().map(|(of, far)| (block, of.to_owned(), far));
        let incoming = self.neighbours(block, End::Source).into_iter().map(|(of, far)| (far, of.to_owned(), block));
        outgoing.chain(incoming.filter(|(source, ..)| *source != block)).collect()
    }

    /// Preorder: a block, then everything behind its first neighbour. It turns round at a depth;
    /// says whether blocks were left out there.
    fn depth_first(&self, start: BlockId, depth_max: usize) -> (Vec<DepthVisit>, bool) {
        let (mut visits, mut turned) = (Vec::new(), BTreeSet::new());
        self.go_deeper((start, 0, None), depth_max, &mut visits, &mut turned);
        let is_left_out = turned.iter().any(|left| !visits.iter().any(|(block, ..)| block == left));
        (visits, is_left_out)
    }

    fn go_deeper(
        &self,
        visit: DepthVisit,
        depth_max: usize,
        visits: &mut Vec<DepthVisit>,
        turned: &mut BTreeSet<BlockId>,
    ) {
        let (block, depth, _) = visit;
        if visits.iter().any(|(visited, ..)| *visited == block) {
            return;
        }
        visits.push(visit);
        for (_, next) in self.neighbours(block, End::Target) {
            if depth == depth_max {
                turned.insert(next);
            } else {
                self.go_deeper((next, depth + 1, Some(block)), depth_max, visits, turned);
            }
        }
    }
}

type Naive = BTreeMap<&'static str, NaiveGraph>;

fn name(block: usize) -> String {
    format!("block {block}")
}

fn id(block: usize) -> BlockId {
    BlockId::of_name(&name(block))
}

/// Applies a step to the naive graphs; `None` when it must be refused. New versions are taken over
/// from the reply, since the promise is only that they grow.
fn expect_reply(naive: &mut Naive, step: &WalkStep, reply: Option<&Reply>) -> Option<Reply> {
    match step {
        WalkStep::PutBlock { graph, block, by_name, expect, tags, content } => {
            let graph = naive.entry(GRAPHS[*graph]).or_default();
            let before = graph.blocks.get(&id(*block)).cloned();
            let found = before.as_ref().map_or(0, |before| before.version);
            if expect.is_some_and(|expect| expect != found) {
                return None;
            }
            let version = match reply {
                Some(Reply::BlockPut { version, .. }) => version.get(),
                _ => 0,
            };
            if reply.is_some() {
                let newest = graph.versions.range((id(*block), 0)..=(id(*block), u64::MAX)).next_back();
                assert!(newest.is_none_or(|(_, newest)| *newest < version), "versions grow");
                graph.versions.insert((id(*block), version));
            }
            let kept = before.as_ref().and_then(|before| before.name.clone());
            let name = if *by_name { Some(name(*block)) } else { kept };
            let tags = tags.iter().map(u8::to_string).collect();
            graph.blocks.insert(id(*block), NaiveBlock { version, name, tags, content: content.clone() });
            Some(Reply::BlockPut { block: id(*block), version: Version::new(version), created: before.is_none() })
        }
        WalkStep::DeleteBlock { graph, block } => {
            let id = id(*block);
            let mut version = 0;
            if let Some(graph) = naive.get_mut(GRAPHS[*graph])
                && let Some(block) = graph.blocks.remove(&id)
            {
                version = block.version;
                graph.edges.retain(|(source, _, target, _)| *source != id && *target != id);
            }
            Some(Reply::BlockDeleted { block: id, version: Version::new(version) })
        }
        WalkStep::PutEdge { graph, edge: (source, edge_type, target), properties, allow_missing } => {
            let graph = naive.entry(GRAPHS[*graph]).or_default();
            let (source, target) = (id(*source), id(*target));
            let is_whole = graph.blocks.contains_key(&source) && graph.blocks.contains_key(&target);
            if !is_whole && !allow_missing {
                return None;
            }
            let edge_type = TYPES[*edge_type].to_owned();
            if !graph.types.contains(&edge_type) {
                graph.types.push(edge_type.clone());
            }
            let count = graph.edges.len();
            graph.edges.retain(|edge| (edge.0, &edge.1, edge.2) != (source, &edge_type, target));
            let created = graph.edges.len() == count;
            graph.edges.push((source, edge_type, target, properties.clone()));
            Some(Reply::EdgePut { created })
        }
        WalkStep::DeleteEdge { graph, edge: (source, edge_type, target) } => {
            let mut existed = false;
            if let Some(graph) = naive.get_mut(GRAPHS[*graph]) {
                let count = graph.edges.len();
                graph.edges.retain(|edge| (edge.0, &*edge.1, edge.2) != (id(*source), TYPES[*edge_type], id(*target)));
                existed = graph.edges.len() < count;
            }
            Some(Reply::EdgeDeleted { existed })
        }
        WalkStep::DeleteEdges { graph, block, count_max } => {
            let Some(graph) = naive.get_mut(GRAPHS[*graph]) else {
                return Some(Reply::EdgesDeleted { count: 0, is_more: false });
            };
            let edges = graph.edges_of(id(*block));
            let count = edges.len().min(*count_max);
            for edge in &edges[..count] {
                graph.edges.retain(|(source, edge_type, target, _)| {
                    (*source, edge_type, *target) != (edge.0, &edge.1, edge.2)
                });
            }
            Some(Reply::EdgesDeleted { count, is_more: edges.len() > count })
        }
    }
}

/// Whether a step puts or deletes this block.
fn touches(step: &WalkStep, graph: usize, block: usize) -> bool {
    match step {
        WalkStep::PutBlock { graph: of, block: other, .. } | WalkStep::DeleteBlock { graph: of, block: other } => {
            (*of, *other) == (graph, block)
        }
        WalkStep::PutEdge { .. } | WalkStep::DeleteEdge { .. } | WalkStep::DeleteEdges { .. } => false,
    }
}

/// Commits the steps as one commit to both and compares the answers.
fn commit(world: &mut World<Graphs>, naive: &mut Naive, steps: &[WalkStep]) {
    let names: Vec<String> = (0..BLOCKS).map(name).collect();
    let tags: Vec<Vec<String>> = steps
        .iter()
        .map(|step| match step {
            WalkStep::PutBlock { tags, .. } => tags.iter().map(u8::to_string).collect(),
            _ => Vec::new(),
        })
        .collect();
    let tags: Vec<Vec<&str>> = tags.iter().map(|tags| tags.iter().map(String::as_str).collect()).collect();
    let named = |block: usize| BlockRef::Name(&names[block]);
    let commands: Vec<Command<'_>> = steps
        .iter()
        .zip(&tags)
        .map(|(step, tags)| match step {
            WalkStep::PutBlock { graph, block, by_name, expect, content, .. } => Command::PutBlock(PutBlock {
                tags,
                content,
                expect: expect.map(Version::new),
                ..PutBlock::new(GRAPHS[*graph], if *by_name { named(*block) } else { id(*block).into() }, "kind")
            }),
            WalkStep::DeleteBlock { graph, block } => {
                Command::DeleteBlock(DeleteBlock { graph: GRAPHS[*graph], block: named(*block) })
            }
            WalkStep::PutEdge { graph, edge, properties, allow_missing } => Command::PutEdge(PutEdge {
                properties,
                allow_missing: *allow_missing,
                ..PutEdge::new(GRAPHS[*graph], named(edge.0), TYPES[edge.1], named(edge.2))
            }),
            WalkStep::DeleteEdge { graph, edge } => Command::DeleteEdge(DeleteEdge {
                graph: GRAPHS[*graph],
                source: named(edge.0),
                edge_type: TYPES[edge.1],
                target: named(edge.2),
            }),
            WalkStep::DeleteEdges { graph, block, count_max } => {
                Command::DeleteEdges(DeleteEdges { graph: GRAPHS[*graph], block: named(*block), count_max: *count_max })
            }
        })
        .collect();

    let mut after = naive.clone();
    match world.commit(Timestamp::from_millis(7), &commands) {
        Ok(replies) => {
            for (step, reply) in steps.iter().zip(&replies) {
                assert_eq!(expect_reply(&mut after, step, Some(reply)), Some(*reply), "{step:?}");
            }
            *naive = after;
        }
        Err(DecideError::Refused { command, refusal }) => {
            // Versions given within the refused commit are not known, and not compared.
            for step in &steps[..command] {
                expect_reply(&mut after, step, None);
            }
            match (&steps[command], refusal) {
                (WalkStep::PutBlock { graph, block, expect, .. }, Refusal::VersionMismatch { expected, found, .. }) => {
                    assert_eq!(Some(expected.get()), *expect);
                    assert_ne!(expected, found);
                    if steps[..command].iter().all(|step| !touches(step, *graph, *block)) {
                        let before = naive.get(GRAPHS[*graph]).and_then(|graph| graph.blocks.get(&id(*block)));
                        assert_eq!(found.get(), before.map_or(0, |before| before.version));
                    }
                }
                (step, Refusal::MissingBlock { .. }) => assert_eq!(expect_reply(&mut after, step, None), None),
                (step, refusal) => panic!("{step:?} is refused: {refusal}"),
            }
        }
        Err(DecideError::Unreadable(error)) => panic!("{error}"),
    }
}

/// Compares everything that can be read.
fn compare(world: &World<Graphs>, naive: &Naive) {
    assert_eq!(world.model.iter().map(|(name, _)| name).collect::<Vec<_>>(), naive.keys().copied().collect::<Vec<_>>());
    for (graph, naive) in naive {
        let graph = world.model.graph(graph).expect("it is there");
        assert_eq!((graph.block_count(), graph.edge_count()), (naive.blocks.len(), naive.edges.len()));
        for (source, edge_type, target, properties) in &naive.edges {
            let edge = graph.edge(&world.log, *source, edge_type, *target).unwrap().expect("it is there");
            assert_eq!(edge.properties, properties);
        }
        for id in (0..BLOCKS).map(id) {
            let block = graph.block(&world.log, id).unwrap().map(|block| NaiveBlock {
                version: block.version.get(),
                name: block.name.map(Into::into),
                tags: block.tags().map(Into::into).collect(),
                content: block.content.into(),
            });
            assert_eq!(block.as_ref(), naive.blocks.get(&id));
            for (direction, end) in [(Direction::Outgoing, End::Target), (Direction::Incoming, End::Source)] {
                let found: Vec<_> =
                    graph.neighbours(id, direction, &[], None).map(|n| (n.edge_type, n.block)).collect();
                assert_eq!(found, naive.neighbours(id, end));
            }
            let walk = graph.walk(&world.log, id, WalkPlan::default()).unwrap();
            let visits = walk.map(|walk| walk.visits().map(|visit| (visit.block, visit.depth)).collect::<Vec<_>>());
            assert_eq!(visits, naive.blocks.contains_key(&id).then(|| naive.walk(id)));
        }
    }
}

/// A walk that began after a commit, and what the naive graph says that it has to find.
struct Begun {
    graph: &'static str,
    start: BlockId,
    walker: Walker<'static>,
    /// Within which depth it goes depth first, if it does.
    deep: Option<usize>,
    naive: NaiveGraph,
}

/// Every walk that can be begun in the graphs as they are, in both orders, depth first with and
/// without a bound on depth.
fn begin(naive: &Naive, at: Position) -> Vec<Begun> {
    let mut begun = Vec::new();
    for (graph, naive) in naive {
        for start in (0..BLOCKS).map(id) {
            let breadth = WalkPlan { with_edges: true, ..WalkPlan::default() };
            let deep = |depth_max| WalkPlan { order: TraversalOrder::DepthFirst, depth_max, ..WalkPlan::default() };
            for plan in [breadth, deep(usize::MAX), deep(2)] {
                let walker = Walker::new(&[start], plan, at);
                let deep = (plan.order == TraversalOrder::DepthFirst).then_some(plan.depth_max);
                begun.push(Begun { graph, start, walker, deep, naive: naive.clone() });
            }
        }
    }
    begun
}

impl Begun {
    /// Continues for `edges` edges; returns whether the walk is finished.
    fn advance(&mut self, world: &World<Graphs>, edges: usize) -> bool {
        let graph = world.model.graph(self.graph).expect("it is there");
        let progress = self.walker.advance(graph, &world.log, edges).expect("readable");
        let is_there = self.naive.blocks.contains_key(&self.start);
        assert_eq!(progress == WalkProgress::NoSuchBlock(self.start), !is_there);
        progress != WalkProgress::More
    }

    fn check(self, world: &World<Graphs>) {
        if !self.naive.blocks.contains_key(&self.start) {
            return;
        }
        let graph = world.model.graph(self.graph).expect("it is there");
        let at = self.walker.at();
        let walk = self.walker.finish();
        let visits: Vec<(BlockId, usize)> = walk.visits().map(|visit| (visit.block, visit.depth)).collect();
        if let Some(depth_max) = self.deep {
            let (expected, is_left_out) = self.naive.depth_first(self.start, depth_max);
            let from = |visit: quire_graph::Visit| (visit.block, visit.depth, visit.from.map(|step| step.block));
            assert_eq!(walk.visits().map(from).collect::<Vec<_>>(), expected, "depth first within {depth_max} at {at}");
            assert_eq!(walk.bound(), is_left_out.then_some(quire_graph::WalkBound::Depth));
            return;
        }
        let breadth = self.naive.walk(self.start);
        assert_eq!(visits, breadth, "breadth first at {at}");
        assert_eq!(walk.bound(), None);
        let mut edges: Vec<_> = walk
            .edges()
            .map(|edge| (edge.source, graph.edge_type_name(edge.edge_type).to_owned(), edge.target))
            .collect();
        edges.sort();
        let is_within = |id: &BlockId| breadth.iter().any(|visit| visit.0 == *id);
        let within = self.naive.edges.iter().filter(|edge| is_within(&edge.0) && is_within(&edge.2));
        let mut expected: Vec<_> = within.map(|edge| (edge.0, edge.1.clone(), edge.2)).collect();
        expected.sort();
        assert_eq!(edges, expected, "at {at}");
    }
}

/// Compares what can be read of an earlier position, of the graphs whose history goes back so far.
fn compare_past(world: &World<Graphs>, naive: &Naive, at: Position) {
    for (name, naive) in naive {
        let graph = world.model.graph(name).expect("it is there");
        if at < graph.history_from() {
            retention::check_refused(world, name, at);
            continue;
        }
        for id in (0..BLOCKS).map(id) {
            let found = graph.block_at(&world.log, id, at).unwrap();
            let found = found.map(|block| (block.version.get(), block.content.to_vec()));
            let expected = naive.blocks.get(&id).map(|block| (block.version, block.content.clone()));
            assert_eq!(found, expected, "{id} at {at}");
            for (direction, end) in [(Direction::Outgoing, End::Target), (Direction::Incoming, End::Source)] {
                let found = graph.neighbours_at(&world.log, id, direction, &[], None, at).unwrap();
                let found: Vec<_> = found.iter().map(|found| (found.edge_type, found.block)).collect();
                assert_eq!(found, naive.neighbours(id, end), "{id} at {at}");
            }
        }
        for tag in 0..5u8 {
            let tag = tag.to_string();
            let tags = [&*tag];
            let plan = ListPlan { filter: BlockFilter { tags: &tags, ..BlockFilter::default() }, source_prefix: "" };
            let (mut from, mut listed) = (Some(ListCursor::START), BTreeSet::new());
            while let Some(cursor) = from {
                let mut show = |block: &Block<'_>| {
                    assert!(listed.insert(block.id), "a block is listed once");
                    Wants::Break(())
                };
                from = graph.list(&world.log, at, &plan, cursor, 2, &mut show).unwrap();
            }
            let has_tag = |block: &NaiveBlock| block.tags.contains(&tag);
            let expected = naive.blocks.iter().filter(|(_, block)| has_tag(block)).map(|(id, _)| *id);
            assert_eq!(listed, expected.collect(), "tag {tag} at {at}");
        }
        if at == world.log.tail() {
            let ends = naive.edges.iter().flat_map(|edge| [edge.0, edge.2]);
            let expected: BTreeSet<BlockId> = ends.filter(|id| !naive.blocks.contains_key(id)).collect();
            let (mut from, mut missing) = (Some(0), BTreeSet::new());
            while let Some(slot) = from {
                let (found, next) = graph.missing_blocks(slot, 1, 1 + slot % 3);
                missing.extend(found.into_iter().map(|(_, id)| id));
                from = next;
            }
            assert_eq!(missing, expected);
        }
    }
}

proptest! {
    #[test]
    fn walks_and_reads_of_a_position_are_the_same_whatever_is_committed_meanwhile(
        commits in vec(vec(step(), 1..6), 1..16),
        edges in 1usize..3,
    ) {
        let (mut world, mut naive) = (World::new(), Naive::new());
        let (mut before, mut begun, mut searches) = (Vec::new(), Vec::<Begun>::new(), Vec::<BegunSearch>::new());
        for steps in &commits {
            commit(&mut world, &mut naive, steps);
            for begun in &mut begun {
                begun.advance(&world, edges);
            }
            for search in &mut searches {
                search.advance(&world, edges);
            }
            before.push((world.log.tail(), naive.clone()));
            begun.extend(begin(&naive, world.log.tail()));
            searches.extend(path_searches::begin(&naive, world.log.tail()));
        }
        for mut begun in begun {
            while !begun.advance(&world, edges) {}
            begun.check(&world);
        }
        for mut search in searches {
            while !search.advance(&world, edges) {}
            search.check(&world);
        }
        world.model = world.restarted(world.log.tail());
        for (at, naive) in &before {
            compare_past(&world, naive, *at);
            for mut begun in begin(naive, *at) {
                while !begun.advance(&world, 3) {}
                begun.check(&world);
            }
            for mut search in path_searches::begin(naive, *at) {
                while !search.advance(&world, 3) {}
                search.check(&world);
            }
        }
    }

    #[test]
    fn random_commits_agree_with_a_map_and_a_list_and_survive_restarts(commits in vec(vec(step(), 1..9), 1..30)) {
        let (mut world, mut naive) = (World::new(), Naive::new());
        for steps in &commits {
            commit(&mut world, &mut naive, steps);
            compare(&world, &naive);
        }
        let live = World::saved(&world.model);
        for position in 0..=world.log.tail().get() {
            let restarted = world.restarted(Position::new(position));
            prop_assert_eq!(World::saved(&restarted), live.clone());
        }
    }
}
