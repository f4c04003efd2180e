//! Graphs as a client sees them: what an import refuses, what comes back of an export, earlier
//! positions, and bounds.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::events::subscribe;
use crate::served::{Served, whole};

const LINES: &str = r#"{"block": {"name": "a", "kind": "file", "source": "src/a.rs", "tags": ["x", "y"], "metadata": {"size": 3}, "content_text": "A, \"<&>\"\n\u0001"}}
{"block": {"name": "b", "kind": "file", "source": "src/b.rs", "metadata": {"size": 4}, "content_base64": "/wA="}}
{"block": {"name": "ç", "kind": "function", "source": "lib/c.rs"}}
{"block": {"id": "00000000000000000000000000000000", "kind": "function"}}
{"edge": {"source": "a", "type": "calls", "target": "b", "properties": {"line": 3}}}
{"edge": {"source": "b", "type": "calls", "target": "ç"}}
{"edge": {"source": "b", "type": "imports", "target": "b"}}
{"edge": {"source": "ç", "type": "calls", "target": "a"}}
{"edge": {"source_id": "00000000000000000000000000000000", "type": "calls", "target": "a"}}
"#;

pub(crate) fn post(served: &Served, path: &str, body: &str) -> (u16, Value) {
    let answer = served.post(path, body);
    (answer.status, answer.json())
}

pub(crate) fn get(served: &Served, path: &str) -> Value {
    let answer = served.get(path);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

pub(crate) fn names(blocks: &Value) -> Vec<String> {
    let name = |block: &Value| block["name"].as_str().unwrap_or("-").to_owned();
    blocks.as_array().expect("a list").iter().map(name).collect()
}

#[test]
fn an_export_in_every_format_is_imported_unchanged() {
    let served = Served::new();
    let (status, imported) = post(&served, "/v1/graphs/g/import", LINES);
    assert_eq!(
        (status, &imported["blocks"], &imported["edges"], &imported["commits"]),
        (200, &json!(4), &json!(5), &json!(1))
    );
    let export = |graph: &str, format: &str| served.get(&format!("/v1/graphs/{graph}/export?format={format}")).text;
    let first = export("g", "jsonl");
    assert_eq!(first.lines().count(), 9);
    for (graph, formats) in [("j", &["jsonl"][..]), ("x", &["graphml"]), ("c", &["csv-blocks", "csv-edges"])] {
        for format in formats {
            let (status, answer) =
                post(&served, &format!("/v1/graphs/{graph}/import?format={format}"), &export("g", format));
            assert_eq!(status, 200, "{format}: {answer}");
        }
        assert_eq!(export(graph, "jsonl"), first, "{formats:?}");
    }
}

#[test]
fn edges_without_a_source_are_exported_too_as_they_were_at_the_position_whatever_became_of_their_ends_since() {
    let served = Served::new();
    let edges =
        [("gone", "t", "a"), ("put", "t", "a"), ("stays", "t", "a"), ("cut", "t", "b"), ("void", "u", "nowhere")];
    let block = |block: &str| json!({ "put_block": { "graph": "g", "block": block, "kind": "k" } });
    let edge = |(source, edge_type, target): (&str, &str, &str)| {
        json!({ "put_edge": {
        "graph": "g", "source": source, "type": edge_type, "target": target, "properties": { "from": source }, "allow_missing": true,
    } })
    };
    let parts: Vec<Value> = ["a", "b"].map(block).into_iter().chain(edges.map(edge)).collect();
    let at = served.write("/v1/commit", json!({ "parts": parts }))["position"].clone();
    let export = |graph: &str, more: &str| served.get(&format!("/v1/graphs/{graph}/export?{more}")).text;
    let first = export("g", "format=jsonl");
    assert_eq!(first.lines().count(), 7, "{first}");
    for (source, ..) in edges {
        assert!(first.contains(&format!("{{\"from\":\"{source}\"}}")), "{first}");
    }

    served.write(
        "/v1/commit",
        json!({ "parts": [
            { "delete_edge": { "graph": "g", "source": "gone", "type": "t", "target": "a" } },
            block("put"),
            { "delete_block": { "graph": "g", "block": "b" } },
            { "delete_edge": { "graph": "g", "source": "void", "type": "u", "target": "nowhere" } },
        ] }),
    );
    assert_eq!(export("g", &format!("at={at}")), first);
    for (graph, formats) in [("j", &["jsonl"][..]), ("x", &["graphml"]), ("c", &["csv-blocks", "csv-edges"])] {
        for format in formats {
            let file = export("g", &format!("format={format}&at={at}"));
            served.write(&format!("/v1/graphs/{graph}/import?format={format}&allow_missing=true"), file);
        }
        assert_eq!(export(graph, "format=jsonl"), first, "{formats:?}");
    }
}

#[test]
fn kinds_and_edge_types_come_back_in_the_order_in_which_the_graph_first_saw_them() {
    let served = Served::new();
    let block = |name: &str, kind: &str| format!("{{\"block\": {{\"name\": \"{name}\", \"kind\": \"{kind}\"}}}}\n");
    let edge = |source: &str, edge_type: &str, target: &str| {
        format!("{{\"edge\": {{\"source\": \"{source}\", \"type\": \"{edge_type}\", \"target\": \"{target}\"}}}}\n")
    };
    let blocks = block("a", "z") + &block("c", "y") + &block("d", "x");
    let edges =
        edge("c", "never", "c") + &edge("c", "first", "a") + &edge("c", "second", "d") + &edge("a", "second", "d");
    let file = blocks + &edges + &edge("d", "third", "d") + &edge("a", "third", "a");
    assert_eq!(post(&served, "/v1/graphs/g/import", &file).0, 200);
    served.write(
        "/v1/commit",
        json!({ "parts": [{ "delete_edge": { "graph": "g", "source": "c", "type": "never", "target": "c" } }] }),
    );
    let export = |graph: &str, format: &str| served.get(&format!("/v1/graphs/{graph}/export?format={format}")).text;
    let told = |graph: &str| {
        let blocks = names(&get(&served, &format!("/v1/graphs/{graph}/blocks"))["data"]);
        let types = |block: &str| {
            let found = get(&served, &format!("/v1/graphs/{graph}/blocks/{block}/neighbours"))["data"].clone();
            found.as_array().expect("a list").iter().map(|found| found["type"].clone()).collect::<Vec<_>>()
        };
        (blocks, ["a", "c", "d"].map(types))
    };
    assert_eq!(told("g").1[1], ["first", "second"]);
    for (graph, formats) in [("j", &["jsonl"][..]), ("x", &["graphml"]), ("c", &["csv-blocks", "csv-edges"])] {
        for format in formats {
            served.write(&format!("/v1/graphs/{graph}/import?format={format}"), export("g", format));
        }
        assert_eq!(told(graph), told("g"), "{formats:?}");
        assert_eq!(export(graph, "jsonl"), export("g", "jsonl"), "{formats:?}");
    }
}

#[test]
fn a_file_larger_than_an_import_takes_is_refused_as_everything_is() {
    let served = Served::new();
    let bytes_max: usize = 256 << 20;
    let mut stream = std::net::TcpStream::connect(served.address).expect("it listens");
    let length = bytes_max + 1;
    let head = served.head("POST", "/v1/graphs/g/import", length, "Connection: close\r\n");
    stream.write_all(head.as_bytes()).expect("taken");
    let blank = vec![b'\n'; 1 << 20];
    (0..256).for_each(|_| stream.write_all(&blank).expect("taken"));
    stream.write_all(b"\n").expect("taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains(" 413 "), "{head}");
    let problem: Value = serde_json::from_str(body).expect(body);
    assert_eq!((&problem["code"], &problem["most"]), (&json!("too_large"), &json!(bytes_max)), "{problem}");
}

/// Other tools read these: nodes, edges and values as they would know them.
#[test]
fn graphml_of_other_tools_keeps_what_a_graph_can_hold_and_is_refused_with_the_line_for_the_rest() {
    let served = Served::new();
    let graphml = |items: &str| {
        format!(
            "<graphml><key id='d0' for='node' attr.name='size' attr.type='double'><default>0.5</default></key>\n\
             <key id='d1' for='all' attr.name='on' attr.type='boolean'/><key id='d2' for='edge' attr.name='n' attr.type='long'/>\n\
             <key id='name' for='node' attr.name='name' attr.type='string'/>\n<graph edgedefault='undirected'>\n{items}\n</graph></graphml>"
        )
    };
    let file = graphml(
        "<node id='a'><data key='d0'>1.50</data><data key='d1'>True</data><data key='name'>Ann</data></node>\n\
         <node id='b'/><node id='c'><data key='d0'> NaN </data></node>\n\
         <edge source='a' target='b'><data key='d2'>7</data></edge>\n\
         <edge source='b' target='c' directed='true'/><edge source='c' target='c'/>",
    );
    let (status, imported) = post(&served, "/v1/graphs/g/import?format=graphml", &file);
    assert_eq!((status, &imported["blocks"], &imported["edges"]), (200, &json!(3), &json!(4)), "{imported}");
    let metadata = |block: &str| served.get(&format!("/v1/graphs/g/blocks/{block}")).json()["metadata"].clone();
    assert!(served.get("/v1/graphs/g/blocks/a").text.contains(r#"{"name":"Ann","on":true,"size":1.50}"#));
    assert_eq!((metadata("b"), metadata("c")), (json!({ "size": 0.5 }), json!({ "size": "NaN" })));
    for path in ["source=a&target=b", "source=b&target=a"] {
        let edge = get(&served, &format!("/v1/graphs/g/edges?type=link&{path}"));
        assert_eq!(edge["properties"], json!({ "n": 7 }));
    }
    let one_way = "/v1/graphs/g/edges?type=link&source=c&target=b";
    assert_eq!(served.get(one_way).status, 404);

    let served = Served::new();
    for (item, part) in [
        ("<hyperedge/>", "hyperedge"),
        ("<node id='b'><port name='p'/></node>", "port"),
        ("<node id='a'/>", "also on line 5"),
        ("<edge source='a' target='a'/><edge source='a' target='a'/>", "also on line 6"),
        ("<node id='b'/><edge source='a' target='b'/><edge source='b' target='a'/>", "also on line 6"),
        ("<node id='b'><data key='d0'>much</data></node>", "double"),
        ("<node id='b'><data key='d1'>maybe</data></node>", "boolean"),
        (
            "<node id='b'><data key='d0'>1</data><data key='metadata'>{}</data></node>",
            "can't be combined with metadata",
        ),
        (
            "<edge source='a' target='a'><data key='x'>1</data><data key='properties'>{}</data></edge>",
            "can't be combined with properties",
        ),
        ("<edge source='a' target='a'><data key='x'>1</data><data key='x'>2</data></edge>", "duplicate data"),
    ] {
        let file = graphml(&format!("<node id='a'/>\n{item}"));
        let problem = served.fails("POST", "/v1/graphs/g/import?format=graphml", &file, 400, "invalid");
        assert_eq!(problem["line"], json!(6), "{item}: {problem}");
        assert!(problem["detail"].as_str().expect("a message").contains(part), "{item}: {problem}");
    }
    assert_eq!(get(&served, "/v1/graphs"), whole(json!([])));
}

#[test]
fn an_error_in_a_file_is_reported_with_its_line_and_nothing_is_imported() {
    let served = Served::new();
    let good = r#"{"block": {"name": "a", "kind": "k"}}"#;
    for (format, body, line, part) in [
        ("jsonl", format!("{good}\n\n{{\"block\": "), 3, "EOF"),
        ("jsonl", format!("{good}\n{{\"block\": {{\"name\": \"b\", \"knd\": 1}}}}"), 2, "knd"),
        ("jsonl", format!("{good}\n{{\"block\": {{\"kind\": \"k\"}}}}"), 2, "is missing"),
        ("jsonl", format!("{good}\n{{\"block\": {{\"id\": \"12\", \"kind\": \"k\"}}}}"), 2, "32 hexadecimal digits"),
        (
            "jsonl",
            format!("{good}\n{{\"edge\": {{\"source\": \"a\", \"type\": \"t\", \"target\": \"b\"}}}}"),
            2,
            "of the edge not found",
        ),
        ("jsonl", format!("{good}\n{{\"block\": {{\"name\": \"b\", \"kind\": \"\"}}}}"), 2, "kind"),
        ("csv-blocks", "name,kind\na,k\nb\n".to_owned(), 3, "1 fields in 2 columns"),
        ("csv-blocks", "name,kind\n\"a\"\"\",k\nb,\"k\nc,k\n".to_owned(), 3, "a quote is not closed"),
        ("csv-blocks", "name,kind,content,content_base64\na,k,x,eA==\n".to_owned(), 2, "not both"),
        ("jsonl", format!("{good}\n{{\"block\": {{\"name\": \"b\", 1}}}}"), 2, "line 2: column 25: "),
        ("csv-blocks", "name,knd\n".to_owned(), 1, "knd"),
        ("csv-blocks", "name,kind,tags\na,k,\nb,k,x\n".to_owned(), 3, "JSON array"),
        ("graphml", "<graphml><graph>\n<node id='a'/>\n<node/>\n</graph></graphml>".to_owned(), 3, "node's id"),
        ("graphml", "<graphml>\n<graph>\n</node></graphml>".to_owned(), 3, "graph"),
        ("graphml", "\n<a/>".to_owned(), 2, "must be \"graphml\", got \"a\""),
        ("graphml", "<gexf><graph><node id='a'/></graph></gexf>".to_owned(), 1, "must be \"graphml\""),
        ("graphml", "<graphml xmlns='http://www.w3.org/2000/svg'/>".to_owned(), 1, "namespace"),
        ("graphml", "<graphml>\n<graph edgedefault='sideways'/></graphml>".to_owned(), 2, "edgedefault"),
        (
            "graphml",
            "<graphml><graph>\n<node id='a'/>\n<edge source='a' target='a' directed='maybe'/></graph></graphml>"
                .to_owned(),
            3,
            "directed",
        ),
        ("csv-blocks", "name,kind,name\na,k,b\n".to_owned(), 1, "column name occurs twice"),
        ("csv-blocks", "name,source\na,k\n".to_owned(), 1, "the column kind is missing"),
        ("csv-blocks", "kind\nk\n".to_owned(), 1, "the column name or id is missing"),
        ("csv-edges", "source,target\na,k\n".to_owned(), 1, "the column type is missing"),
        ("csv-edges", "source_id,type\na,k\n".to_owned(), 1, "the column target or target_id is missing"),
        ("jsonl", "\nname,kind\na,k\n".to_owned(), 2, "another format"),
        ("jsonl", format!("{good}\n[1]"), 2, "another format"),
        ("jsonl", format!("{good}\nnull"), 2, "another format"),
        ("jsonl", "<graphml/>".to_owned(), 1, "another format"),
    ] {
        let (status, problem) = post(&served, &format!("/v1/graphs/g/import?format={format}"), &body);
        assert!(status == 400 || status == 409, "{body}: {problem}");
        assert_eq!(problem["line"], json!(line), "{body}: {problem}");
        assert!(problem["detail"].as_str().expect("a message").contains(part), "{body}: {problem}");
    }
    let latin = &[
        served.head("POST", "/v1/graphs/g/import?format=graphml", 21, "Connection: close\r\n").as_bytes(),
        b"<graphml>\n\xe9</graphml>",
    ]
    .concat();
    let problem = served.send(latin).json();
    assert_eq!((&problem["line"], &problem["code"]), (&json!(2), &json!("invalid")), "{problem}");
    for body in ["", good] {
        let problem = served.fails("POST", "/v1/graphs/a%20b/import", body, 400, "invalid_name");
        assert_eq!(problem["line"], Value::Null, "it is not the file's: {problem}");
    }
    assert_eq!(get(&served, "/v1/graphs"), whole(json!([])));
    // Any prefix will do, and no namespace, too.
    let prefixed = "<g:graphml xmlns:g='http://graphml.graphdrawing.org/xmlns'><g:graph edgedefault='directed'><g:node id='a'/></g:graph></g:graphml>";
    assert_eq!(post(&served, "/v1/graphs/g/import?format=graphml", prefixed).1["blocks"], json!(1));
}

#[test]
fn metadata_and_properties_that_are_not_json_are_refused_by_every_route_and_import() {
    let served = Served::new();
    let good = r#"{"block": {"name": "a", "kind": "k"}}"#;
    let graphml = |data: &str| format!("<graphml><graph>\n<node id='a'/>\n{data}\n</graph></graphml>");
    let many: String = (0..200).map(|n| format!("{{\"block\": {{\"name\": \"{n}\", \"kind\": \"k\"}}}}\n")).collect();
    for (format, body, line, field) in [
        (
            "jsonl",
            format!("{good}\n{{\"block\": {{\"name\": \"b\", \"kind\": \"k\", \"metadata_text\": \"{{bad\"}}}}"),
            2,
            "metadata",
        ),
        (
            "jsonl",
            format!("{good}\n{{\"block\": {{\"name\": \"b\", \"kind\": \"k\", \"metadata_base64\": \"/w==\"}}}}"),
            2,
            "metadata",
        ),
        (
            "jsonl",
            format!(
                "{good}\n{{\"edge\": {{\"source\": \"a\", \"type\": \"t\", \"target\": \"a\", \"properties_text\": \"x\"}}}}"
            ),
            2,
            "properties",
        ),
        ("csv-blocks", "name,kind,metadata\na,k,{}\nb,k,{bad\n".to_owned(), 3, "metadata"),
        ("csv-edges", "source,type,target,properties\na,t,a,{}\na,u,a,{bad\n".to_owned(), 3, "properties"),
        ("graphml", graphml("<node id='b'><data key='metadata'>{bad</data></node>"), 3, "metadata"),
        ("graphml", graphml("<edge source='a' target='a'><data key='properties'>{bad</data></edge>"), 3, "properties"),
        (
            "jsonl",
            format!("{many}{{\"block\": {{\"name\": \"b\", \"kind\": \"k\", \"metadata_text\": \"1 2\"}}}}"),
            201,
            "metadata",
        ),
    ] {
        for served in [&served, &Served::with(|builder| builder.commit_bytes_max(20_000))] {
            let path = format!("/v1/graphs/g/import?format={format}&batches=true&allow_missing=true");
            let problem = served.fails("POST", &path, &body, 400, "not_json");
            assert_eq!((&problem["line"], &problem["field"]), (&json!(line), &json!(field)), "{body}: {problem}");
            assert!(
                problem["detail"]
                    .as_str()
                    .expect("a message")
                    .starts_with(&format!("line {line}: invalid {field}: not JSON"))
                    || line == 201
            );
            assert_eq!(get(served, "/v1/graphs"), whole(json!([])), "{body}");
        }
    }
    for part in [
        json!({ "put_block": { "graph": "g", "block": "a", "kind": "k", "metadata_text": "{bad" } }),
        json!({ "put_edge": { "graph": "g", "source": "a", "type": "t", "target": "a", "properties_base64": "/w==", "allow_missing": true } }),
    ] {
        let problem = served.fails("POST", "/v1/commit", &json!({ "parts": [part] }).to_string(), 400, "not_json");
        assert_eq!(problem["part"], json!(0));
    }
    // What else no graph takes is found before the first of several commits, too.
    let served = Served::with(|builder| builder.commit_bytes_max(20_000));
    let body = format!("{many}{{\"block\": {{\"name\": \"b\", \"kind\": \"\"}}}}");
    let problem = served.fails("POST", "/v1/graphs/g/import?batches=true", &body, 400, "invalid_name");
    assert_eq!(problem["line"], json!(201));
    assert_eq!(get(&served, "/v1/graphs"), whole(json!([])));
}

#[test]
fn a_file_larger_than_a_commit_is_imported_in_several_commits_only_on_request() {
    let served = Served::with(|builder| builder.commit_bytes_max(20_000));
    let block = |number: usize| format!("{{\"block\": {{\"name\": \"{number}\", \"kind\": \"k\"}}}}\n");
    let edge =
        |target: &str| format!("{{\"edge\": {{\"source\": \"0\", \"type\": \"t\", \"target\": \"{target}\"}}}}\n");
    let blocks: String = (0..200).map(block).collect();
    let (status, problem) = post(&served, "/v1/graphs/g/import", &blocks);
    assert_eq!((status, &problem["code"]), (413, &json!("too_large")));
    let (status, problem) = post(&served, "/v1/graphs/g/import?batches=true", &(edge("nobody") + &blocks));
    assert_eq!((status, &problem["line"]), (400, &json!(1)));
    assert_eq!(get(&served, "/v1/graphs"), whole(json!([])), "the check comes before the first commit");
    let (status, imported) = post(&served, "/v1/graphs/g/import?batches=true", &(edge("199") + &blocks));
    assert_eq!((status, &imported["blocks"], &imported["edges"]), (200, &json!(200), &json!(1)));
    assert!(imported["commits"].as_u64() > Some(2), "{imported}");
}

#[test]
fn an_import_that_exceeds_a_limit_is_refused_with_the_line_before_its_first_commit() {
    let served = Served::with(|builder| builder.commit_bytes_max(20_000));
    let block = |name: &str, more: &str| format!("{{\"block\": {{\"name\": \"{name}\", \"kind\": \"k\"{more}}}}}\n");
    let large = |bytes: usize| block("z", &format!(", \"content_text\": \"{}\"", "x".repeat(bytes)));
    let small: String = (0..100).map(|number| block(&number.to_string(), "")).collect();
    for query in ["", "?batches=true"] {
        let path = format!("/v1/graphs/g/import{query}");
        let problem = served.fails("POST", &path, &(small.clone() + &large(20_000)), 413, "too_large");
        assert_eq!((&problem["line"], &problem["most"]), (&json!(101), &json!(19_600)), "{problem}");
    }
    assert_eq!(get(&served, "/v1/graphs"), whole(json!([])));
    // Names and kinds count, too: these are as long as they may be.
    let named = |number: usize| block(&format!("{number:01024}"), "");
    let (status, imported) = post(&served, "/v1/graphs/g/import?batches=true", &(0..50).map(named).collect::<String>());
    assert_eq!((status, &imported["blocks"]), (200, &json!(50)), "{imported}");
    // A block that is put by its id keeps its name.
    let by_id = |block: Value| format!("{{\"block\": {{\"id\": {}, \"kind\": \"k\"}}}}\n", block["id"]);
    let list = get(&served, "/v1/graphs/g/blocks")["data"].clone();
    let again: String = list.as_array().expect("blocks").iter().cloned().map(by_id).collect();
    assert_eq!(post(&served, "/v1/graphs/g/import?batches=true", &again).0, 200);
    let (status, imported) = post(&served, "/v1/graphs/one/import", &large(19_000));
    assert_eq!((status, &imported["commits"]), (200, &json!(1)), "what fits into a commit is one: {imported}");

    let served = Served::new();
    let kind = |number: usize| format!("{{\"block\": {{\"name\": \"a\", \"kind\": \"{number}\"}}}}\n");
    let edge_type =
        |number: usize| format!("{{\"edge\": {{\"source\": \"a\", \"type\": \"{number}\", \"target\": \"a\"}}}}\n");
    let first = kind(0).repeat(100_000);
    for (limit, names) in [
        ("kinds_max", (0..=65_536).map(kind).collect::<String>()),
        ("edge_types_max", (0..=65_536).map(edge_type).collect()),
    ] {
        let problem =
            served.fails("POST", "/v1/graphs/g/import?batches=true", &(first.clone() + &names), 400, "over_limit");
        assert_eq!((&problem["line"], &problem["limit"]), (&json!(165_537), &json!(limit)), "{problem}");
    }
    assert_eq!(get(&served, "/v1/graphs"), whole(json!([])));
}

#[test]
fn lists_walks_and_paths_are_filtered_and_read_at_one_position() {
    let served = Served::new();
    post(&served, "/v1/graphs/g/import", LINES);
    let blocks = |query: &str| names(&get(&served, &format!("/v1/graphs/g/blocks?{query}"))["data"]);
    assert_eq!(blocks(""), ["a", "b", "ç", "-"]);
    assert_eq!(blocks("kind=function"), ["ç", "-"]);
    assert_eq!(blocks("tag=x&tag=y"), ["a"]);
    assert_eq!(blocks("source_prefix=src/"), ["a", "b"]);
    assert_eq!(blocks("metadata=size%3D4"), ["b"]);
    assert_eq!(blocks("kind=none"), [""; 0]);

    let page = get(&served, "/v1/graphs/g/blocks?limit=3");
    let delete = json!({ "parts": [{ "delete_block": { "graph": "g", "block": "b" } }] }).to_string();
    assert_eq!(post(&served, "/v1/commit", &delete).0, 200);
    let next = page["next_cursor"].as_str().expect("there is more");
    assert_eq!(names(&get(&served, &format!("/v1/graphs/g/blocks?cursor={next}"))["data"]), ["-"]);
    let before = page["position"].as_u64().expect("a position");
    assert_eq!(blocks(&format!("at={before}")), ["a", "b", "ç", "-"]);
    assert_eq!(blocks(""), ["a", "ç", "-"]);
    assert_eq!(get(&served, &format!("/v1/graphs/g/blocks/b?at={before}"))["content_base64"], "/wA=");
    assert_eq!(served.get("/v1/graphs/g/blocks/b").status, 404);
    assert_eq!(served.get(&format!("/v1/graphs/g/blocks?at={}", before + 9)).status, 404);

    let walk = |query: &str| get(&served, &format!("/v1/graphs/g/walk?start=a&depth=9&{query}"));
    assert_eq!(names(&walk("")["visits"]), ["a"]);
    let at = format!("at={before}");
    assert_eq!(names(&walk(&at)["visits"]), ["a", "b", "ç"]);
    assert_eq!(names(&walk(&format!("{at}&kind=function&order=depth"))["visits"]), ["a", "ç"]);
    assert_eq!(names(&walk(&format!("{at}&kind=function&through=false"))["visits"]), ["a"]);
    assert_eq!(walk(&format!("{at}&visited=2"))["bound"], "visited");
    let edges = walk(&format!("{at}&edges=true"))["edges"].as_array().expect("edges").len();
    assert_eq!(edges, 4);

    let paths = get(&served, &format!("/v1/graphs/g/paths?from=b&to=a&{at}"));
    assert_eq!(names(&paths["paths"][0]), ["b", "ç", "a"]);
    for all in [false, true] {
        let cut_off = get(&served, &format!("/v1/graphs/g/paths?from=b&to=a&all={all}&depth=1&{at}"));
        assert_eq!((&cut_off["paths"], &cut_off["bound"]), (&json!([]), &json!("depth")), "all={all}");
    }
    let order = get(&served, &format!("/v1/graphs/g/order?start=00000000000000000000000000000000&by=id&{at}"));
    assert_eq!(
        (names(&order["order"]), names(&order["cycles"][0])),
        (vec!["-".to_owned()], vec!["a".into(), "b".into(), "ç".into()])
    );
    assert_eq!(get(&served, "/v1/graphs/g/components?start=a")["components"].as_array().map(Vec::len), Some(1));

    let versions = get(&served, "/v1/graphs/g/blocks/b/versions");
    assert_eq!(
        (&versions["data"][0]["deleted"]["position"], &versions["data"][1]["put"]["version"]),
        (&json!(before + 1), &json!(1))
    );
    let changes = get(&served, "/v1/graphs/g/changes?limit=9");
    assert_eq!(changes["data"].as_array().map(Vec::len), Some(9));
    let next = changes["next"].as_str().expect("where to go on");
    let changes = get(&served, &format!("/v1/graphs/g/changes?after={next}&wait_ms=1000"));
    assert!(changes["data"][0]["block_deleted"]["id"].is_string(), "{changes}");
}

#[test]
fn an_order_and_components_are_bounded_and_a_filter_bears_on_where_they_go_or_is_refused() {
    let served = Served::new();
    let block = |number: usize| format!("{{\"block\": {{\"name\": \"{number}\", \"kind\": \"k{}\"}}}}\n", number % 2);
    let edge = |source: usize, target: usize| {
        format!("{{\"edge\": {{\"source\": \"{source}\", \"type\": \"t\", \"target\": \"{target}\"}}}}\n")
    };
    // A chain of 300, and behind it a circle of 200.
    let edges = (0..499).map(|number| edge(number, number + 1)).chain([edge(499, 300)]);
    let file: String = (0..500).map(block).chain(edges).collect();
    assert_eq!(post(&served, "/v1/graphs/g/import", &file).0, 200);
    let count = |sets: &Value| {
        sets.as_array().expect("a list").iter().map(|set| set.as_array().map_or(0, Vec::len)).sum::<usize>()
    };
    for (query, ordered, in_cycles, bound) in [
        ("", 100, 0, json!("limit")),
        ("&limit=300", 300, 0, json!("limit")),
        ("&limit=350", 300, 50, json!("limit")),
        ("&limit=500", 300, 200, json!(null)),
        ("&limit=500&depth=9", 10, 0, json!("depth")),
        ("&limit=10&depth=9", 10, 0, json!("depth")),
        ("&limit=9&depth=9", 9, 0, json!("limit")),
    ] {
        let found = get(&served, &format!("/v1/graphs/g/order?start=0{query}"));
        let counted = (names(&found["order"]).len(), count(&found["cycles"]), &found["bound"]);
        assert_eq!(counted, (ordered, in_cycles, &bound), "{query}");
        let found = get(&served, &format!("/v1/graphs/g/components?start=0{query}"));
        assert_eq!((count(&found["components"]), &found["bound"]), (ordered + in_cycles, &bound), "{query}");
    }
    for path in ["order?start=0", "components?start=0", "paths?from=0&to=1"] {
        for without_effect in ["kind=k0", "tag=t", "metadata=a%3Db", "order=depth", "edges=true"] {
            served.fails("GET", &format!("/v1/graphs/g/{path}&{without_effect}"), "", 400, "invalid");
        }
        served.fails("GET", &format!("/v1/graphs/g/{path}&limit=10001"), "", 400, "invalid");
        get(&served, &format!("/v1/graphs/g/{path}&kind=k0&through=false"));
    }
}

#[test]
fn changes_are_followed_from_history_to_new_ones_and_resumed() {
    let served = Served::new();
    post(&served, "/v1/graphs/g/import", LINES);
    let delete = json!({ "parts": [{ "delete_block": { "graph": "g", "block": "b" } }] }).to_string();
    let path = "/v1/graphs/g/subscribe";
    let found = subscribe(&served, path, "", 11, || assert_eq!(post(&served, "/v1/commit", &delete).0, 200));
    let names: Vec<&str> = found.iter().map(|[_, name, _]| name.as_str()).collect();
    assert_eq!(names, [&["change"; 9][..], &["caught_up", "change"]].concat());
    let deleted: Value = serde_json::from_str(&found[10][2]).expect("JSON");
    assert!(deleted["block_deleted"]["id"].is_string(), "{deleted}");
    let caught_up: Value = serde_json::from_str(&found[9][2]).expect("JSON");
    assert_eq!(caught_up["after"].as_str(), Some(found[8][0].as_str()), "it goes on behind the last change");
    for (query, header) in [
        (String::new(), format!("Last-Event-ID: {}\r\n", found[8][0])),
        (format!("?after={}", found[8][0]), String::new()),
    ] {
        let again = subscribe(&served, &format!("{path}{query}"), &header, 2, || ());
        assert_eq!((&again[0], again[1][1].as_str()), (&found[10], "caught_up"));
    }
    served.fails("GET", "/v1/graphs/nobody/subscribe", "", 404, "not_found");
    served.fails("GET", "/v1/graphs/g/subscribe?after=x", "", 400, "invalid");
}

#[test]
fn the_memory_of_graphs_is_reported_and_the_part_beyond_the_bound_is_mapped() {
    for (bound, mapped) in [(None, false), (Some(0), true)] {
        let served = Served::with(|builder| match bound {
            Some(bytes) => builder.graph_memory_bytes(bytes),
            None => builder,
        });
        post(&served, "/v1/graphs/g/import", LINES);
        let graph = get(&served, "/v1/graphs/g");
        let (memory, beyond) = (graph["memory_bytes"].as_u64(), graph["memory_mapped_bytes"].as_u64());
        assert!(memory > Some(4 * 56) && (beyond > Some(4 * 56)) == mapped && beyond <= memory, "{graph}");
        let metrics = served.get("/metrics").text;
        assert!(
            metrics.contains(&format!(
                "quire_graph_memory_bytes{{graph=\"g\",place=\"mapped\"}} {}",
                beyond.expect("a number")
            )),
            "{metrics}"
        );
    }
}

#[test]
fn neighbours_go_on_at_the_position_they_began_at_whatever_happens_meanwhile() {
    let served = Served::new();
    post(&served, "/v1/graphs/g/import", LINES);
    let edges = |types: &[&str]| -> Vec<Value> {
        let edge = |name: &&str| json!({ "put_edge": { "graph": "g", "source": "b", "type": name, "target": "a" } });
        types.iter().map(edge).collect()
    };
    let all = json!({ "parts": edges(&["with-dash-es", "ç/ö", "x"]) }).to_string();
    assert_eq!(post(&served, "/v1/commit", &all).0, 200);
    let path = "/v1/graphs/g/blocks/b/neighbours?direction=both&limit=2";
    let mut page = get(&served, path);
    let at = page["position"].clone();
    let mut found = Vec::new();
    loop {
        let neighbours = page["data"].as_array().expect("a list");
        found.extend(neighbours.iter().map(|it| format!("{} {}", it["end"], it["type"]).replace('"', "")));
        assert_eq!(page["position"], at, "all pages are of one position");
        // Changes between two pages have later positions.
        let delete = json!({ "parts": [
            { "delete_edge": { "graph": "g", "source": "b", "type": "x", "target": "a" } },
            { "put_edge": { "graph": "g", "source": "b", "type": "y", "target": "a" } },
        ] });
        assert_eq!(post(&served, "/v1/commit", &delete.to_string()).0, 200);
        let Some(next) = page["next_cursor"].as_str() else { break };
        let next = next.replace('ç', "%C3%A7").replace('ö', "%C3%B6");
        page = get(&served, &format!("{path}&cursor={next}"));
    }
    let outgoing = ["calls", "imports", "with-dash-es", "ç/ö", "x"].map(|name| format!("target {name}"));
    let incoming = ["calls", "imports"].map(|name| format!("source {name}"));
    assert_eq!(found, [&outgoing[..], &incoming[..]].concat());
    for wrong in
        ["7", "7-target", "x-target-00000000000000000000000000000000-x", "7-middle-00000000000000000000000000000000-x"]
    {
        served.fails("GET", &format!("{path}&cursor={wrong}"), "", 400, "invalid");
    }
    let elsewhere = format!("{path}&at=1&cursor={at}-target-00000000000000000000000000000000-x");
    served.fails("GET", &elsewhere, "", 400, "invalid");
}

#[test]
fn edges_are_counted_by_direction_and_type_and_read_with_their_properties_now_and_as_they_were() {
    let served = Served::new();
    post(&served, "/v1/graphs/g/import", LINES);
    let zeros = "00000000000000000000000000000000";
    let degree = |query: &str| {
        let found = get(&served, &format!("/v1/graphs/g/blocks/{query}"));
        (found["outgoing"].as_u64().expect("a number"), found["incoming"].as_u64().expect("a number"))
    };
    assert_eq!(degree("b/degree"), (2, 2), "one to itself counts in both directions");
    assert_eq!(degree("b/degree?type=calls"), (1, 1));
    assert_eq!(degree("b/degree?type=calls&type=imports"), (2, 2));
    assert_eq!(degree("b/degree?type=never"), (0, 0));
    assert_eq!(degree(&format!("{zeros}/degree?by=id")), (1, 0));
    assert_eq!(degree("nobody/degree"), (0, 0));
    let edge = get(&served, "/v1/graphs/g/edges?source=a&type=calls&target=b");
    assert_eq!((&edge["properties"], edge["position"].as_u64()), (&json!({ "line": 3 }), Some(1)));
    let by_id = |end: &str| edge[end].as_str().expect("an id").to_owned();
    let path = format!("/v1/graphs/g/edges?source={}&type=calls&target={}&by=id", by_id("source"), by_id("target"));
    assert_eq!(get(&served, &path), edge);

    let parts = json!({ "parts": [
        { "put_edge": { "graph": "g", "source": "a", "type": "calls", "target": "b", "properties": { "line": 4 } } },
        { "delete_edge": { "graph": "g", "source": "b", "type": "imports", "target": "b" } },
    ] });
    assert_eq!(post(&served, "/v1/commit", &parts.to_string()).0, 200);
    assert_eq!((degree("b/degree"), degree("b/degree?at=1")), ((1, 1), (2, 2)));
    let line = |at: &str| {
        get(&served, &format!("/v1/graphs/g/edges?source=a&type=calls&target=b{at}"))["properties"]["line"].clone()
    };
    assert_eq!((line(""), line("&at=1")), (json!(4), json!(3)));
    served.fails("GET", "/v1/graphs/g/edges?source=b&type=imports&target=b", "", 404, "not_found");
    served.fails("GET", "/v1/graphs/g/edges?source=b&type=imports", "", 400, "invalid");
    served.fails("GET", "/v1/graphs/nobody/edges?source=b&type=imports&target=b", "", 404, "not_found");
    served.fails("GET", "/v1/graphs/nobody/blocks/a/degree", "", 404, "not_found");
}

#[test]
fn the_edges_of_a_block_are_deleted_in_parts() {
    let served = Served::new();
    post(&served, "/v1/graphs/g/import", LINES);
    let edge = |name: &str| json!({ "put_edge": { "graph": "g", "source": "b", "type": name, "target": "b" } });
    let edges = ["x", "y", "z"].map(edge);
    let parts = json!({ "parts": edges }).to_string();
    assert_eq!(post(&served, "/v1/commit", &parts).0, 200);
    let edges = get(&served, "/v1/graphs/g")["edges"].as_u64().expect("a number");
    let part = |count_max: u32| {
        json!({ "parts": [{ "delete_edges": { "graph": "g", "block": "b", "count_max": count_max } }] }).to_string()
    };
    let (status, done) = post(&served, "/v1/commit", &part(2));
    assert_eq!((status, &done["replies"][0]), (200, &json!({ "edges_deleted": { "edges": 2, "more": true } })));
    assert_eq!(get(&served, "/v1/graphs/g")["edges"], edges - 2);
    let (status, done) = post(&served, "/v1/commit", &part(100_000));
    assert_eq!((status, &done["replies"][0]["edges_deleted"]["more"]), (200, &json!(false)));
    assert_eq!(get(&served, "/v1/graphs/g/blocks/b/neighbours?direction=both")["data"], json!([]));
    served.fails("POST", "/v1/commit", &part(100_001), 400, "over_limit");
}

#[test]
fn a_block_with_too_many_edges_is_named_as_it_was_given() {
    let served = Served::new();
    let edge = |number: u32| format!(r#"{{"edge":{{"source":"hub","type":"ray","target":"{number}"}}}}"#);
    let lines = [r#"{"block":{"name":"hub","kind":"k"}}"#.to_owned()].into_iter().chain((0..=100_000).map(edge));
    let file = lines.collect::<Vec<_>>().join("\n");
    assert_eq!(post(&served, "/v1/graphs/g/import?batches=true&allow_missing=true", &file).0, 200);
    let delete = |block: Value| json!({ "parts": [{ "delete_block": { "graph": "g", "block": block } }] }).to_string();
    let by_name = served.fails("POST", "/v1/commit", &delete(json!("hub")), 409, "too_many_edges");
    assert_eq!((&by_name["name"], &by_name["given"]), (&json!("hub"), &json!(100_001)));
    assert!(by_name["detail"].as_str().expect("text").contains("\"hub\""), "{by_name}");
    let by_id = served.fails("POST", "/v1/commit", &delete(json!({ "id": by_name["block"] })), 409, "too_many_edges");
    assert_eq!((&by_id["name"], &by_id["block"]), (&Value::Null, &by_name["block"]));
}

#[test]
fn many_blocks_are_got_at_once_or_asked_whether_they_are_there() {
    let served = Served::new();
    post(&served, "/v1/graphs/g/import", LINES);
    let at = get(&served, "/v1/graphs/g")["position"].clone();
    let delete = json!({ "parts": [{ "delete_block": { "graph": "g", "block": "b" } }] }).to_string();
    assert_eq!(post(&served, "/v1/commit", &delete).0, 200);
    let zeros = "00000000000000000000000000000000";
    for (at, is_there) in [(at, true), (json!(null), false)] {
        let asked = json!({ "blocks": ["a", "nobody", { "id": zeros }, "b", "a"], "at": at }).to_string();
        let (status, got) = post(&served, "/v1/graphs/g/get", &asked);
        assert_eq!(status, 200, "{got}");
        let blocks = got["blocks"].as_array().expect("a list");
        assert_eq!((&blocks[0]["name"], &blocks[1], &blocks[2]["id"]), (&json!("a"), &json!(null), &json!(zeros)));
        assert_eq!((blocks[3]["content_base64"] == "/wA=", &blocks[4]), (is_there, &blocks[0]));
        let (status, told) = post(&served, "/v1/graphs/g/exists", &asked);
        assert_eq!((status, &told["exists"]), (200, &json!([true, false, true, is_there, true])));
    }
    let many = json!({ "blocks": vec!["a"; 1_001] }).to_string();
    for path in ["/v1/graphs/g/get", "/v1/graphs/g/exists"] {
        served.fails("POST", path, &many, 400, "invalid");
        served.fails("POST", &path.replace("/g/", "/nobody/"), r#"{"blocks": []}"#, 404, "not_found");
        served.fails("POST", path, r#"{"blocks": [], "at": 99}"#, 404, "not_found");
    }
    let large = json!({ "parts": [{ "put_block": {
        "graph": "g", "block": "large", "kind": "file", "content_text": "x".repeat(1 << 19)
    } }] });
    assert_eq!(post(&served, "/v1/commit", &large.to_string()).0, 200);
    let blocks = |count: usize| json!({ "blocks": vec!["large"; count] }).to_string();
    assert_eq!(post(&served, "/v1/graphs/g/get", &blocks(128)).0, 200);
    served.fails("POST", "/v1/graphs/g/get", &blocks(129), 413, "too_large");
    assert_eq!(post(&served, "/v1/graphs/g/exists", &blocks(129)).0, 200);
}

#[test]
fn the_position_of_a_commit_that_changed_nothing_is_one_that_can_be_read_at() {
    let served = Served::new();
    let nothing = |served: &Served| {
        let part = json!({ "delete_block": { "graph": "g", "block": "nobody" } });
        let (status, done) = post(served, "/v1/commit", &json!({ "parts": [part] }).to_string());
        assert_eq!((status, &done["replies"][0]["block_deleted"]["version"]), (200, &json!(0)));
        done["position"].as_u64().expect("a position")
    };
    assert_eq!(nothing(&served), 0);
    post(&served, "/v1/graphs/g/import", LINES);
    let at = nothing(&served);
    assert_eq!(at, 1);
    assert_eq!(get(&served, &format!("/v1/graphs/g/blocks/a?at={at}"))["name"], "a");
}

#[test]
fn every_read_of_a_trimmed_history_is_refused() {
    let served = Served::new();
    post(&served, "/v1/graphs/g/import", LINES);
    let commit = |part: Value| post(&served, "/v1/commit", &json!({ "parts": [part] }).to_string()).1;
    let put = json!({ "put_block": { "graph": "g", "block": "a", "kind": "file" } });
    let at = commit(put)["position"].as_u64().expect("a position");
    let told = get(&served, "/v1/graphs/g");
    assert_eq!((&told["history_ms"], &told["versions"], &told["history_from"]), (&json!(null), &json!(1), &json!(0)));
    let retain = json!({ "retain_graph": { "graph": "g", "history_ms": 86_400_000, "versions": 2 } });
    assert_eq!(commit(retain)["replies"][0], json!({ "retention_set": {} }));
    let trim = |from: u64| json!({ "parts": [{ "trim_graph": { "graph": "g", "from": from } }] }).to_string();
    let (_, trimmed) = post(&served, "/v1/commit", &trim(at));
    assert_eq!(trimmed["replies"][0], json!({ "history_trimmed": { "from": at } }));
    let problem = served.fails("POST", "/v1/commit", &trim(at + 9), 409, "ahead_of_log");
    assert_eq!(problem["from"], at + 9);
    let told = get(&served, "/v1/graphs/g");
    let expected = (&json!(86_400_000), &json!(2), &json!(at));
    assert_eq!((&told["history_ms"], &told["versions"], &told["history_from"]), expected);
    let before = at - 1;
    for path in ["blocks/a?", "blocks?", "blocks/a/neighbours?", "walk?start=a&", "paths?from=a&to=b&", "export?"] {
        let problem = served.fails("GET", &format!("/v1/graphs/g/{path}at={before}"), "", 410, "gone");
        let expected = format!("the graph can't be read as of {before}: its history before {at} is gone");
        assert_eq!(problem["detail"], expected);
        assert_eq!(served.get(&format!("/v1/graphs/g/{path}at={at}")).status, 200, "{path}");
    }
    let asked = json!({ "blocks": ["a"], "at": before }).to_string();
    served.fails("POST", "/v1/graphs/g/get", &asked, 410, "gone");
    for feed in ["changes", "subscribe"] {
        let problem = served.fails("GET", &format!("/v1/graphs/g/{feed}?after=0-1"), "", 410, "gone");
        let message = problem["detail"].as_str().expect("text");
        assert!(message.ends_with(&format!("after {}-0", at + 1)), "the place is told as `after` takes it: {problem}");
        let ahead = format!("/v1/graphs/g/{feed}?after={}-0", at + 99);
        served.fails("GET", &ahead, "", 404, "not_found");
    }
    let kept = get(&served, "/v1/graphs/g/changes");
    let kept: Vec<_> = kept["data"].as_array().expect("a list").iter().map(|change| &change["position"]).collect();
    assert_eq!(kept, [&json!(at)], "without `after` it begins where the history does");
    assert_eq!(get(&served, &format!("/v1/graphs/g/changes?after={}-0", at + 1))["data"], json!([]));
    let versions = get(&served, "/v1/graphs/g/blocks/a/versions");
    assert_eq!(versions["data"].as_array().map(Vec::len), Some(2), "two are kept, however old");
}
