//! Walks: order, bounds, and shapes that break a careless walk (long chains, stars, cycles).

use quire_graph::{
    BlockId, Command, DeleteBlock, DeleteEdges, Direction, End, Graph, Graphs, PutBlock, PutEdge, Refusal, Reply,
    TraversalOrder, Visit, WalkBound, WalkPlan, WalkProgress, Walker,
};
use quire_model::memory::World;
use quire_model::{DecideError, Position, Timestamp};

const G: &str = "g";

/// A graph with the blocks and edges that these numbers name.
fn world(edges: &[(u32, &str, u32)]) -> World<Graphs> {
    let mut world = World::new();
    let mut numbers: Vec<u32> = edges.iter().flat_map(|(source, _, target)| [*source, *target]).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let puts = numbers.iter().map(|number| Command::PutBlock(PutBlock::new(G, id(*number), "n")));
    let links = edges
        .iter()
        .map(|(source, edge_type, target)| Command::PutEdge(PutEdge::new(G, id(*source), edge_type, id(*target))));
    let commands: Vec<Command<'_>> = puts.chain(links).collect();
    for commands in commands.chunks(100_000) {
        world.commit(Timestamp::ZERO, commands).expect("accepted");
    }
    world
}

/// Ids that order as their numbers do.
fn id(number: u32) -> BlockId {
    BlockId::new(u128::from(number).to_be_bytes())
}

fn number(id: BlockId) -> u32 {
    u128::from_be_bytes(*id.as_bytes()).try_into().expect("a small one")
}

fn graph(world: &World<Graphs>) -> &Graph {
    world.model.graph(G).expect("the graph is there")
}

/// The visits as (block, depth), and the bound.
fn walk(world: &World<Graphs>, start: u32, plan: WalkPlan<'_>) -> (Vec<(u32, usize)>, Option<WalkBound>) {
    let walk = graph(world).walk(&world.log, id(start), plan).expect("readable").expect("the start is there");
    (walk.visits().map(|visit| (number(visit.block), visit.depth)).collect(), walk.bound())
}

fn everything() -> WalkPlan<'static> {
    WalkPlan { depth_max: usize::MAX, visited_max: usize::MAX, ..WalkPlan::default() }
}

const DIAMOND: &[(u32, &str, u32)] =
    &[(1, "a", 3), (1, "b", 2), (3, "a", 4), (2, "a", 4), (4, "a", 5), (5, "a", 1), (2, "b", 2)];

#[test]
fn each_block_is_visited_once_nearest_first_in_the_order_of_neighbours() {
    let world = world(DIAMOND);
    assert_eq!(walk(&world, 1, everything()), (vec![(1, 0), (3, 1), (2, 1), (4, 2), (5, 3)], None));
    let incoming = WalkPlan { direction: Direction::Incoming, ..everything() };
    assert_eq!(walk(&world, 4, incoming), (vec![(4, 0), (2, 1), (3, 1), (1, 2), (5, 3)], None));
    let both = WalkPlan { direction: Direction::Both, ..everything() };
    assert_eq!(walk(&world, 4, both), (vec![(4, 0), (5, 1), (2, 1), (3, 1), (1, 2)], None));
    let only_a = WalkPlan { edge_types: &["a"], ..everything() };
    assert_eq!(walk(&world, 1, only_a), (vec![(1, 0), (3, 1), (4, 2), (5, 3)], None));
    assert_eq!(walk(&world, 1, WalkPlan { edge_types: &["c"], ..everything() }), (vec![(1, 0)], None));
}

#[test]
fn a_visit_names_the_block_before_it() {
    let world = world(DIAMOND);
    let walk = graph(&world).walk(&world.log, id(1), everything()).unwrap().unwrap();
    let visits: Vec<_> = walk.visits().collect();
    assert_eq!(visits[0], Visit { block: id(1), depth: 0, from: None });
    let Visit { block, depth, from: Some(step) } = visits[3] else { panic!("it came from somewhere") };
    assert_eq!((block, depth, step.block, step.end), (id(4), 2, id(3), End::Target));
    assert_eq!(graph(&world).edge_type_name(step.edge_type), "a");
}

#[test]
fn a_walk_names_the_bound_that_cut_it_and_only_when_something_was_left_out() {
    let world = world(DIAMOND);
    let bounded = |depth_max, visited_max| {
        let (visits, bound) = walk(&world, 1, WalkPlan { depth_max, visited_max, ..WalkPlan::default() });
        (visits.len(), bound)
    };
    assert_eq!(bounded(0, 9), (1, Some(WalkBound::Depth)));
    assert_eq!(bounded(1, 9), (3, Some(WalkBound::Depth)));
    assert_eq!(bounded(2, 9), (4, Some(WalkBound::Depth)));
    assert_eq!(bounded(3, 9), (5, None), "the edge back to the start leads to nothing new");
    assert_eq!(bounded(9, 5), (5, None));
    assert_eq!(bounded(9, 4), (4, Some(WalkBound::Visited)));
    assert_eq!(bounded(9, 1), (1, Some(WalkBound::Visited)));
    assert_eq!(bounded(9, 0), (0, Some(WalkBound::Visited)));
}

#[test]
fn a_depth_first_walk_returns_its_path_whatever_bound_ends_it() {
    let world = world(&[(1, "t", 2), (2, "t", 3), (3, "t", 4), (1, "z", 4), (1, "z", 5)]);
    let visits = |depth_max, visited_max, results_max| {
        let plan =
            WalkPlan { order: TraversalOrder::DepthFirst, depth_max, visited_max, results_max, ..WalkPlan::default() };
        let walk = graph(&world).walk(&world.log, id(1), plan).unwrap().unwrap();
        let from = |visit: Visit| (number(visit.block), visit.depth, visit.from.map(|step| number(step.block)));
        (walk.visits().map(from).collect::<Vec<_>>(), walk.bound())
    };
    let all = [(1, 0, None), (2, 1, Some(1)), (3, 2, Some(2)), (4, 3, Some(3)), (5, 1, Some(1))];
    assert_eq!(visits(100, 100, 100), (all.to_vec(), None));
    for count in 1..5 {
        assert_eq!(visits(100, count, 100), (all[..count].to_vec(), Some(WalkBound::Visited)));
        assert_eq!(visits(100, 100, count), (all[..count].to_vec(), Some(WalkBound::Results)));
    }
    let turned = [(1, 0, None), (2, 1, Some(1)), (3, 2, Some(2)), (4, 1, Some(1)), (5, 1, Some(1))];
    assert_eq!(visits(2, 100, 100), (turned.to_vec(), None));
}

#[test]
fn a_bounded_depth_first_walk_expands_no_block_twice_and_reports_omitted_blocks() {
    let world = world(&[(1, "t", 2), (2, "t", 3), (1, "z", 3), (3, "t", 4)]);
    let plan = WalkPlan { order: TraversalOrder::DepthFirst, depth_max: 2, ..everything() };
    assert_eq!(walk(&world, 1, plan), (vec![(1, 0), (2, 1), (3, 2)], Some(WalkBound::Depth)));
    let plan = WalkPlan { order: TraversalOrder::DepthFirst, depth_max: 3, ..everything() };
    assert_eq!(walk(&world, 1, plan), (vec![(1, 0), (2, 1), (3, 2), (4, 3)], None));
}

#[test]
fn a_depth_first_walk_reads_each_edge_once_however_many_shorter_paths_exist() {
    const HOPS: u32 = 100_000;
    let long = (0..HOPS).map(|number| (number, "t", number + 1));
    let short = (0..HOPS - 1).map(|number| (number, "z", number + 2));
    let world = world(&long.chain(short).collect::<Vec<_>>());
    let mut walker =
        Walker::new(&[id(0)], WalkPlan { order: TraversalOrder::DepthFirst, ..everything() }, Position::MAX);
    let mut calls = 0;
    while walker.advance(graph(&world), &world.log, 1_000).unwrap() == WalkProgress::More {
        calls += 1;
    }
    assert!(calls <= 400, "{calls} times about 1,000 edges, of 200,000");
    assert_eq!(walker.finish().visits().last().map(|visit| visit.depth), Some(HOPS as usize));
}

#[test]
fn a_walk_from_an_unknown_block_is_none() {
    let mut world = world(DIAMOND);
    assert!(graph(&world).walk(&world.log, id(9), everything()).unwrap().is_none());
    let delete = Command::DeleteBlock(DeleteBlock { graph: G, block: id(1).into() });
    world.commit(Timestamp::ZERO, &[delete]).expect("accepted");
    assert!(graph(&world).walk(&world.log, id(1), everything()).unwrap().is_none());
    assert_eq!(walk(&world, 4, everything()), (vec![(4, 0), (5, 1)], None));
}

#[test]
fn a_chain_of_100_000_hops_is_walked_to_its_end() {
    const HOPS: u32 = 100_000;
    let edges: Vec<_> = (0..HOPS).map(|number| (number, "next", number + 1)).collect();
    let world = world(&edges);
    let (visits, bound) = walk(&world, 0, everything());
    assert_eq!((visits.len(), visits.last(), bound), (100_001, Some(&(HOPS, 100_000)), None));
    let (visits, bound) =
        walk(&world, 0, WalkPlan { depth_max: 99_999, visited_max: usize::MAX, ..WalkPlan::default() });
    assert_eq!((visits.len(), bound), (100_000, Some(WalkBound::Depth)));
}

#[test]
fn a_cycle_of_100_000_hops_is_walked_once() {
    let edges: Vec<_> = (0..100_000).map(|number| (number, "next", (number + 1) % 100_000)).collect();
    let (visits, bound) = walk(&world(&edges), 7, everything());
    assert_eq!((visits.len(), visits.last(), bound), (100_000, Some(&(6, 99_999)), None));
}

#[test]
fn a_star_of_1_000_000_edges_is_walked_paged_counted_and_deleted() {
    const RAYS: u32 = 1_000_000;
    let edges: Vec<_> = (1..=RAYS).map(|ray| (0, "ray", ray)).collect();
    let mut world = world(&edges);
    let (visits, bound) = walk(&world, 0, everything());
    assert_eq!((visits.len(), bound), (1_000_001, None));
    let both = WalkPlan { direction: Direction::Both, ..everything() };
    assert_eq!(walk(&world, 5, both).0.len(), 1_000_001);

    let (mut last, mut count) = (None, 0);
    loop {
        let page: Vec<_> = graph(&world).neighbours(id(0), Direction::Outgoing, &[], last).take(9_999).collect();
        count += page.len();
        let Some(end) = page.last() else { break };
        last = Some(*end);
    }
    assert_eq!(count, 1_000_000);
    assert_eq!(graph(&world).degree(id(0), Direction::Outgoing, &[]), 1_000_000);

    let delete = Command::DeleteBlock(DeleteBlock { graph: G, block: id(0).into() });
    let refusal = Refusal::TooManyEdges { block: id(0), name: None, edges: 1_000_000 };
    let said = "the commit deletes 1000000 edges; delete edges of the block in several commits first";
    assert!(refusal.to_string().contains(said), "{refusal}");
    assert_eq!(world.commit(Timestamp::ZERO, &[delete]), Err(DecideError::Refused { command: 0, refusal }));
    let part = Command::DeleteEdges(DeleteEdges { graph: G, block: id(0).into(), count_max: 100_000 });
    for deleted in 1..=9 {
        let replies = world.commit(Timestamp::ZERO, &[part]);
        assert_eq!(replies, Ok(vec![Reply::EdgesDeleted { count: 100_000, is_more: true }]));
        assert_eq!(graph(&world).edge_count(), 1_000_000 - deleted * 100_000);
    }
    world.commit(Timestamp::ZERO, &[delete]).expect("accepted");
    assert_eq!((graph(&world).block_count(), graph(&world).edge_count()), (1_000_000, 0));
    assert_eq!(graph(&world).degree(id(5), Direction::Both, &[]), 0);
}
