//! Analysis of a walk's edges: strongly connected components, topological order, all paths from one
//! block to another.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use quire_graph::{
    BlockFilter, BlockId, Command, Direction, Graph, Graphs, PathCost, PathWalker, Paths, PutBlock, PutEdge,
    TraversalOrder, Visit, Walk, WalkBound, WalkPlan, WalkProgress,
};
use quire_model::memory::World;
use quire_model::{Position, Timestamp};

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

/// The paths by the numbers of their blocks.
fn ways(found: &Paths) -> Vec<Vec<u32>> {
    found.paths.iter().map(|way| way.iter().map(|visit| number(&visit.block)).collect()).collect()
}

/// A shortest path, searched with pauses.
fn shortest(world: &World<Graphs>, start: u32, target: u32, plan: WalkPlan<'_>) -> Paths {
    let mut search = PathWalker::new((id(start), id(target)), plan, Position::MAX);
    while search.advance(graph(world), &world.log, 2).expect("readable") == WalkProgress::More {}
    search.finish()
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
fn a_chain_and_a_cycle_of_1_000_000_blocks_are_analysed() {
    const LAST: u32 = 999_999;
    let edges: Vec<(u32, u32)> = (0..LAST).map(|block| (block, block + 1)).collect();
    let mut chain = world(LAST + 1, &edges);
    let walked = walk(&chain, 0, everything());
    assert_eq!(walked.topological_order().order.len(), 1_000_000);
    assert_eq!(walked.components().len(), 1_000_000);
    let found = walked.paths((id(0), id(LAST)), Direction::Outgoing, usize::MAX, 2, &mut |_| None);
    assert_eq!((found.paths.len(), found.paths[0].len(), found.bound), (1, 1_000_000, None));
    let both = WalkPlan { direction: Direction::Both, ..everything() };
    let mut steps = 0;
    let found = walk(&chain, 0, both).paths((id(0), id(LAST)), Direction::Both, usize::MAX, 2, &mut |cost| {
        steps += u64::from(cost.steps);
        None
    });
    assert_eq!((found.paths.len(), found.paths[0].len(), found.bound), (1, 1_000_000, None));
    assert!(steps < 20_000_000, "{steps}");
    let found = shortest(&chain, 0, LAST, both);
    assert_eq!((found.paths.len(), found.paths[0].len(), found.bound), (1, 1_000_000, None));
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
fn the_shortest_paths_come_first_within_bounds_on_number_length_and_time() {
    let world = world(6, &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (1, 2), (4, 0), (3, 3)]);
    let walked = walk(&world, 0, everything());
    let within = |edges_max, count_max| {
        let found = walked.paths((id(0), id(4)), Direction::Outgoing, edges_max, count_max, &mut |_| None);
        (ways(&found), found.bound)
    };
    assert_eq!(within(9, 9), (vec![vec![0, 1, 3, 4], vec![0, 2, 3, 4], vec![0, 1, 2, 3, 4]], None));
    assert_eq!(within(4, 9).1, None, "none is longer");
    assert_eq!(within(3, 9), (vec![vec![0, 1, 3, 4], vec![0, 2, 3, 4]], Some(WalkBound::Depth)));
    assert_eq!(within(2, 9), (vec![], Some(WalkBound::Depth)));
    assert_eq!(within(9, 2), (vec![vec![0, 1, 3, 4], vec![0, 2, 3, 4]], Some(WalkBound::Results)));
    assert_eq!(within(9, 1), (vec![vec![0, 1, 3, 4]], Some(WalkBound::Results)));
    assert_eq!(within(9, 3).1, None, "there are no more than three");
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
fn a_shortest_path_is_found_without_visiting_farther_blocks() {
    let edges: Vec<(u32, u32)> =
        (0..1_000).flat_map(|block| [(block, block + 1), (block, (block * 7) % 1_000)]).collect();
    let world = world(1_001, &edges);
    let mut search = PathWalker::new((id(1), id(49)), everything(), Position::MAX);
    search.advance(graph(&world), &world.log, usize::MAX).expect("readable");
    assert!(search.visited() < 20, "{}", search.visited());
    assert_eq!(ways(&search.finish()), [[1, 7, 49]]);
}

#[test]
fn a_filter_selects_the_returned_blocks_and_whether_the_walk_continues_through_others() {
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
    let way_to = |target: u32| ways(&shortest(&world, 1, target, plan));
    assert_eq!(way_to(5), [[1, 2, 4, 5]]);
    assert_eq!(way_to(6), [[0; 0]; 0], "none goes on from what does not match");
    let all_to = |target: u32| {
        let walked = walk(&world, 1, WalkPlan { exempt: Some(id(target)), ..plan });
        ways(&walked.paths((id(1), id(target)), Direction::Outgoing, 9, 9, &mut |_| None))
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

proptest! {
    #[test]
    fn components_and_orders_agree_with_naive_ones(edges in vec((0u32..7, 0u32..7), 0..16)) {
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
    }

    #[test]
    fn paths_are_those_of_a_naive_enumeration_in_order_of_length(
        edges in vec((0u32..7, 0u32..2, 0u32..7), 0..20),
        edges_max in 0usize..8,
        direction in prop_oneof![Just(Direction::Outgoing), Just(Direction::Incoming), Just(Direction::Both)],
    ) {
        let edges: BTreeSet<(u32, u32, u32)> = edges.into_iter().collect();
        let world = parallel(7, &edges);
        let plan = WalkPlan { direction, ..everything() };
        let walked = walk(&world, 0, plan);
        for to in 0..7 {
            let mut expected = BTreeSet::new();
            naive_paths(&followed(&edges, direction), &mut vec![], 0, to, edges_max, &mut expected);
            let search = |count_max| {
                let found = walked.paths((id(0), id(to)), direction, edges_max, count_max, &mut |_| None);
                (found.paths.iter().map(|path| steps_of(&world, path)).collect::<Vec<_>>(), found.bound)
            };
            let (paths, _) = search(usize::MAX);
            prop_assert!(paths.is_sorted_by_key(Vec::len), "{paths:?}");
            prop_assert_eq!(paths.len(), expected.len());
            prop_assert_eq!(paths.iter().cloned().collect::<BTreeSet<_>>(), expected);
            for count in 0..paths.len() {
                prop_assert_eq!(search(count), (paths[..count].to_vec(), Some(WalkBound::Results)));
            }

            let least = paths.first().map(Vec::len);
            let found = shortest(&world, 0, to, WalkPlan { depth_max: edges_max, with_edges: false, ..plan });
            prop_assert_eq!(found.paths.first().map(|path| path.len() - 1), least, "to {}", to);
            for path in &found.paths {
                prop_assert!(paths.contains(&steps_of(&world, path)), "{:?}", path);
                prop_assert!(path.iter().enumerate().all(|(depth, visit)| visit.depth == depth));
            }
            let reachable = walked.visits().any(|visit| visit.block == id(to));
            if !reachable {
                prop_assert_eq!(found.bound.filter(|bound| *bound != WalkBound::Depth), None);
            }
        }
    }
}

/// A graph whose edges have the types `0` and `1`.
fn parallel(blocks: u32, edges: &BTreeSet<(u32, u32, u32)>) -> World<Graphs> {
    let mut world = world(blocks, &[]);
    let links = edges.iter().map(|(from, kind, to)| {
        Command::PutEdge(PutEdge::new(G, id(*from), if *kind == 0 { "0" } else { "1" }, id(*to)))
    });
    world.commit(Timestamp::ZERO, &links.collect::<Vec<_>>()).expect("accepted");
    world
}

/// A step along an edge: from which block, its type, whether against its direction, to which block.
type Step = (u32, u32, bool, u32);

/// The steps along these edges.
fn followed(edges: &BTreeSet<(u32, u32, u32)>, direction: Direction) -> Vec<Step> {
    let forward = edges.iter().map(|(from, kind, to)| (*from, *kind, false, *to));
    let backward = edges.iter().map(|(from, kind, to)| (*to, *kind, true, *from));
    forward
        .chain(backward)
        .filter(|step| direction == Direction::Both || step.2 == (direction == Direction::Incoming))
        .collect()
}

/// Every path without a block twice, by recursion.
fn naive_paths(
    steps: &[Step],
    path: &mut Vec<Step>,
    from: u32,
    to: u32,
    edges_max: usize,
    found: &mut BTreeSet<Vec<Step>>,
) {
    if from == to {
        found.insert(path.clone());
        return;
    }
    for step in steps.iter().filter(|step| step.0 == from) {
        let is_new = step.3 != from && path.iter().all(|earlier| earlier.0 != step.3);
        if path.len() < edges_max && is_new {
            path.push(*step);
            naive_paths(steps, path, step.3, to, edges_max, found);
            path.pop();
        }
    }
}

/// The steps of a path.
fn steps_of(world: &World<Graphs>, path: &[Visit]) -> Vec<Step> {
    let step = |visit: &Visit| {
        let from = visit.from?;
        let kind = graph(world).edge_type_name(from.edge_type).parse().expect("a number");
        Some((number(&from.block), kind, from.end == quire_graph::End::Source, number(&visit.block)))
    };
    assert!(path.windows(2).all(|pair| pair[1].from.is_some_and(|from| from.block == pair[0].block)), "{path:?}");
    path.iter().filter_map(step).collect()
}

#[test]
fn a_short_way_is_found_in_front_of_a_swamp() {
    // A gate leads to the target and to 30 blocks that all point at each other and back at it.
    const GATE: u32 = 1;
    const TARGET: u32 = 2;
    let swamp = 3..33;
    let within = swamp.clone().flat_map(|from| swamp.clone().map(move |to| (from, to)));
    let around = swamp.clone().flat_map(|block| [(GATE, block), (block, GATE)]);
    let edges: Vec<(u32, u32)> = [(0, GATE), (GATE, TARGET)].into_iter().chain(around).chain(within).collect();
    let world = world(33, &edges);
    let mut steps = 0;
    let found = walk(&world, 0, everything()).paths((id(0), id(TARGET)), Direction::Outgoing, 100, 100, &mut |cost| {
        steps += u64::from(cost.steps);
        None
    });
    assert_eq!((ways(&found), found.bound), (vec![vec![0, GATE, TARGET]], None));
    assert!(steps < 10_000, "{steps}");
}

#[test]
fn a_long_way_off_the_path_is_searched_in_few_rounds() {
    // The only path to block 0 is the edge from block 1, and the chain behind block 1 is long.
    const LAST: u32 = 2_000;
    let edges: Vec<(u32, u32)> = (0..LAST).map(|block| (block, block + 1)).collect();
    let world = world(LAST + 1, &edges);
    let plan = WalkPlan { direction: Direction::Both, ..everything() };
    let mut steps = 0;
    let found = walk(&world, 1, plan).paths((id(1), id(0)), Direction::Both, usize::MAX, 2, &mut |cost| {
        steps += u64::from(cost.steps);
        None
    });
    assert_eq!((ways(&found), found.bound), (vec![vec![1, 0]], None));
    assert!(steps < 100_000, "{steps}");
}

#[test]
fn a_path_whose_blocks_fit_the_limit_of_visits_is_found() {
    let world = world(3, &[(0, 1), (1, 2)]);
    for (target, visited_max) in [(1, 2), (2, 3)] {
        let found = shortest(&world, 0, target, WalkPlan { visited_max, ..everything() });
        assert_eq!((ways(&found), found.bound), (vec![(0..=target).collect()], None), "{visited_max}");
    }
    let found = shortest(&world, 0, 2, WalkPlan { visited_max: 2, ..everything() });
    assert_eq!((ways(&found), found.bound), (vec![], Some(WalkBound::Visited)));
}

#[test]
fn the_first_of_very_many_paths_are_the_shortest() {
    const BLOCKS: u32 = 60;
    let edges: Vec<(u32, u32)> = (0..BLOCKS).flat_map(|from| (0..BLOCKS).map(move |to| (from, to))).collect();
    let world = world(BLOCKS, &edges);
    let (mut steps, mut bytes) = (0, 0);
    let found = walk(&world, 0, everything()).paths((id(0), id(1)), Direction::Outgoing, 100, 100, &mut |cost| {
        steps += u64::from(cost.steps);
        bytes += cost.bytes;
        None
    });
    let lengths: Vec<usize> = found.paths.iter().map(|path| path.len() - 1).collect();
    let expected = [1].into_iter().chain([2; 58]).chain([3; 41]).collect::<Vec<_>>();
    assert_eq!((lengths, found.bound), (expected, Some(WalkBound::Results)));
    assert!(steps < 100_000, "{steps}");
    assert!(bytes > 0, "paths take memory");
}

#[test]
fn missing_blocks_are_left_out_of_walks_and_paths_on_request() {
    // 0 -> 9 -> 1, and 9 is not there; 0 -> 2 -> 3 -> 1.
    let mut world = world(4, &[(0, 2), (2, 3), (3, 1)]);
    let links = [(0, 9), (9, 1)]
        .map(|(from, to)| Command::PutEdge(PutEdge { allow_missing: true, ..PutEdge::new(G, id(from), "to", id(to)) }));
    world.commit(Timestamp::ZERO, &links).expect("accepted");
    let without = WalkPlan { with_missing: false, ..everything() };
    for (plan, visited, way) in [(everything(), 5, vec![0, 9, 1]), (without, 4, vec![0, 2, 3, 1])] {
        let walked = walk(&world, 0, plan);
        assert_eq!(walked.visited(), visited);
        assert_eq!(ways(&shortest(&world, 0, 1, plan)), std::slice::from_ref(&way));
        assert_eq!(ways(&walked.paths((id(0), id(1)), Direction::Outgoing, 9, 9, &mut |_| None))[0], way);
        assert_eq!(walked.components().len(), visited);
    }
    assert_eq!(ways(&shortest(&world, 0, 9, everything())), [[0, 9]]);
    for (plan, target) in [(without, 9), (everything(), 8)] {
        let mut search = PathWalker::new((id(0), id(target)), plan, Position::MAX);
        let progress = search.advance(graph(&world), &world.log, 9).expect("readable");
        assert_eq!(progress, WalkProgress::NoSuchBlock(id(target)));
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
    let mut count = |cost: PathCost| {
        steps += u64::from(cost.steps);
        None
    };
    let found = walked.paths((id(0), id(1_030)), Direction::Outgoing, usize::MAX, usize::MAX, &mut count);
    let visits: usize = found.paths.iter().map(Vec::len).sum();
    assert_eq!((found.paths.len(), visits), (1_024, 1_024 * 1_021));
    // The last steps were not reported yet.
    assert!(steps + 4_096 >= visits as u64, "{steps}");
}
