//! Puts, deletes, conditions and refusals, through commits over a log in memory. Each scenario ends
//! by comparing the live state with the state after a restart at every position.

use quire_graph::{
    BlockId, BlockRef, Command, DeleteBlock, DeleteEdge, DeleteEdges, Direction, End, Graph, GraphLimit, Graphs,
    Neighbour, NotJson, PutBlock, PutEdge, Refusal, Reply, Version,
};
use quire_model::memory::World;
use quire_model::{DecideError, Position, Timestamp};

const G: &str = "air/routes";

#[derive(Default)]
struct Scenario {
    world: World<Graphs>,
}

impl Scenario {
    fn commit(&mut self, commands: &[Command<'_>]) -> Vec<Reply> {
        self.try_commit(commands).expect("accepted")
    }

    fn try_commit(&mut self, commands: &[Command<'_>]) -> Result<Vec<Reply>, DecideError<Refusal>> {
        let time = Timestamp::from_millis(1_000 * (1 + self.world.log.tail().get()));
        self.world.commit(time, commands)
    }

    /// The refusal of the command at this index; checks that it changed nothing.
    fn refused(&mut self, index: usize, commands: &[Command<'_>]) -> Refusal {
        let before = World::saved(&self.world.model);
        let Err(DecideError::Refused { command, refusal }) = self.try_commit(commands) else { panic!("it is refused") };
        assert_eq!(command, index);
        assert_eq!(World::saved(&self.world.model), before);
        refusal
    }

    fn graph(&self) -> &Graph {
        self.world.model.graph(G).expect("the graph is there")
    }

    fn targets(&self, of: &str) -> Vec<BlockId> {
        self.graph().neighbours(id(of), Direction::Outgoing, &[], None).map(|neighbour| neighbour.block).collect()
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let live = World::saved(&self.world.model);
        for position in 0..=self.world.log.tail().get() {
            let restarted = self.world.restarted(Position::new(position));
            assert_eq!(World::saved(&restarted), live, "restarted at {position}");
        }
    }
}

fn id(name: &str) -> BlockId {
    BlockId::of_name(name)
}

fn put(name: &str) -> Command<'_> {
    Command::PutBlock(PutBlock::new(G, name, "airport"))
}

fn put_expecting(name: &str, version: u64) -> Command<'_> {
    Command::PutBlock(PutBlock { expect: Some(Version::new(version)), ..PutBlock::new(G, name, "airport") })
}

fn delete(name: &str) -> Command<'_> {
    Command::DeleteBlock(DeleteBlock { graph: G, block: name.into() })
}

fn link<'c>(source: &'c str, target: &'c str) -> Command<'c> {
    Command::PutEdge(PutEdge::new(G, source, "flies_to", target))
}

fn unlink<'c>(source: &'c str, target: &'c str) -> Command<'c> {
    Command::DeleteEdge(DeleteEdge { graph: G, source: source.into(), edge_type: "flies_to", target: target.into() })
}

fn block_put(name: &str, version: u64, created: bool) -> Reply {
    Reply::BlockPut { block: id(name), version: Version::new(version), created }
}

#[test]
fn a_block_is_read_back_as_it_was_put() {
    let mut s = Scenario::default();
    let tags = ["hub", "coast", "hub"];
    let full = PutBlock {
        source: "file://airports.csv#L3",
        tags: &tags,
        metadata: br#"{"city":"New York"}"#,
        content: b"\x00\xff John F. Kennedy",
        ..PutBlock::new(G, "JFK", "airport")
    };
    assert_eq!(s.commit(&[Command::PutBlock(full)]), [block_put("JFK", 1, true)]);

    let block = s.graph().block(&s.world.log, id("JFK")).unwrap().expect("it is there");
    assert_eq!((block.id, block.version, block.name, block.kind), (id("JFK"), Version::new(1), Some("JFK"), "airport"));
    assert_eq!((block.source, block.metadata, block.content), (full.source, full.metadata, full.content));
    assert_eq!(block.tags().collect::<Vec<_>>(), ["coast", "hub"]);
    assert_eq!((block.time, block.place.position), (Timestamp::from_millis(1_000), Position::new(1)));
    assert!(s.graph().block(&s.world.log, id("LGA")).unwrap().is_none());
}

#[test]
fn a_put_replaces_everything_but_the_name() {
    let mut s = Scenario::default();
    let first = PutBlock { tags: &["hub"], content: b"old", ..PutBlock::new(G, "JFK", "airport") };
    s.commit(&[Command::PutBlock(first)]);
    let by_id = PutBlock { content: b"new", ..PutBlock::new(G, id("JFK"), "heliport") };
    assert_eq!(s.commit(&[Command::PutBlock(by_id)]), [block_put("JFK", 2, false)]);
    assert_eq!(s.commit(&[put("LGA"), Command::PutBlock(PutBlock::new(G, id("LGA"), "airport"))]).len(), 2);

    let block = s.graph().block(&s.world.log, id("JFK")).unwrap().unwrap();
    assert_eq!(
        (block.name, block.kind, block.content, block.tags().count()),
        (Some("JFK"), "heliport", &b"new"[..], 0)
    );
    assert_eq!(s.graph().block(&s.world.log, id("LGA")).unwrap().unwrap().name, Some("LGA"));
}

#[test]
fn a_block_put_by_id_has_no_name_until_one_is_given_and_none_after_its_deletion() {
    let mut s = Scenario::default();
    let by_id = Command::PutBlock(PutBlock::new(G, id("JFK"), "airport"));
    let name = |s: &Scenario| s.graph().block(&s.world.log, id("JFK")).unwrap().unwrap().name.map(String::from);
    s.commit(&[by_id]);
    assert_eq!(name(&s), None);
    s.commit(&[put("JFK")]);
    assert_eq!(name(&s).as_deref(), Some("JFK"));
    s.commit(&[delete("JFK"), by_id]);
    assert_eq!(name(&s), None);
}

#[test]
fn a_put_is_refused_when_the_block_has_another_version_than_expected() {
    let mut s = Scenario::default();
    s.commit(&[put_expecting("JFK", 0)]);
    s.commit(&[put_expecting("JFK", 1)]);
    let mismatch = |name, expected, found| Refusal::VersionMismatch {
        block: id(name),
        name: Some(String::from(name)),
        expected: Version::new(expected),
        found: Version::new(found),
    };
    assert_eq!(s.refused(0, &[put_expecting("JFK", 1)]), mismatch("JFK", 1, 2));
    assert_eq!(s.refused(0, &[put_expecting("JFK", 0)]), mismatch("JFK", 0, 2));
    assert_eq!(s.refused(0, &[put_expecting("LGA", 3)]), mismatch("LGA", 3, 0));
    assert_eq!(s.refused(2, &[put("LGA"), put("JFK"), put_expecting("JFK", 2)]), mismatch("JFK", 2, 3));
    assert_eq!(s.graph().version(id("JFK")), Version::new(2));
}

#[test]
fn a_version_is_never_given_twice_even_across_deletions() {
    let mut s = Scenario::default();
    s.commit(&[put("JFK"), put("JFK"), put("JFK")]);
    assert_eq!(s.commit(&[delete("JFK")]), [Reply::BlockDeleted { block: id("JFK"), version: Version::new(3) }]);
    assert_eq!(s.commit(&[put("JFK")]), [block_put("JFK", 4, true)]);
    assert_eq!(s.commit(&[delete("JFK"), put("JFK")])[1], block_put("JFK", 5, true));
    let (expected, found) = (Version::new(3), Version::new(5));
    let stale = Refusal::VersionMismatch { block: id("JFK"), name: Some("JFK".into()), expected, found };
    assert_eq!(s.refused(0, &[put_expecting("JFK", 3)]), stale);
}

#[test]
fn later_commands_of_a_commit_see_earlier_ones() {
    let mut s = Scenario::default();
    let replies = s.commit(&[put("JFK"), put("LGA"), link("JFK", "LGA"), link("JFK", "LGA"), put_expecting("JFK", 1)]);
    let edge = |created| Reply::EdgePut { created };
    assert_eq!(replies[2..], [edge(true), edge(false), block_put("JFK", 2, false)]);

    let replies = s.commit(&[unlink("JFK", "LGA"), unlink("JFK", "LGA"), link("JFK", "LGA")]);
    let gone = |existed| Reply::EdgeDeleted { existed };
    assert_eq!(replies, [gone(true), gone(false), edge(true)]);

    let replies = s.commit(&[delete("LGA"), put("LGA"), unlink("JFK", "LGA"), link("JFK", "LGA"), link("JFK", "LGA")]);
    assert_eq!(replies[2..], [gone(false), edge(true), edge(false)]);
    assert_eq!(s.targets("JFK"), [id("LGA")]);

    let missing = s.refused(1, &[delete("LGA"), link("JFK", "LGA")]);
    assert!(matches!(missing, Refusal::MissingBlock { end: End::Target, .. }));
    let replies = s.commit(&[link("LGA", "JFK"), delete("LGA"), put("LGA"), unlink("LGA", "JFK"), link("LGA", "JFK")]);
    assert_eq!((replies[3], replies[4]), (gone(false), edge(true)), "the deletion of its block took it along");
    s.commit(&[link("JFK", "JFK"), delete("JFK")]);
    assert_eq!(s.graph().edge_count(), 0);
}

#[test]
fn an_edge_is_unique_and_putting_it_again_replaces_its_properties() {
    let mut s = Scenario::default();
    s.commit(&[put("JFK"), put("LGA"), link("JFK", "LGA")]);
    let edge = PutEdge { properties: br#"{"miles":11}"#, ..PutEdge::new(G, "JFK", "flies_to", "LGA") };
    assert_eq!(s.commit(&[Command::PutEdge(edge)]), [Reply::EdgePut { created: false }]);
    s.commit(&[Command::PutEdge(PutEdge::new(G, "JFK", "sees", "LGA"))]);

    let read = s.graph().edge(&s.world.log, id("JFK"), "flies_to", id("LGA")).unwrap().expect("it is there");
    assert_eq!((read.properties, read.time), (edge.properties, Timestamp::from_millis(2_000)));
    assert!(s.graph().edge(&s.world.log, id("LGA"), "flies_to", id("JFK")).unwrap().is_none(), "edges are directed");
    assert!(s.graph().edge(&s.world.log, id("JFK"), "knows", id("LGA")).unwrap().is_none());
    assert_eq!((s.graph().block_count(), s.graph().edge_count()), (2, 2));
}

#[test]
fn an_edge_to_a_missing_block_is_refused_unless_allowed() {
    let mut s = Scenario::default();
    s.commit(&[put("JFK")]);
    let missing = |end, name: Option<&str>| Refusal::MissingBlock { block: id("LGA"), name: name.map(Into::into), end };
    assert_eq!(s.refused(0, &[link("JFK", "LGA")]), missing(End::Target, Some("LGA")));
    assert_eq!(s.refused(0, &[link("LGA", "JFK")]), missing(End::Source, Some("LGA")));
    let by_id = Command::PutEdge(PutEdge::new(G, "JFK", "flies_to", id("LGA")));
    assert_eq!(s.refused(0, &[by_id]), missing(End::Target, None));

    s.commit(&[Command::PutEdge(PutEdge { allow_missing: true, ..PutEdge::new(G, "JFK", "flies_to", "LGA") })]);
    assert_eq!(s.targets("JFK"), [id("LGA")]);
    assert!(!s.graph().contains(id("LGA")));
    let nothing = Reply::BlockDeleted { block: id("LGA"), version: Version::ABSENT };
    assert_eq!(s.commit(&[delete("LGA")]), [nothing]);
    assert_eq!(s.targets("JFK"), [id("LGA")], "only the deletion of a block that is there takes edges along");
}

#[test]
fn deleting_a_block_deletes_its_edges_in_both_directions_and_no_others() {
    let mut s = Scenario::default();
    s.commit(&[put("JFK"), put("LGA"), put("BOS"), link("JFK", "LGA"), link("LGA", "BOS"), link("JFK", "BOS")]);
    s.commit(&[link("LGA", "LGA")]);
    s.commit(&[delete("LGA")]);
    assert_eq!((s.graph().block_count(), s.graph().edge_count()), (2, 1));
    assert_eq!(s.targets("JFK"), [id("BOS")]);
    s.commit(&[put("LGA")]);
    assert_eq!(s.graph().degree(id("LGA"), Direction::Both, &[]), 0, "what was deleted stays deleted");
}

#[test]
fn edges_of_a_block_are_deleted_in_parts_with_those_of_the_same_commit_in_order() {
    let mut s = Scenario::default();
    s.commit(&[put("JFK"), put("LAX"), put("LGA"), link("JFK", "JFK"), link("JFK", "LAX"), link("LGA", "JFK")]);
    let part = |count_max| Command::DeleteEdges(DeleteEdges { graph: G, block: "JFK".into(), count_max });
    let deleted = |count, is_more| Reply::EdgesDeleted { count, is_more };
    assert_eq!(s.commit(&[part(0)]), [deleted(0, true)]);
    // An edge that the commit deletes and puts again counts once; an edge that it puts and deletes,
    // not at all.
    let commands =
        [unlink("JFK", "LAX"), link("JFK", "LGA"), unlink("LGA", "JFK"), link("LGA", "JFK"), part(2), part(2)];
    assert_eq!(s.commit(&commands)[4..], [deleted(2, true), deleted(1, false)]);
    assert_eq!((s.graph().edge_count(), s.graph().block_count()), (0, 3));
    // None of the earlier edges of a block that the commit deleted remains.
    s.commit(&[link("JFK", "LAX"), link("LGA", "JFK")]);
    let commands = [delete("JFK"), part(9), put("JFK"), link("JFK", "LGA"), part(9)];
    let replies = s.commit(&commands);
    assert_eq!((replies[1], replies[4]), (deleted(0, false), deleted(1, false)));
    let elsewhere = DeleteEdges { graph: "elsewhere", block: "JFK".into(), count_max: 9 };
    assert_eq!(s.commit(&[Command::DeleteEdges(elsewhere)]), [deleted(0, false)]);
    assert!(s.world.model.graph("elsewhere").is_none());
}

#[test]
fn a_commit_deletes_a_bounded_number_of_edges_with_blocks() {
    let mut s = Scenario::default();
    let half = GraphLimit::EdgesDeleted.max() as u32 / 2;
    let far = |number: u32| BlockId::new(u128::from(number).to_be_bytes());
    let link = |hub: &'static str, number| {
        Command::PutEdge(PutEdge { allow_missing: true, ..PutEdge::new(G, hub, "ray", far(number)) })
    };
    let puts = [put("JFK"), put("LAX"), put("LGA")];
    let links = ["JFK", "LAX"].into_iter().flat_map(|hub| (0..half).map(move |number| link(hub, number)));
    s.commit(&puts.into_iter().chain(links).collect::<Vec<_>>());
    s.commit(&[link("LGA", 0)]);
    let named = |block: &str| Some(block.to_owned());
    let refused = |block, edges| Refusal::TooManyEdges { block: id(block), name: named(block), edges };
    let all = GraphLimit::EdgesDeleted.max();
    assert_eq!(s.refused(2, &[delete("JFK"), delete("LAX"), delete("LGA")]), refused("LGA", all + 1));
    let part =
        |block: &'static str, count_max| Command::DeleteEdges(DeleteEdges { graph: G, block: block.into(), count_max });
    assert_eq!(s.refused(2, &[delete("JFK"), delete("LAX"), part("LGA", 1)]), refused("LGA", all + 1));
    // Skipping edges that the commit has deleted counts too. Otherwise a commit of many parts would
    // take quadratic time.
    assert_eq!(s.refused(1, &[part("JFK", half as usize), part("JFK", 1)]), refused("JFK", 3 * half as usize));
    let over = Refusal::OverLimit { limit: GraphLimit::EdgesDeleted, found: all + 1 };
    assert_eq!(s.refused(0, &[part("LGA", all + 1)]), over);
    // Edges that went with a block go once.
    s.commit(&[delete("JFK"), put("JFK"), delete("JFK"), delete("LAX")]);
    assert_eq!((s.graph().edge_count(), s.graph().block_count()), (1, 1));
}

#[test]
fn deleting_an_unknown_block_or_edge_is_accepted_and_writes_nothing() {
    let mut s = Scenario::default();
    let replies = s.commit(&[delete("JFK"), unlink("JFK", "LGA")]);
    let nothing = Reply::BlockDeleted { block: id("JFK"), version: Version::ABSENT };
    assert_eq!(replies, [nothing, Reply::EdgeDeleted { existed: false }]);
    assert!(s.world.model.graph(G).is_none());
    assert_eq!(s.world.log.entries().count(), 0);
}

#[test]
fn graphs_are_apart_and_listed_by_name() {
    let mut s = Scenario::default();
    let in_graph = |graph| Command::PutBlock(PutBlock::new(graph, "JFK", "airport"));
    s.commit(&[in_graph("rail"), in_graph("air/routes"), in_graph("rail")]);
    let graphs: Vec<_> = s.world.model.iter().map(|(name, graph)| (name, graph.version(id("JFK")).get())).collect();
    assert_eq!(graphs, [("air/routes", 1), ("rail", 2)]);
    s.commit(&[delete("JFK")]);
    assert_eq!(s.world.model.graph("rail").unwrap().block_count(), 1);
    assert_eq!(s.graph().block_count(), 0);
}

#[test]
fn neighbours_are_ordered_by_first_use_of_the_type_then_by_id_and_a_page_continues_after_the_last() {
    let mut s = Scenario::default();
    let block = |byte: u8| BlockId::new([byte; 16]);
    let blocks: Vec<_> = [0, 1, 2, 255].map(|byte| Command::PutBlock(PutBlock::new(G, block(byte), "x"))).into();
    s.commit(&blocks);
    let edge = |from, edge_type, to| Command::PutEdge(PutEdge::new(G, block(from), edge_type, block(to)));
    s.commit(&[edge(0, "z", 255), edge(0, "a", 1), edge(0, "z", 0), edge(0, "z", 2), edge(1, "a", 0), edge(2, "a", 1)]);

    let (t, i) = (End::Target, End::Source);
    let all = [("z", 0, t), ("z", 2, t), ("z", 255, t), ("a", 1, t), ("z", 0, i), ("a", 1, i)];
    let all = all.map(|(edge_type, byte, end)| Neighbour { block: block(byte), edge_type, end });
    let list = |direction, types: &[&str], after: Option<Neighbour<'_>>| {
        s.graph().neighbours(block(0), direction, types, after).collect::<Vec<_>>()
    };
    assert_eq!(list(Direction::Both, &[], None), all);
    assert_eq!(list(Direction::Outgoing, &[], None), all[..4]);
    assert_eq!(list(Direction::Incoming, &[], None), all[4..]);
    assert_eq!(list(Direction::Both, &["a", "a", "unknown"], None), [all[3], all[5]]);
    assert_eq!(list(Direction::Both, &["unknown"], None), []);
    for (index, after) in all.iter().enumerate() {
        assert_eq!(list(Direction::Both, &[], Some(*after)), all[index + 1..]);
        assert_eq!(list(Direction::Both, &["a", "z"], Some(*after)), all[index + 1..]);
    }
    let gone = Neighbour { block: block(7), edge_type: "z", end: t };
    assert_eq!(list(Direction::Outgoing, &[], Some(gone)), all[2..4], "the neighbour of the cursor may be gone");
    assert_eq!(s.graph().degree(block(0), Direction::Both, &[]), 6);
    assert_eq!(s.graph().degree(block(0), Direction::Outgoing, &["z"]), 3);
}

#[test]
fn names_of_any_script_ids_of_zeros_and_empty_parts_are_fine() {
    let mut s = Scenario::default();
    let zeros = BlockId::MIN;
    s.commit(&[
        put("東京 ✈ "),
        Command::PutBlock(PutBlock::new(G, zeros, "аэропорт")),
        Command::PutEdge(PutEdge::new(G, zeros, "летит в", "東京 ✈ ")),
    ]);
    assert_eq!(s.graph().block(&s.world.log, zeros).unwrap().unwrap().kind, "аэропорт");
    let neighbour = s.graph().neighbours(zeros, Direction::Both, &["летит в"], None).next().unwrap();
    assert_eq!(s.graph().block(&s.world.log, neighbour.block).unwrap().unwrap().name, Some("東京 ✈ "));
}

#[test]
fn invalid_names_are_refused() {
    let mut s = Scenario::default();
    for graph in ["", "/", "/air", "air/", "air//routes", "air routes", "aïr", "a\0", ".", ".."] {
        let refusal = s.refused(1, &[put("JFK"), Command::PutBlock(PutBlock::new(graph, "JFK", "airport"))]);
        assert!(matches!(&refusal, Refusal::InvalidName { name, .. } if name == graph), "{graph:?}: {refusal}");
        let refusal = s.refused(0, &[Command::DeleteBlock(DeleteBlock { graph, block: "JFK".into() })]);
        assert!(matches!(refusal, Refusal::InvalidName { .. }), "{graph:?}");
    }
    let invalid = [
        Command::PutBlock(PutBlock::new(G, "", "airport")),
        Command::PutBlock(PutBlock::new(G, "JFK", "")),
        Command::PutBlock(PutBlock::new(G, "JFK", "a\tb")),
        put("東京 ✈ \n"),
        Command::PutBlock(PutBlock { tags: &["hub", ""], ..PutBlock::new(G, "JFK", "airport") }),
        Command::PutEdge(PutEdge::new(G, "JFK", "", "JFK")),
        Command::PutEdge(PutEdge::new(G, "", "sees", "JFK")),
        Command::DeleteEdge(DeleteEdge { graph: G, source: "JFK".into(), edge_type: "\u{7f}", target: "JFK".into() }),
    ];
    for command in invalid {
        let refusal = s.refused(0, &[command]);
        assert!(matches!(refusal, Refusal::InvalidName { .. }), "{command:?}: {refusal}");
    }
}

#[test]
fn every_size_is_accepted_at_its_limit_and_refused_above_with_the_limit_named() {
    let text = "x".repeat(GraphLimit::MetadataBytes.max() + 1);
    let many: Vec<String> = (0..=GraphLimit::Tags.max()).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let long = |limit: GraphLimit, over: usize| &text[..limit.max() + over];
    let base = PutBlock::new(G, "JFK", "airport");
    let edge = PutEdge::new(G, "JFK", "sees", "JFK");
    type Make<'t> = Box<dyn Fn(usize) -> Command<'t> + 't>;
    let json = [0, 1].map(|over| format!("\"{}\"", "a".repeat(GraphLimit::MetadataBytes.max() - 2 + over)));
    let tag_lists = [[long(GraphLimit::TagBytes, 0)], [long(GraphLimit::TagBytes, 1)]];
    let cases: Vec<(GraphLimit, Make<'_>)> = vec![
        (
            GraphLimit::GraphNameBytes,
            Box::new(|n| Command::PutBlock(PutBlock { graph: long(GraphLimit::GraphNameBytes, n), ..base })),
        ),
        (
            GraphLimit::BlockNameBytes,
            Box::new(|n| {
                Command::PutBlock(PutBlock { block: BlockRef::Name(long(GraphLimit::BlockNameBytes, n)), ..base })
            }),
        ),
        (
            GraphLimit::KindBytes,
            Box::new(|n| Command::PutBlock(PutBlock { kind: long(GraphLimit::KindBytes, n), ..base })),
        ),
        (
            GraphLimit::SourceBytes,
            Box::new(|n| Command::PutBlock(PutBlock { source: long(GraphLimit::SourceBytes, n), ..base })),
        ),
        (GraphLimit::TagBytes, Box::new(|n| Command::PutBlock(PutBlock { tags: &tag_lists[n], ..base }))),
        (
            GraphLimit::Tags,
            Box::new(|n| Command::PutBlock(PutBlock { tags: &many[..GraphLimit::Tags.max() + n], ..base })),
        ),
        (GraphLimit::MetadataBytes, Box::new(|n| Command::PutBlock(PutBlock { metadata: json[n].as_bytes(), ..base }))),
        (
            GraphLimit::EdgeTypeBytes,
            Box::new(|n| Command::PutEdge(PutEdge { edge_type: long(GraphLimit::EdgeTypeBytes, n), ..edge })),
        ),
        (
            GraphLimit::PropertiesBytes,
            Box::new(|n| Command::PutEdge(PutEdge { properties: json[n].as_bytes(), ..edge })),
        ),
    ];
    let mut s = Scenario::default();
    s.commit(&[put("JFK")]);
    for (limit, make) in &cases {
        s.commit(&[make(0)]);
        assert_eq!(s.refused(0, &[make(1)]), Refusal::OverLimit { limit: *limit, found: limit.max() + 1 });
    }
}

#[test]
fn a_graph_has_a_bounded_number_of_kinds() {
    let mut s = Scenario::default();
    let kinds: Vec<String> = (0..=GraphLimit::Kinds.max()).map(|number| format!("kind {number}")).collect();
    let puts: Vec<_> = kinds.iter().map(|kind| Command::PutBlock(PutBlock::new(G, "JFK", kind))).collect();
    let over = |limit: GraphLimit| Refusal::OverLimit { limit, found: limit.max() + 1 };
    assert_eq!(s.refused(GraphLimit::Kinds.max(), &puts), over(GraphLimit::Kinds));
    s.commit(&puts[..GraphLimit::Kinds.max()]);
    assert_eq!(s.refused(0, &puts[GraphLimit::Kinds.max()..]), over(GraphLimit::Kinds));
}

#[test]
fn refusals_name_the_conflict() {
    let mut s = Scenario::default();
    s.commit(&[put("JFK")]);
    let jfk = id("JFK");
    let said = [
        (
            s.refused(0, &[put_expecting("JFK", 7)]).to_string(),
            format!("version 7 of block \"JFK\" ({jfk}) is stale, current version is 1"),
        ),
        (
            s.refused(0, &[put_expecting("JFK", 0)]).to_string(),
            format!("block \"JFK\" ({jfk}) already exists, with version 1"),
        ),
        (
            s.refused(0, &[link("JFK", "LGA")]).to_string(),
            format!("target block \"LGA\" ({}) of the edge not found", id("LGA")),
        ),
    ];
    for (found, expected) in said {
        assert_eq!(found, expected);
    }
}

#[test]
fn the_id_of_a_name_is_the_start_of_its_blake3_hash() {
    // From the hash function's own test vector for no input, and a text round trip.
    assert_eq!(BlockId::of_name("").to_string(), "af1349b9f5f9a1a6a0404dea36dcc949");
    assert_eq!("AF1349B9f5f9a1a6a0404dea36dcc949".parse(), Ok(BlockId::of_name("")));
    for bad in
        ["", "af1349", "+f1349b9f5f9a1a6a0404dea36dcc949", "zf1349b9f5f9a1a6a0404dea36dcc949", "éééééééééééééééé"]
    {
        assert!(bad.parse::<BlockId>().is_err(), "{bad}");
    }
}

#[test]
fn metadata_and_properties_are_json_or_nothing() {
    let mut s = Scenario::default();
    let block = |metadata| Command::PutBlock(PutBlock { metadata, ..PutBlock::new(G, "JFK", "airport") });
    let edge = |properties| Command::PutEdge(PutEdge { properties, ..PutEdge::new(G, "JFK", "is", "JFK") });
    let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
    for (bytes, reason) in [
        (&b"{bad"[..], NotJson::At(1)),
        (b" ", NotJson::At(1)),
        (b"{\"a\": \"\xff\"}", NotJson::At(7)),
        (b"1e999", NotJson::TooLarge(0)),
        (deep.as_bytes(), NotJson::TooDeep),
    ] {
        let (metadata, properties) = (block(bytes), edge(bytes));
        for (command, field) in [(metadata, "metadata"), (properties, "properties")] {
            let refusal = Refusal::NotJson { field, reason };
            assert_eq!(s.refused(1, &[put("JFK"), command]), refusal);
            assert_eq!(command.check(), Err(refusal));
        }
    }
    let kept = b" {\"b\" :1.10, \"b\": null}\n";
    s.commit(&[block(kept), edge(kept)]);
    let jfk = id("JFK");
    assert_eq!(s.graph().block(&s.world.log, jfk).unwrap().expect("there").metadata, kept);
    assert_eq!(s.graph().edge(&s.world.log, jfk, "is", jfk).unwrap().expect("there").properties, kept);
    s.commit(&[block(b""), edge(b""), block(b"null")]);
}
