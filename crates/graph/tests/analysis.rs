//! Analysis of a walk's edges: strongly connected components, topological order, all paths from one
//! block to another.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use quire_graph::{
    BlockFilter, BlockId, Command, Direction, Graph, Graphs, PutBlock, PutEdge, TraversalOrder, Walk, WalkBound,
    WalkPlan,
};
use quire_model::Timestamp;
use quire_model::memory::World;

const G: &str = "g";

fn id(number: u32) -> BlockId {
    BlockId::new(u128::from(number).to_be_bytes())
}

fn number(id: &BlockId) -> u32 {
    u128::from_be_bytes(*id.as_bytes()).try_into().expect("a small one")
}

fn world(blocks: u32, edges: &[(u32, u32)]) -> World<Graphs> {
    let mut world = World::new();
    let puts = (0..blocks).map(|block| {
        let kind = if block % 2 == 0 { "even" } else { "odd" };
        Command::PutBlock(PutBlock::new(G, id(block), kind))
    });
    let links = edges.iter().map(|(from, to)| Command::PutEdge(PutEdge::new(G, id(*from), "to", id(*to))));
    let commands: Vec<Command<'_>> = puts.chain(links).collect();
    for commands in commands.chunks(100_000) {
        world.commit(Timestamp::ZERO, commands).expect("accepted");
    }
    world
}

fn graph(world: &World<Graphs>) -> &Graph {
    world.model.graph(G).expect("it is there")
}

fn everything() -> WalkPlan<'static> {
    WalkPlan { with_edges: true, depth_max: usize::MAX, visited_max: usize::MAX, ..WalkPlan::default() }
}

fn walk(world: &World<Graphs>, start: u32, plan: WalkPlan<'_>) -> Walk {
    graph(world).walk(&world.log, id(start), plan).expect("readable").expect("it is there")
}

fn numbers(groups: &[Vec<BlockId>]) -> Vec<Vec<u32>> {
    groups.iter().map(|group| group.iter().map(number).collect()).collect()
}

#[test]
fn an_order_has_every_edge_lead_onwards_and_names_the_cycles_that_have_none() {
    let world = world(9, &[(0, 2), (0, 1), (1, 3), (2, 3), (3, 4), (4, 5), (5, 4), (5, 6), (0, 7), (7, 7)]);
    let found = walk(&world, 0, everything()).topological_order();
    assert_eq!(found.order.iter().map(number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(numbers(&found.cycles), [vec![7], vec![4, 5]], "what is behind a cycle is in none");
    assert_eq!(found.behind.iter().map(number).collect::<Vec<_>>(), [6]);
    let acyclic = walk(&world, 6, everything()).topological_order();
    assert_eq!((acyclic.order.len(), acyclic.cycles.len()), (1, 0));
}

#[test]
fn a_chain_and_a_cycle_of_1_000_000_blocks_are_no_matter() {
    const LAST: u32 = 999_999;
    let edges: Vec<(u32, u32)> = (0..LAST).map(|block| (block, block + 1)).collect();
    let mut chain = world(LAST + 1, &edges);
    let walked = walk(&chain, 0, everything());
    assert_eq!(walked.topological_order().order.len(), 1_000_000);
    assert_eq!(walked.components().len(), 1_000_000);
    let ways = walked.paths((id(0), id(LAST)), Direction::Outgoing, usize::MAX, 2, &mut |_| None);
    assert_eq!((ways.paths.len(), ways.paths[0].len(), ways.bound), (1, 1_000_000, None));
    let deep = WalkPlan { order: TraversalOrder::DepthFirst, with_edges: false, ..everything() };
    assert_eq!(walk(&chain, 0, deep).visits().last().map(|visit| visit.depth), Some(LAST as usize));

    let close = Command::PutEdge(PutEdge::new(G, id(LAST), "to", id(0)));
    chain.commit(Timestamp::ZERO, &[close]).expect("accepted");
    let walked = walk(&chain, 0, everything());
    assert_eq!(walked.components().len(), 1);
    let found = walked.topological_order();
    assert_eq!((found.order.len(), found.cycles.len(), found.cycles[0].len()), (0, 1, 1_000_000));
}

#[test]
fn ways_come_in_order_and_their_number_their_length_and_the_time_are_bounded() {
    let world = world(6, &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (1, 2), (4, 0), (3, 3)]);
    let walked = walk(&world, 0, everything());
    let ways = |edges_max, count_max| {
        let found = walked.paths((id(0), id(4)), Direction::Outgoing, edges_max, count_max, &mut |_| None);
        let ways = found.paths.iter().map(|way| way.iter().map(|visit| number(&visit.block)).collect::<Vec<_>>());
        (ways.collect::<Vec<_>>(), found.bound)
    };
    assert_eq!(ways(9, 9), (vec![vec![0, 1, 2, 3, 4], vec![0, 1, 3, 4], vec![0, 2, 3, 4]], None));
    assert_eq!(ways(4, 9).1, None, "none is longer");
    assert_eq!(ways(3, 9), (vec![vec![0, 1, 3, 4], vec![0, 2, 3, 4]], Some(WalkBound::Depth)));
    assert_eq!(ways(2, 9), (vec![], Some(WalkBound::Depth)));
    assert_eq!(ways(9, 2), (vec![vec![0, 1, 2, 3, 4], vec![0, 1, 3, 4]], Some(WalkBound::Results)));
    assert_eq!(ways(9, 3).1, None, "there are no more than three");
    let nowhere = walked.paths((id(0), id(5)), Direction::Outgoing, 9, 9, &mut |_| None);
    assert_eq!(nowhere.paths.len(), 0);
    let backwards = walk(&world, 4, WalkPlan { direction: Direction::Incoming, ..everything() });
    let found = backwards.paths((id(4), id(0)), Direction::Incoming, 9, 9, &mut |_| None);
    assert_eq!(found.paths.len(), 3);

    let complete: Vec<(u32, u32)> = (0..40).flat_map(|from| (0..40).map(move |to| (from, to))).collect();
    let complete = self::world(40, &complete);
    let walked = walk(&complete, 0, everything());
    let mut asked = 0;
    let mut twice = |_| {
        asked += 1;
        (asked == 3).then_some(WalkBound::Time)
    };
    let found = walked.paths((id(0), id(39)), Direction::Outgoing, usize::MAX, usize::MAX, &mut twice);
    assert_eq!((found.bound, asked), (Some(WalkBound::Time), 3));
}

#[test]
fn a_shortest_way_is_found_without_visiting_what_is_farther() {
    let edges: Vec<(u32, u32)> =
        (0..1_000).flat_map(|block| [(block, block + 1), (block, (block * 7) % 1_000)]).collect();
    let world = world(1_001, &edges);
    let mut walker = quire_graph::Walker::new(&[id(1)], everything(), quire_model::Position::MAX).until(id(49));
    walker.advance(graph(&world), &world.log, usize::MAX).expect("readable");
    let walked = walker.finish();
    let way: Vec<u32> = walked.way().expect("there is one").iter().map(|visit| number(&visit.block)).collect();
    assert_eq!(way, [1, 7, 49]);
    assert!(walked.visited() < 20, "{}", walked.visited());
}

#[test]
fn a_filter_says_what_is_given_and_whether_to_go_through_others() {
    let world = world(6, &[(0, 1), (1, 2), (2, 4), (1, 3), (3, 5)]);
    let given = |plan: WalkPlan<'_>| {
        let walked = walk(&world, 0, plan);
        (walked.visits().map(|visit| number(&visit.block)).collect::<Vec<_>>(), walked.visited(), walked.bound())
    };
    let plan = WalkPlan { with_edges: false, ..everything() };
    let filter = BlockFilter { kinds: &["even"], ..BlockFilter::default() };
    assert_eq!(given(WalkPlan { filter, ..plan }), (vec![0, 2, 4], 6, None));
    assert_eq!(given(WalkPlan { filter, through_others: false, ..plan }), (vec![0], 1, None));
    assert_eq!(given(WalkPlan { filter, results_max: 2, ..plan }).2, Some(WalkBound::Results));
    let filter = BlockFilter { kinds: &["no such kind"], ..BlockFilter::default() };
    assert_eq!(given(WalkPlan { filter, ..plan }), (vec![0], 6, None));
    let is_small = |block: &quire_graph::Block<'_>| number(&block.id) < 3;
    let filter = BlockFilter { test: Some(&is_small), ..BlockFilter::default() };
    assert_eq!(given(WalkPlan { filter, ..plan }), (vec![0, 1, 2], 6, None));
    let deep = WalkPlan { order: TraversalOrder::DepthFirst, ..plan };
    assert_eq!(given(WalkPlan { filter, ..deep }).0, [0, 1, 2]);
    assert_eq!(given(WalkPlan { depth_max: 2, ..deep }), (vec![0, 1, 2, 3], 4, Some(WalkBound::Depth)));
    assert_eq!(given(WalkPlan { visited_max: 3, ..deep }), (vec![0, 1, 2], 3, Some(WalkBound::Visited)));
}

#[test]
fn a_way_through_matches_only_may_begin_and_end_at_what_does_not_match() {
    // Odd ones lie at both ends, and on the shorter way.
    let world = world(8, &[(1, 2), (2, 4), (4, 5), (1, 3), (3, 5), (5, 6)]);
    let filter = BlockFilter { kinds: &["even"], ..BlockFilter::default() };
    let plan = WalkPlan { filter, through_others: false, ..everything() };
    let way_to = |target: u32| {
        let mut walker = quire_graph::Walker::new(&[id(1)], plan, quire_model::Position::MAX).until(id(target));
        walker.advance(graph(&world), &world.log, usize::MAX).expect("readable");
        walker.finish().way().map(|way| way.iter().map(|visit| number(&visit.block)).collect::<Vec<_>>())
    };
    assert_eq!(way_to(5), Some(vec![1, 2, 4, 5]));
    assert_eq!(way_to(6), None, "none goes on from what does not match");
    let all_to = |target: u32| {
        let walked = walk(&world, 1, WalkPlan { exempt: Some(id(target)), ..plan });
        let found = walked.paths((id(1), id(target)), Direction::Outgoing, 9, 9, &mut |_| None);
        found.paths.iter().map(|way| way.iter().map(|visit| number(&visit.block)).collect()).collect::<Vec<Vec<u32>>>()
    };
    assert_eq!(all_to(5), [[1, 2, 4, 5]]);
    assert_eq!(all_to(6), [[0; 0]; 0]);
}

#[test]
fn edges_are_given_between_blocks_that_are_given_and_orders_go_by_all_that_were_walked() {
    let world = world(4, &[(0, 1), (1, 2), (0, 2), (2, 2)]);
    let filter = BlockFilter { kinds: &["even"], ..BlockFilter::default() };
    let walked = walk(&world, 0, WalkPlan { filter, ..everything() });
    let ends: Vec<_> = walked.edges().map(|edge| (number(&edge.source), number(&edge.target))).collect();
    assert_eq!(ends, [(0, 2), (2, 2)]);
    let numbered: Vec<usize> = walked.edges_from(2).map(|(index, _)| index).collect();
    assert_eq!(numbered, [3], "those that are not given are numbered, too");
    assert_eq!(walked.topological_order().order.len(), 2);
}

/// Whether `to` can be reached from `from`.
fn reaches(edges: &[(u32, u32)], from: u32, to: u32) -> bool {
    let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
    while let Some(block) = open.pop() {
        open.extend(edges.iter().filter(|edge| edge.0 == block).map(|edge| edge.1).filter(|to| seen.insert(*to)));
    }
    seen.contains(&to)
}

/// Every way without a block twice, by recursion.
fn all_ways(
    edges: &BTreeSet<(u32, u32)>,
    way: &mut Vec<u32>,
    to: u32,
    edges_max: usize,
    found: &mut BTreeSet<Vec<u32>>,
) {
    let last = *way.last().expect("it begins somewhere");
    if last == to {
        found.insert(way.clone());
        return;
    }
    for next in edges.iter().filter(|edge| edge.0 == last).map(|edge| edge.1) {
        if way.len() <= edges_max && !way.contains(&next) {
            way.push(next);
            all_ways(edges, way, to, edges_max, found);
            way.pop();
        }
    }
}

proptest! {
    #[test]
    fn components_orders_and_ways_agree_with_naive_ones(edges in vec((0u32..7, 0u32..7), 0..16), edges_max in 0usize..7) {
        let edges: BTreeSet<(u32, u32)> = edges.into_iter().collect();
        let list: Vec<(u32, u32)> = edges.iter().copied().collect();
        let world = world(7, &list);
        let walked = walk(&world, 0, everything());
        let visited: BTreeSet<u32> = walked.visits().map(|visit| number(&visit.block)).collect();
        let mutual = |left: u32, right: u32| reaches(&list, left, right) && reaches(&list, right, left);

        let components = numbers(&walked.components());
        prop_assert_eq!(components.iter().flatten().copied().collect::<BTreeSet<_>>(), visited.clone());
        for left in &components {
            for right in &components {
                for (one, other) in left.iter().flat_map(|one| right.iter().map(move |other| (*one, *other))) {
                    prop_assert_eq!(mutual(one, other), left == right);
                }
            }
        }

        let found = walked.topological_order();
        let order: Vec<u32> = found.order.iter().map(number).collect();
        let is_cyclic = |block: u32| edges.contains(&(block, block)) || visited.iter().any(|other| *other != block && mutual(block, *other));
        let is_behind = |block: u32| visited.iter().any(|from| is_cyclic(*from) && reaches(&list, *from, block));
        let expected: BTreeSet<u32> = visited.iter().copied().filter(|block| !is_behind(*block)).collect();
        prop_assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), expected);
        let rank = |block: u32| order.iter().position(|other| *other == block);
        for (from, to) in &list {
            if let Some((from, to)) = rank(*from).zip(rank(*to)) {
                prop_assert!(from < to);
            }
        }
        prop_assert_eq!(found.cycles.iter().flatten().map(number).collect::<BTreeSet<_>>(), visited.iter().copied().filter(|block| is_cyclic(*block)).collect::<BTreeSet<_>>());

        let behind: BTreeSet<u32> = found.behind.iter().map(number).collect();
        prop_assert_eq!(behind, visited.iter().copied().filter(|block| is_behind(*block) && !is_cyclic(*block)).collect::<BTreeSet<_>>());

        for to in 0..7 {
            let mut expected = BTreeSet::new();
            all_ways(&edges, &mut vec![0], to, edges_max, &mut expected);
            let found = walked.paths((id(0), id(to)), Direction::Outgoing, edges_max, usize::MAX, &mut |_| None);
            let ways: Vec<Vec<u32>> = found.paths.iter().map(|way| way.iter().map(|visit| number(&visit.block)).collect()).collect();
            prop_assert_eq!(ways.len(), expected.len());
            prop_assert_eq!(ways.into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }
}

#[test]
fn the_visits_of_found_paths_are_steps() {
    // A chain of 1,000 blocks, and then 10 times two ways to the next block.
    let chain = (0..1_000).map(|block| (block, block + 1));
    let forks = (0..10).flat_map(|fork| {
        let from = 1_000 + 3 * fork;
        [(from, from + 1), (from, from + 2), (from + 1, from + 3), (from + 2, from + 3)]
    });
    let edges: Vec<(u32, u32)> = chain.chain(forks).collect();
    let world = world(1_031, &edges);
    let walked = walk(&world, 0, everything());
    let mut steps = 0;
    let mut count = |some: u32| {
        steps += u64::from(some);
        None
    };
    let found = walked.paths((id(0), id(1_030)), Direction::Outgoing, usize::MAX, usize::MAX, &mut count);
    let visits: usize = found.paths.iter().map(Vec::len).sum();
    assert_eq!((found.paths.len(), visits), (1_024, 1_024 * 1_021));
    // The last steps were not reported yet.
    assert!(steps + 4_096 >= visits as u64, "{steps}");
}
