//! Every format reads back what it wrote, whatever the names and bytes, and other tools can join
//! its files.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;
use roxmltree::Document;

use super::caller::ImportClient;
use super::item::{BlockItem, EdgeItem, EndItem, Item};
use super::{FORMATS, Format};
use crate::error::Problem;
use crate::memory::{Claim, ResponseMemory};
use quire::graph::BlockId;
use quire_access::budget::ByteBudget;

/// Texts that are known to be difficult in these formats.
fn text(least: usize) -> impl Strategy<Value = String> {
    let piece = prop::sample::select(&[
        "a",
        "b",
        " ",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\0",
        "\u{1}",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{fffd}",
        "\u{fffe}",
        "\u{ffff}",
        "\u{feff}",
        "id:",
        "id:00000000000000000000000000000000",
        "\"",
        "'",
        ",",
        "<",
        "&amp;",
        "]]>",
        "\\",
        "ç",
        "函",
        "🦀",
    ]);
    prop::collection::vec(piece, least..4).prop_map(|pieces| pieces.concat())
}

/// A kind or an edge type: without control characters.
fn word() -> impl Strategy<Value = String> {
    text(1).prop_map(|text| text.replace(char::is_control, "·"))
}

fn json() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        Just(b"[1,\r\n\t2 ]".to_vec()),
        text(0).prop_map(|text| serde_json::json!({ "text": text }).to_string().into_bytes()),
    ]
}

fn end(number: u8, name: &Option<String>) -> EndItem {
    name.clone().map_or(EndItem::Id(BlockId::new([number; 16])), EndItem::Name)
}

/// Blocks, some of them without a name, and edges between them.
fn graph() -> impl Strategy<Value = Vec<Item>> {
    let names = prop::collection::vec(prop::option::of(text(1)), 1..5);
    let content = prop_oneof![text(0).prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..4)];
    let block = (word(), text(0), prop::collection::btree_set(text(1), 0..3), json(), content);
    let edge = (any::<prop::sample::Index>(), word(), any::<prop::sample::Index>(), json());
    (names, prop::collection::vec(block, 4), prop::collection::vec(edge, 0..5)).prop_map(|(names, blocks, edges)| {
        let mut seen = HashSet::new();
        let ends: Vec<EndItem> = (0..).zip(&names).map(|(number, name)| end(number, name)).collect();
        let ends: Vec<EndItem> = ends.into_iter().filter(|end| seen.insert(*end.id().as_bytes())).collect();
        let blocks = ends.iter().cloned().zip(blocks).map(|(block, (kind, source, tags, metadata, content))| {
            Item::Block(BlockItem { block, kind, source, tags: tags.into_iter().collect(), metadata, content })
        });
        let mut seen = BTreeSet::new();
        let edges = edges.into_iter().filter_map(|(source, edge_type, target, properties)| {
            let [source, target] = [source, target].map(|end| end.get(&ends).clone());
            let key = (source.id().to_string(), edge_type.clone(), target.id().to_string());
            seen.insert(key).then_some(Item::Edge(EdgeItem { source, edge_type, target, properties }))
        });
        blocks.chain(edges).collect()
    })
}

fn written(format: Format, items: &[Item]) -> Vec<u8> {
    let each = |take: &mut dyn FnMut(Item) -> Result<(), Problem>| items.iter().cloned().try_for_each(take);
    format.write("g", claim(1 << 30), each).expect("memory takes everything").bytes
}

/// An empty claim of a budget of `bytes`.
fn claim(bytes: u64) -> Claim {
    ResponseMemory::new(&ByteBudget::new(bytes)).claim()
}

/// Files of many small parts: each takes many times its bytes in memory.
#[test]
fn an_import_claims_its_items_as_they_grow_and_is_refused_before_memory_is_used_up() {
    let lines = |line: &dyn Fn(usize) -> String| (0..20_000).map(line).collect::<String>();
    let graphml = |parts: String| format!("<graphml><graph edgedefault=\"undirected\">{parts}</graph></graphml>");
    let files = [
        ("blocks", Format::JsonLines, lines(&|n| format!("{{\"block\":{{\"name\":\"{n:x}\",\"kind\":\"k\"}}}}\n"))),
        (
            "edges",
            Format::JsonLines,
            lines(&|n| format!("{{\"edge\":{{\"source\":\"{n:x}\",\"type\":\"t\",\"target\":\"0\"}}}}\n")),
        ),
        (
            "tags",
            Format::JsonLines,
            format!("{{\"block\":{{\"name\":\"a\",\"kind\":\"k\",\"tags\":[{}\"\"]}}}}", "\"\",".repeat(60_000)),
        ),
        ("csv blocks", Format::CsvBlocks, "name,kind\n".to_owned() + &lines(&|n| format!("{n:x},k\n"))),
        ("csv edges", Format::CsvEdges, "source,type,target\n".to_owned() + &lines(&|n| format!("{n:x},t,0\n"))),
        ("csv tags", Format::CsvBlocks, format!("name,kind,tags\na,k,\"[{}\"\"\"\"]\"", "\"\"\"\",".repeat(60_000))),
        ("nodes", Format::GraphMl, graphml(lines(&|n| format!("<node id=\"{n:x}\"/>")))),
        ("edges of GraphML", Format::GraphMl, graphml(lines(&|n| format!("<edge source=\"{n:x}\" target=\"0\"/>")))),
        ("data", Format::GraphMl, graphml(format!("<node id=\"a\">{}</node>", "<data/>".repeat(20_000)))),
        (
            "tags of GraphML",
            Format::GraphMl,
            graphml(format!("<node id=\"a\"><data key=\"tags\">[{}\"\"]</data></node>", "\"\",".repeat(60_000))),
        ),
    ];
    for (name, format, file) in files {
        let read = |bytes| format.read(file.as_bytes(), &ImportClient::default(), &mut claim(bytes));
        let refused = read(2 << 20).expect_err(name);
        assert_eq!(refused.code(), "too_large", "{name}");
        let items = read(1 << 30).map_or(0, |items| items.len());
        assert!(items > 0 || name == "data", "{name}: {items}");
    }
}

/// The items, with the ends of edges by their ids. Whether a file also has a name there depends on
/// the format.
fn by_id(items: impl IntoIterator<Item = Item>) -> Vec<Item> {
    let edge = |edge: EdgeItem| EdgeItem {
        source: EndItem::Id(edge.source.id()),
        target: EndItem::Id(edge.target.id()),
        ..edge
    };
    let item = |item| if let Item::Edge(it) = item { Item::Edge(edge(it)) } else { item };
    items.into_iter().map(item).collect()
}

proptest! {
    #[test]
    fn written_graphs_are_read_unchanged(items in graph()) {
        let mut csv = Vec::new();
        for (name, format) in FORMATS {
            let file = written(format, &items);
            let read = format.read(&file, &ImportClient::default(), &mut claim(1 << 30)).unwrap_or_else(|problem| panic!("{name}: {problem:?}\n{}", String::from_utf8_lossy(&file)));
            let read = by_id(read.into_iter().map(|lined| lined.item));
            match format {
                Format::CsvBlocks | Format::CsvEdges => csv.extend(read),
                _ => prop_assert_eq!(read, by_id(items.clone()), "{}", name),
            }
        }
        prop_assert_eq!(csv, by_id(items), "both files of CSV together");
    }

    #[test]
    fn an_edge_names_its_ends_as_the_blocks_are_named(items in graph()) {
        let file = String::from_utf8(written(Format::GraphMl, &items)).expect("XML is text");
        let document = Document::parse(&file).expect("XML");
        let all = |tag: &str, attribute: &str| -> HashSet<String> {
            let found = document.descendants().filter(|node| node.tag_name().name() == tag);
            found.map(|node| node.attribute(attribute).expect("it is given").to_owned()).collect()
        };
        let nodes = all("node", "id");
        prop_assert!(all("edge", "source").union(&all("edge", "target")).all(|end| nodes.contains(end)), "{}", file);
        let column = |format: Format, name: &str| -> HashSet<String> {
            let file = written(format, &items);
            let mut rows = csv::Reader::from_reader(&file[..]);
            let at = rows.headers().expect("a header").iter().position(|column| column == name).expect("a column");
            rows.records().map(|row| row.expect("a row")[at].to_owned()).collect()
        };
        for (id, ends) in [("id", ["source_id", "target_id"]), ("name", ["source", "target"])] {
            let ids = column(Format::CsvBlocks, id);
            prop_assert!(ends.iter().all(|end| column(Format::CsvEdges, end).is_subset(&ids)), "{}", id);
        }
    }
}
