//! The service `Graph`.

use std::collections::{HashMap, HashSet};

use quire_grpc::proto::block_ref::Ref;
use quire_grpc::proto::graph_change::What;
use quire_grpc::proto::graph_client::GraphClient;
use quire_grpc::proto::graph_command::Kind;
use quire_grpc::proto::graph_reply::{self, BlockDeleted, BlockPut, EdgeDeleted, EdgePut};
use quire_grpc::proto::{
    BlockRef, CommitGraphRequest, CommitGraphResponse, DegreeRequest, DeleteBlock, DeleteEdge, DeleteEdges,
    DescribeGraphRequest, ExistsRequest, GetBlocksRequest, GetEdgeRequest, GetVersionsRequest, GraphBlockFilter,
    GraphChangesRequest, GraphCommand, GraphDirection, GraphPlace, ListBlocksRequest, MetadataField, MissingRequest,
    NeighboursRequest, PathsRequest, PutBlock, PutEdge, SetGraphRetention, TrimGraphHistory, Visit, WalkBound,
    WalkRequest,
};
use tokio_stream::StreamExt;
use tonic::transport::Channel;
use tonic::{Code, Response, Status, Streaming};

use crate::served::{Served, told};

const GRAPH: &str = "code/main";

type Client = GraphClient<Channel>;

fn named(name: &str) -> BlockRef {
    BlockRef { r#ref: Some(Ref::Name(name.to_owned())) }
}

fn by_id(id: &[u8]) -> BlockRef {
    BlockRef { r#ref: Some(Ref::Id(id.to_vec().into())) }
}

fn put(name: &str) -> PutBlock {
    PutBlock { block: Some(named(name)), kind: "function".to_owned(), ..PutBlock::default() }
}

fn block(put: PutBlock) -> GraphCommand {
    GraphCommand { kind: Some(Kind::PutBlock(put)) }
}

fn edge(source: &str, edge_type: &str, target: &str) -> GraphCommand {
    let (source, target) = (Some(named(source)), Some(named(target)));
    let put = PutEdge { source, r#type: edge_type.to_owned(), target, ..PutEdge::default() };
    GraphCommand { kind: Some(Kind::PutEdge(put)) }
}

async fn commit(client: &mut Client, commands: Vec<GraphCommand>) -> Result<CommitGraphResponse, Status> {
    let request = CommitGraphRequest { graph: GRAPH.to_owned(), commands };
    client.commit(request).await.map(Response::into_inner)
}

async fn pages<T>(answer: Result<Response<Streaming<T>>, Status>) -> Result<Vec<T>, Status> {
    answer?.into_inner().collect::<Result<Vec<T>, Status>>().await
}

/// The blocks a, b, c, d, and the edges a → b → c → a, a → c (imports), c → d.
async fn small(client: &mut Client) {
    let mut commands: Vec<GraphCommand> = ["a", "b", "c", "d"].map(|name| block(put(name))).into();
    commands.extend([edge("a", "calls", "b"), edge("b", "calls", "c"), edge("c", "calls", "a")]);
    commands.extend([edge("a", "imports", "c"), edge("c", "calls", "d")]);
    commit(client, commands).await.expect("accepted");
}

fn walk(starts: &[&str]) -> WalkRequest {
    let starts = starts.iter().map(|start| named(start)).collect();
    WalkRequest { graph: GRAPH.to_owned(), starts, ..WalkRequest::default() }
}

/// The names of visited blocks, with their depths.
fn visited(visits: &[Visit]) -> Vec<(String, u32)> {
    let name = |visit: &Visit| visit.block.as_ref().expect("blocks were asked for").name.clone();
    visits.iter().map(|visit| (name(visit), visit.depth)).collect()
}

#[tokio::test]
async fn a_block_and_an_edge_come_back_to_the_byte_also_after_a_restart() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    let given = PutBlock {
        source: "file://a.rs#L1".to_owned(),
        tags: vec!["hot".to_owned(), "αβγ".to_owned()],
        metadata: br#"{"line":1}"#.to_vec().into(),
        content: vec![0, 0xff, 1].into(),
        ..put("函数")
    };
    let nothing = [0; 16];
    let zeros = PutBlock { block: Some(by_id(&nothing)), ..put("") };
    let properties = Kind::PutEdge(PutEdge {
        source: Some(named("函数")),
        r#type: "calls".to_owned(),
        target: Some(by_id(&nothing)),
        properties: b" {}".to_vec().into(),
        allow_missing: false,
    });
    let commands = vec![block(given.clone()), block(zeros), GraphCommand { kind: Some(properties) }];
    let committed = commit(&mut client, commands).await.expect("accepted");
    let kinds: Vec<_> = committed.replies.into_iter().map(|reply| reply.kind.expect("a kind")).collect();
    let graph_reply::Kind::BlockPut(BlockPut { id, version: 1, created: true }) = &kinds[0] else {
        panic!("{kinds:?}")
    };
    assert_eq!(kinds[2], graph_reply::Kind::EdgePut(EdgePut { created: true }));

    let served = served.again().await;
    let mut client = served.graph().await;
    let blocks = vec![by_id(id), named("nobody"), by_id(&nothing)];
    let request = GetBlocksRequest { graph: GRAPH.to_owned(), blocks, at: None };
    let mut found = client.get_blocks(request).await.expect("read").into_inner().blocks;
    assert_eq!((found.len(), found[1].block.is_none(), found[2].block.is_some()), (3, true, true));
    let found = found.remove(0).block.expect("it is there");
    assert_eq!((found.name.as_str(), found.version, &found.tags), ("函数", 1, &given.tags));
    assert_eq!((found.source, found.metadata, found.content), (given.source, given.metadata, given.content));
    assert!(found.time_us > 0 && found.position == committed.position);
    let request = GetEdgeRequest {
        graph: GRAPH.to_owned(),
        source: Some(named("函数")),
        r#type: "calls".to_owned(),
        target: Some(by_id(&nothing)),
        at: None,
    };
    assert_eq!(client.get_edge(request).await.expect("read").into_inner().properties, b" {}".to_vec());
    served.stop().await;
}

#[tokio::test]
async fn a_commit_happens_whole_or_not_at_all_and_names_the_refused_command() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    let no_json = PutBlock { metadata: b"{bad".to_vec().into(), ..put("b") };
    let refused = commit(&mut client, vec![block(put("a")), block(no_json)]).await.expect_err("refused");
    let (code, reason, facts) = told(&refused);
    assert_eq!((code, reason.as_str(), facts["command"].as_str()), (Code::InvalidArgument, "NOT_JSON", "1"));
    let refused = commit(&mut client, vec![block(put("a")), edge("a", "calls", "nobody")]).await.expect_err("refused");
    let (code, reason, facts) = told(&refused);
    assert_eq!((code, reason.as_str()), (Code::FailedPrecondition, "MISSING_BLOCK"));
    assert_eq!((facts["command"].as_str(), facts["name"].as_str()), ("1", "nobody"));
    let request = GetBlocksRequest { graph: GRAPH.to_owned(), blocks: vec![named("a")], at: None };
    assert_eq!(client.get_blocks(request).await.expect_err("no graph").code(), Code::NotFound);

    commit(&mut client, vec![block(PutBlock { expect_version: Some(0), ..put("a") })]).await.expect("it is new");
    let again = commit(&mut client, vec![block(PutBlock { expect_version: Some(0), ..put("a") })]).await;
    let (code, reason, facts) = told(&again.expect_err("refused"));
    assert_eq!((code, reason.as_str()), (Code::Aborted, "VERSION_MISMATCH"));
    assert_eq!((facts["name"].as_str(), facts["expected"].as_str(), facts["found"].as_str()), ("a", "0", "1"));
    let short = GraphCommand { kind: Some(Kind::DeleteBlock(DeleteBlock { block: Some(by_id(&[1, 2])) })) };
    let (code, reason, _) = told(&commit(&mut client, vec![short]).await.expect_err("no id"));
    assert_eq!((code, reason.as_str()), (Code::InvalidArgument, "INVALID"));
    served.stop().await;
}

#[tokio::test]
async fn the_edges_of_a_block_are_deleted_in_parts() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    small(&mut client).await;
    let part = |count_max| {
        let block = Some(named("a"));
        vec![GraphCommand { kind: Some(Kind::DeleteEdges(DeleteEdges { block, count_max })) }]
    };
    let mut deleted = Vec::new();
    loop {
        let answer = commit(&mut client, part(1)).await.expect("accepted");
        let Some(graph_reply::Kind::EdgesDeleted(reply)) = answer.replies[0].kind.clone() else { panic!("{answer:?}") };
        deleted.push(reply.edges);
        if !reply.more {
            break;
        }
    }
    assert!(deleted.len() > 1 && deleted.iter().all(|edges| *edges == 1), "{deleted:?}");
    let visits = pages(client.walk(walk(&["a"])).await).await.expect("walked");
    assert_eq!(visits.iter().map(|page| page.visits.len()).sum::<usize>(), 1);
    let (code, reason, _) = told(&commit(&mut client, part(100_001)).await.expect_err("too many"));
    assert_eq!((code, reason.as_str()), (Code::InvalidArgument, "OVER_LIMIT"));
    served.stop().await;
}

#[tokio::test]
async fn walks_return_blocks_edges_and_the_bound_that_cut_them() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    small(&mut client).await;
    let all = WalkRequest { depth_max: Some(10), with_edges: true, with_blocks: true, ..walk(&["a"]) };
    let told = pages(client.walk(all.clone()).await).await.expect("walked");
    let visits: Vec<Visit> = told.iter().flat_map(|page| page.visits.clone()).collect();
    let names =
        |expect: &[(&str, u32)]| expect.iter().map(|(name, depth)| ((*name).to_owned(), *depth)).collect::<Vec<_>>();
    assert_eq!(visited(&visits), names(&[("a", 0), ("b", 1), ("c", 1), ("d", 2)]));
    assert_eq!(told.iter().map(|page| page.edges.len()).sum::<usize>(), 5);
    assert!(told.iter().all(|page| page.bound() == WalkBound::None && page.position == told[0].position));

    let check = async |request: WalkRequest, bound: WalkBound, expect: &[(&str, u32)]| {
        let mut client = served.graph().await;
        let told = pages(client.walk(WalkRequest { with_blocks: true, ..request }).await).await.expect("walked");
        assert_eq!(told[0].bound(), bound);
        let visits: Vec<Visit> = told.into_iter().flat_map(|page| page.visits).collect();
        assert_eq!(visited(&visits), names(expect));
    };
    check(walk(&["a"]), WalkBound::Depth, &[("a", 0), ("b", 1), ("c", 1)]).await;
    let deep = WalkRequest { depth_max: Some(10), ..walk(&["a"]) };
    check(WalkRequest { visited_max: Some(2), ..deep.clone() }, WalkBound::Visited, &[("a", 0), ("b", 1)]).await;
    check(WalkRequest { results_max: Some(3), ..deep.clone() }, WalkBound::Results, &[("a", 0), ("b", 1), ("c", 1)])
        .await;
    let imports = WalkRequest { types: vec!["imports".to_owned()], ..deep.clone() };
    check(imports, WalkBound::None, &[("a", 0), ("c", 1)]).await;
    let incoming = WalkRequest { direction: GraphDirection::Incoming.into(), ..walk(&["d"]) };
    check(incoming, WalkBound::Depth, &[("d", 0), ("c", 1)]).await;
    let of_kind = GraphBlockFilter { kinds: vec!["module".to_owned()], ..GraphBlockFilter::default() };
    check(WalkRequest { filter: Some(of_kind), ..deep.clone() }, WalkBound::None, &[("a", 0)]).await;

    let order = pages(client.order(walk(&["a"])).await).await.expect("ordered");
    assert_eq!(order.iter().map(|page| page.cycles.len()).sum::<usize>(), 1);
    let components = pages(client.components(walk(&["a"])).await).await.expect("parted");
    let sizes: Vec<usize> = components.iter().flat_map(|page| &page.components).map(|set| set.ids.len()).collect();
    assert_eq!(sizes, [3, 1]);
    commit(&mut client, vec![block(put("e")), edge("b", "uses", "e")]).await.expect("accepted");
    check(deep.clone(), WalkBound::None, &[("a", 0), ("b", 1), ("c", 1), ("e", 2), ("d", 2)]).await;
    let depth_first = WalkRequest { depth_first: true, ..deep };
    check(depth_first, WalkBound::None, &[("a", 0), ("b", 1), ("c", 2), ("d", 3), ("e", 2)]).await;
    let unknown = client.walk(walk(&["nobody"])).await.expect_err("not there");
    assert_eq!(unknown.code(), Code::NotFound);
    served.stop().await;
}

#[tokio::test]
async fn a_large_component_and_a_long_path_are_sent_in_messages_of_bounded_size() {
    const BLOCKS: usize = 2_500;
    let served = Served::new().await;
    let mut client = served.graph().await;
    let name = |number: usize| (number % BLOCKS).to_string();
    commit(&mut client, (0..BLOCKS).map(|number| block(put(&name(number)))).collect()).await.expect("accepted");
    let edges = (0..BLOCKS).map(|number| edge(&name(number), "calls", &name(number + 1)));
    commit(&mut client, edges.collect()).await.expect("accepted");
    let sizes = |sets: Vec<Vec<quire_grpc::proto::BlockSet>>| -> Vec<Vec<(usize, bool)>> {
        let size = |set: &quire_grpc::proto::BlockSet| (set.ids.len(), set.more);
        sets.iter().map(|sets| sets.iter().map(size).collect()).collect()
    };
    let parts = vec![vec![(1_024, true)], vec![(1_024, true)], vec![(452, false)]];
    let told = pages(client.components(walk(&["0"])).await).await.expect("parted");
    assert!(told.iter().all(|page| page.bound() == WalkBound::None));
    assert_eq!(sizes(told.into_iter().map(|page| page.components).collect()), parts);
    let told = pages(client.order(walk(&["0"])).await).await.expect("ordered");
    assert_eq!(sizes(told.into_iter().map(|page| page.cycles).collect()), parts);
    let few = WalkRequest { results_max: Some(1_500), ..walk(&["0"]) };
    let told = pages(client.components(few).await).await.expect("parted");
    assert_eq!(told[0].bound(), WalkBound::Results);
    assert_eq!(
        sizes(told.into_iter().map(|page| page.components).collect()),
        [vec![(1_024, true)], vec![(476, false)]]
    );

    let way = WalkRequest { depth_max: Some(9_999), ..walk(&["0"]) };
    let request = |walk, all| PathsRequest { walk: Some(walk), target: Some(named("2400")), all };
    for all in [false, true] {
        let told = pages(client.paths(request(way.clone(), all)).await).await.expect("found");
        let told: Vec<_> = told.iter().map(|page| (page.visits.len(), page.more)).collect();
        assert_eq!(told, [(1_024, true), (1_024, true), (353, false), (0, false)]);
    }
    let filter = Some(GraphBlockFilter { kinds: vec!["module".to_owned()], ..GraphBlockFilter::default() });
    let filtered = WalkRequest { filter, ..way.clone() };
    let refused = [
        client.components(filtered.clone()).await.expect_err("no effect"),
        client.order(filtered.clone()).await.expect_err("no effect"),
        client.paths(request(filtered.clone(), true)).await.expect_err("no effect"),
        client.order(WalkRequest { with_blocks: true, ..way.clone() }).await.expect_err("no effect"),
        client.walk(WalkRequest { direction: 9, ..way.clone() }).await.expect_err("no direction"),
        client.order(WalkRequest { with_edges: true, ..way.clone() }).await.expect_err("no edges"),
        client.paths(request(WalkRequest { with_edges: true, ..way.clone() }, false)).await.expect_err("no edges"),
    ];
    assert!(refused.iter().all(|status| status.code() == Code::InvalidArgument), "{refused:?}");
    let through = WalkRequest { only_through_matches: true, ..filtered };
    let told = pages(client.components(through.clone()).await).await.expect("parted");
    let count: usize = told.iter().flat_map(|page| &page.components).map(|set| set.ids.len()).sum();
    assert!(count <= 2, "nothing is behind blocks that do not match: {count}");
    served.stop().await;
}

#[tokio::test]
async fn blocks_after_a_cycle_are_returned_after_the_order_and_the_cycles() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    commit(&mut client, ["s", "a", "b", "x"].map(|name| block(put(name))).to_vec()).await.expect("accepted");
    let edges = [("s", "a"), ("a", "b"), ("b", "a"), ("b", "x")];
    commit(&mut client, edges.map(|(source, target)| edge(source, "calls", target)).to_vec()).await.expect("accepted");
    let told = pages(client.order(walk(&["s"])).await).await.expect("ordered");
    let counts = |page: &quire_grpc::proto::OrderResponse| (page.order.len(), page.cycles.len(), page.behind.len());
    assert_eq!(told.iter().map(counts).collect::<Vec<_>>(), [(1, 0, 0), (0, 1, 0), (0, 0, 1)]);
    served.stop().await;
}

#[tokio::test]
async fn a_path_through_matches_only_ends_at_other_blocks_and_edges_join_returned_blocks() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    let other = PutBlock { kind: "other".to_owned(), ..put("b") };
    commit(&mut client, vec![block(put("a")), block(put("m")), block(other)]).await.expect("accepted");
    let edges = [("a", "m"), ("m", "b"), ("a", "b")];
    commit(&mut client, edges.map(|(source, target)| edge(source, "calls", target)).to_vec()).await.expect("accepted");
    let filter = GraphBlockFilter { kinds: vec![put("a").kind], ..GraphBlockFilter::default() };
    let filtered = |filter| WalkRequest { filter: Some(filter), ..walk(&["a"]) };
    for (all, count) in [(false, 1), (true, 2)] {
        let through = WalkRequest { only_through_matches: true, ..filtered(filter.clone()) };
        let request = PathsRequest { walk: Some(through), target: Some(named("b")), all };
        let told = pages(client.paths(request).await).await.expect("found");
        assert_eq!(told.iter().filter(|page| !page.visits.is_empty()).count(), count);
    }
    let with_edges = WalkRequest { with_edges: true, depth_max: Some(9), ..filtered(filter) };
    let told = pages(client.walk(with_edges).await).await.expect("walked");
    let counts = |page: &quire_grpc::proto::WalkResponse| (page.visits.len(), page.edges.len());
    assert_eq!(told.iter().map(counts).collect::<Vec<_>>(), [(2, 0), (0, 1)]);
    let nobody = client.walk(walk(&["nobody"])).await.expect_err("not there");
    assert_eq!(nobody.code(), Code::NotFound);
    assert!(nobody.message().starts_with("unknown block \"nobody\" ("), "{nobody:?}");
    let field = MetadataField { field: "/a~2".to_owned(), value: String::new() };
    let no_pointer = GraphBlockFilter { metadata: vec![field], ..GraphBlockFilter::default() };
    let refused = client.walk(filtered(no_pointer)).await.expect_err("no pointer");
    assert_eq!(refused.code(), Code::InvalidArgument);
    served.stop().await;
}

#[tokio::test]
async fn the_shortest_path_and_all_paths_are_returned() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    small(&mut client).await;
    let request = |all: bool, results_max| PathsRequest {
        walk: Some(WalkRequest { results_max, with_blocks: true, ..walk(&["a"]) }),
        target: Some(named("d")),
        all,
    };
    let lengths =
        |told: &[quire_grpc::proto::PathsResponse]| told.iter().map(|way| way.visits.len()).collect::<Vec<_>>();
    let one = pages(client.paths(request(false, None)).await).await.expect("found");
    assert_eq!((lengths(&one), one[0].visits[1].r#type.as_str()), (vec![3, 0], "imports"));
    let all = pages(client.paths(request(true, None)).await).await.expect("found");
    assert_eq!((lengths(&all), all[2].bound()), (vec![3, 4, 0], WalkBound::None));
    let bounded = pages(client.paths(request(true, Some(1))).await).await.expect("found");
    assert_eq!((lengths(&bounded), bounded[1].bound()), (vec![3, 0], WalkBound::Results));
    let mut short = request(true, None);
    short.walk.as_mut().expect("it is there").depth_max = Some(2);
    let cut_off = pages(client.paths(short).await).await.expect("found");
    assert_eq!((lengths(&cut_off), cut_off[1].bound()), (vec![3, 0], WalkBound::Depth));
    served.stop().await;
}

#[tokio::test]
async fn an_unknown_block_is_refused_with_its_facts_and_missing_ends_are_left_out_on_request() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    small(&mut client).await;
    let dangling = [("a", "gone"), ("gone", "d")].map(|(source, target)| {
        let (source, target) = (Some(named(source)), Some(named(target)));
        let put = PutEdge { source, r#type: "calls".to_owned(), target, allow_missing: true, ..PutEdge::default() };
        GraphCommand { kind: Some(Kind::PutEdge(put)) }
    });
    commit(&mut client, dangling.to_vec()).await.expect("accepted");
    let path = |walk, target: &str, all| PathsRequest { walk: Some(walk), target: Some(named(target)), all };
    let without = || WalkRequest { without_missing: true, ..walk(&["a"]) };
    for (walk, target) in [(walk(&["a"]), "nowhere"), (without(), "gone"), (walk(&["nowhere"]), "d")] {
        for all in [false, true] {
            let refused = client.paths(path(walk.clone(), target, all)).await.expect_err("unknown");
            let unknown = if target == "d" { "nowhere" } else { target };
            check_unknown(&refused, unknown);
        }
    }
    let visited = |walk| WalkRequest { depth_max: Some(9), count_only: true, ..walk };
    for (request, blocks, paths) in [(walk(&["a"]), 5, 3), (without(), 4, 2)] {
        let counted = pages(client.walk(visited(request.clone())).await).await.expect("walked");
        assert_eq!(counted[0].count, Some(blocks));
        let found = pages(client.paths(path(request, "d", true)).await).await.expect("found");
        assert_eq!(found.len(), paths + 1);
    }
    served.stop().await;
}

#[track_caller]
fn check_unknown(refused: &Status, name: &str) {
    let (code, reason, facts) = told(refused);
    assert_eq!((code, reason.as_str()), (Code::NotFound, "NOT_FOUND"));
    let id = quire::graph::BlockId::of_name(name).to_string();
    let expected = [("graph", GRAPH), ("block", &id), ("name", name), ("position", "2")];
    assert_eq!(facts, expected.map(|(fact, value)| (fact.to_owned(), value.to_owned())).into());
    let message = format!("unknown block {name:?} ({id}) in graph {GRAPH:?} at position 2");
    assert_eq!(refused.message(), message);
}

#[tokio::test]
async fn numbers_are_returned_instead_of_lists_and_orders_are_of_whole_graphs() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    small(&mut client).await;
    commit(&mut client, vec![block(put("alone"))]).await.expect("accepted");
    let list = ListBlocksRequest { graph: GRAPH.to_owned(), count_only: true, ..ListBlocksRequest::default() };
    let counted = pages(client.list_blocks(list.clone()).await).await.expect("counted");
    assert_eq!(counted.last().and_then(|page| page.count), Some(5));
    assert!(counted.iter().all(|page| page.blocks.is_empty()));
    let direction = GraphDirection::Both.into();
    let of = NeighboursRequest {
        graph: GRAPH.to_owned(),
        block: Some(named("a")),
        direction,
        count_only: true,
        ..NeighboursRequest::default()
    };
    let counted = pages(client.neighbours(of.clone()).await).await.expect("counted");
    assert_eq!(counted.iter().map(|page| (page.count, page.neighbours.len())).collect::<Vec<_>>(), [(Some(3), 0)]);
    let around = WalkRequest { depth_max: Some(9), with_edges: true, count_only: true, ..walk(&["a"]) };
    let counted = pages(client.walk(around.clone()).await).await.expect("counted");
    let counts: Vec<_> = counted.iter().map(|page| (page.count, page.edge_count, page.visits.len())).collect();
    assert_eq!(counts, [(Some(4), Some(5), 0)]);

    let whole = WalkRequest { whole_graph: true, ..walk(&[]) };
    let parted = pages(client.components(whole.clone()).await).await.expect("parted");
    let mut sizes: Vec<_> = parted.iter().flat_map(|page| &page.components).map(|set| set.ids.len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 1, 3]);
    let ordered = pages(client.order(whole.clone()).await).await.expect("ordered");
    let count = |part: fn(&quire_grpc::proto::OrderResponse) -> usize| ordered.iter().map(part).sum::<usize>();
    assert_eq!(
        (count(|page| page.order.len()), count(|page| page.cycles.len()), count(|page| page.behind.len())),
        (1, 1, 1)
    );
    let few = WalkRequest { visited_max: Some(2), ..whole.clone() };
    let parted = pages(client.components(few).await).await.expect("parted");
    assert_eq!((parted[0].bound(), parted[0].components.len()), (WalkBound::Visited, 2));

    let refused = [
        client.walk(whole.clone()).await.expect_err("no starts"),
        client.components(WalkRequest { whole_graph: true, ..walk(&["a"]) }).await.expect_err("both"),
        client.components(walk(&[])).await.expect_err("neither"),
        client.order(WalkRequest { count_only: true, ..whole }).await.expect_err("no count"),
        client.walk(WalkRequest { results_max: Some(1), ..around }).await.expect_err("a limit"),
        client.list_blocks(ListBlocksRequest { limit: Some(1), ..list }).await.expect_err("a limit"),
        client.neighbours(NeighboursRequest { limit: Some(1), ..of }).await.expect_err("a limit"),
    ];
    assert!(refused.iter().all(|status| status.code() == Code::InvalidArgument), "{refused:?}");
    served.stop().await;
}

#[tokio::test]
async fn lists_neighbours_and_missing_ends_are_sent_in_pages_at_one_position() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    let numbers = 0..2_500u32;
    let tagged = |number: u32| PutBlock {
        source: format!("file://{}.rs", number % 10),
        tags: vec![format!("mod{}", number % 5)],
        metadata: format!(r#"{{"line":{number}}}"#).into_bytes().into(),
        ..put(&number.to_string())
    };
    commit(&mut client, numbers.clone().map(|number| block(tagged(number))).collect()).await.expect("accepted");
    commit(&mut client, numbers.clone().map(|number| edge("0", "calls", &number.to_string())).collect())
        .await
        .expect("accepted");
    let absent = PutEdge { allow_missing: true, ..PutEdge::default() };
    let absent =
        PutEdge { source: Some(named("0")), r#type: "calls".to_owned(), target: Some(named("gone")), ..absent };
    let before =
        commit(&mut client, vec![GraphCommand { kind: Some(Kind::PutEdge(absent)) }]).await.expect("accepted").position;

    let list = |filter, source_prefix: &str, limit| ListBlocksRequest {
        graph: GRAPH.to_owned(),
        filter: Some(filter),
        source_prefix: source_prefix.to_owned(),
        limit,
        at: Some(before),
        count_only: false,
    };
    let neighbours =
        || NeighboursRequest { graph: GRAPH.to_owned(), block: Some(named("0")), ..NeighboursRequest::default() };
    let mut stream = client.neighbours(neighbours()).await.expect("begun").into_inner();
    let first = stream.next().await.expect("a page").expect("read").neighbours;
    commit(&mut client, vec![GraphCommand { kind: Some(Kind::DeleteBlock(DeleteBlock { block: Some(named("7")) })) }])
        .await
        .expect("accepted");
    let mut found = first;
    while let Some(page) = stream.next().await {
        found.extend(page.expect("read").neighbours);
    }
    assert_eq!(found.len(), 2_501, "as of the position it began at");
    let limited = NeighboursRequest { limit: Some(1_500), ..neighbours() };
    let limited = pages(client.neighbours(limited).await).await.expect("read");
    let limited_to: Vec<_> = limited.iter().flat_map(|page| page.neighbours.clone()).collect();
    assert_eq!(limited_to.len(), 1_500);
    let degree = |name: &str, types: &[&str], at| DegreeRequest {
        graph: GRAPH.to_owned(),
        block: Some(named(name)),
        types: types.iter().map(|name| (*name).to_owned()).collect(),
        at,
    };
    for (request, expected) in [
        (degree("0", &[], None), (2_500, 1)),
        (degree("0", &[], Some(before)), (2_501, 1)),
        (degree("0", &["imports"], None), (0, 0)),
        (degree("8", &["calls", "imports"], None), (0, 1)),
    ] {
        let found = client.degree(request).await.expect("read").into_inner();
        assert_eq!((found.outgoing, found.incoming), expected);
    }
    // Another call continues from there.
    let at = Some(limited[0].position);
    let rest = NeighboursRequest { after: limited_to.last().cloned(), at, ..neighbours() };
    let rest = pages(client.neighbours(rest).await).await.expect("read");
    let ids: HashSet<_> = rest.iter().flat_map(|page| &page.neighbours).chain(&limited_to).map(|it| &it.id).collect();
    assert_eq!((rest.iter().map(|page| page.neighbours.len()).sum::<usize>(), ids.len()), (1_000, 2_500));

    let all = pages(client.list_blocks(list(GraphBlockFilter::default(), "", None)).await).await.expect("listed");
    assert!(all.len() > 2 && all.iter().map(|page| page.blocks.len()).sum::<usize>() == 2_500);
    let names = |pages: Vec<quire_grpc::proto::ListBlocksResponse>| {
        pages.into_iter().flat_map(|page| page.blocks).map(|block| block.name).collect::<Vec<_>>()
    };
    let field = MetadataField { field: "line".to_owned(), value: "7".to_owned() };
    let by_field = GraphBlockFilter { metadata: vec![field], ..GraphBlockFilter::default() };
    assert_eq!(names(pages(client.list_blocks(list(by_field, "", None)).await).await.expect("listed")), ["7"]);
    let by_tag = GraphBlockFilter { tags: vec!["mod2".to_owned()], ..GraphBlockFilter::default() };
    let listed = names(pages(client.list_blocks(list(by_tag, "file://7", Some(2))).await).await.expect("listed"));
    assert_eq!(listed, ["7", "17"]);

    let missing = pages(client.missing(MissingRequest { graph: GRAPH.to_owned() }).await).await.expect("listed");
    let missing: Vec<_> = missing.into_iter().flat_map(|page| page.blocks).collect();
    assert_eq!((missing.len(), missing[0].incoming, missing[0].outgoing), (1, 1, 0));
    let described = client.describe(DescribeGraphRequest { graph: GRAPH.to_owned() }).await.expect("read").into_inner();
    assert_eq!((described.blocks, described.edges), (2_499, 2_500));
    assert!(described.memory_bytes > 2_499 * 56);
    let versions = GetVersionsRequest { graph: GRAPH.to_owned(), block: Some(named("7")), before: None, limit: None };
    let versions = client.get_versions(versions).await.expect("read").into_inner().versions;
    assert_eq!(versions.iter().map(|version| version.put.is_some()).collect::<Vec<_>>(), [false, true]);
    served.stop().await;
}

#[tokio::test]
async fn changes_are_sent_from_any_position_and_as_they_happen() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    small(&mut client).await;
    let request = |after| GraphChangesRequest { graph: GRAPH.to_owned(), after };
    let mut stream = client.changes(request(None)).await.expect("begun").into_inner();
    let first = stream.next().await.expect("a page").expect("told");
    assert_eq!((first.changes.len(), first.caught_up), (9, true));

    let deletes = vec![
        GraphCommand {
            kind: Some(Kind::DeleteEdge(DeleteEdge {
                source: Some(named("a")),
                r#type: "imports".to_owned(),
                target: Some(named("c")),
            })),
        },
        GraphCommand { kind: Some(Kind::DeleteBlock(DeleteBlock { block: Some(named("d")) })) },
    ];
    let replies = commit(&mut client, deletes).await.expect("accepted").replies;
    assert_eq!(replies[0].kind, Some(graph_reply::Kind::EdgeDeleted(EdgeDeleted { existed: true })));
    assert!(matches!(&replies[1].kind, Some(graph_reply::Kind::BlockDeleted(BlockDeleted { version: 1, .. }))));
    let next = stream.next().await.expect("a page").expect("told");
    let kinds: HashMap<&str, usize> = next.changes.iter().fold(HashMap::new(), |mut kinds, change| {
        let kind = match change.what {
            Some(What::EdgeDeleted(_)) => "edge",
            Some(What::BlockDeleted(_)) => "block",
            _ => "other",
        };
        *kinds.entry(kind).or_default() += 1;
        kinds
    });
    assert_eq!(kinds, HashMap::from([("edge", 1), ("block", 1)]));

    let served = served.again().await;
    let mut client = served.graph().await;
    let mut again = client.changes(request(first.next)).await.expect("begun").into_inner();
    assert_eq!(again.next().await.expect("a page").expect("told").changes, next.changes);
    served.stop().await;
}

#[tokio::test]
async fn reads_of_a_trimmed_history_are_refused() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    small(&mut client).await;
    let delete = Kind::DeleteBlock(DeleteBlock { block: Some(named("b")) });
    let at = commit(&mut client, vec![GraphCommand { kind: Some(delete) }]).await.expect("accepted").position;
    let retention = SetGraphRetention { history_ms: Some(86_400_000), versions: 3 };
    let commands = [Kind::SetRetention(retention), Kind::TrimHistory(TrimGraphHistory { from: at })];
    let commands = commands.map(|kind| GraphCommand { kind: Some(kind) }).into();
    let replies = commit(&mut client, commands).await.expect("accepted").replies;
    assert_eq!(replies[0].kind, Some(graph_reply::Kind::RetentionSet(graph_reply::RetentionSet {})));
    assert_eq!(replies[1].kind, Some(graph_reply::Kind::HistoryTrimmed(graph_reply::HistoryTrimmed { from: at })));
    let ahead = GraphCommand { kind: Some(Kind::TrimHistory(TrimGraphHistory { from: at + 9 })) };
    let (code, reason, _) = told(&commit(&mut client, vec![ahead]).await.expect_err("yet to come"));
    assert_eq!((code, reason.as_str()), (Code::FailedPrecondition, "AHEAD_OF_LOG"));

    let served = served.again().await;
    let mut client = served.graph().await;
    let described = client.describe(DescribeGraphRequest { graph: GRAPH.to_owned() }).await.expect("read").into_inner();
    assert_eq!((described.retention, described.history_from), (Some(retention), at));
    let asked = |at| ExistsRequest { graph: GRAPH.to_owned(), blocks: vec![named("a"), named("b")], at: Some(at) };
    assert_eq!(client.exists(asked(at)).await.expect("read").into_inner().exists, [true, false]);
    let (code, reason, _) = told(&client.exists(asked(at - 1)).await.expect_err("gone"));
    assert_eq!((code, reason.as_str()), (Code::OutOfRange, "GONE"));
    let changes = |after| GraphChangesRequest { graph: GRAPH.to_owned(), after };
    let place = |position, index| Some(GraphPlace { position, index });
    assert_eq!(told(&client.changes(changes(place(at - 1, 1))).await.expect_err("gone")).1, "GONE");
    assert_eq!(told(&client.changes(changes(place(0, 0))).await.expect_err("gone")).1, "GONE");
    assert_eq!(told(&client.changes(changes(place(at + 99, 0))).await.expect_err("ahead")).1, "NOT_FOUND");
    let mut kept = client.changes(changes(None)).await.expect("begun").into_inner();
    let first = kept.next().await.expect("a page").expect("read");
    assert_eq!(first.changes[0].position, at, "it begins where the history does");
    let nothing = GraphCommand { kind: Some(Kind::DeleteBlock(DeleteBlock { block: Some(named("nobody")) })) };
    let position = commit(&mut client, vec![nothing]).await.expect("accepted").position;
    client.exists(asked(position)).await.expect("it can be read at");
    served.stop().await;
}

#[tokio::test]
async fn blocks_that_are_too_many_or_too_large_together_are_not_read_at_once() {
    let served = Served::new().await;
    let mut client = served.graph().await;
    let large = PutBlock { content: vec![7; 1 << 20].into(), ..put("large") };
    commit(&mut client, vec![block(large)]).await.expect("accepted");
    let read = async |count: usize| {
        let blocks = vec![named("large"); count];
        let mut client = served.graph().await.max_decoding_message_size(usize::MAX);
        let exists = ExistsRequest { graph: GRAPH.to_owned(), blocks: blocks.clone(), at: None };
        let exists = client.exists(exists).await.map(|answer| answer.into_inner().exists.len());
        let request = GetBlocksRequest { graph: GRAPH.to_owned(), blocks, at: None };
        let read = client.get_blocks(request).await.map(|answer| answer.into_inner().blocks.len());
        [exists, read].map(|answer| answer.map_err(|status| told(&status).1))
    };
    assert_eq!(read(64).await, [Ok(64), Ok(64)]);
    assert_eq!(read(65).await, [Ok(65), Err("TOO_LARGE".to_owned())]);
    assert_eq!(read(1_001).await, [Err("INVALID".to_owned()), Err("INVALID".to_owned())]);
    served.stop().await;
}
