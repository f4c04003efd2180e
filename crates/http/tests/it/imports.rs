//! Graph imports that ask for more than their bytes, and imports whose client leaves.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use serde_json::json;

use crate::graphs::{get, post};
use crate::served::{Served, whole};

const IMPORT: &str = "/v1/graphs/g/import?format=graphml&batches=true";

/// Each of these cost seconds to minutes of a processor, or gigabytes of log.
#[test]
fn a_graphml_file_that_asks_for_more_than_its_bytes_is_refused() {
    let served = Served::new();
    let repeated = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<String>();
    let nodes = |count: usize| repeated(count, &|number| format!("<node id='{number}'/>"));
    let graph = |before: &str, items: &str| format!("<graphml>{before}<graph>{items}</graph></graphml>");
    let long = "x".repeat(1 << 20);
    let many_keys = repeated(3000, &|number| {
        format!("<key id='k{number}' for='all' attr.name='n{number}'><default>d</default></key>")
    });
    let many_data =
        "<node id='a'>".to_owned() + &repeated(300_000, &|number| format!("<data key='{number}'/>")) + "</node>";
    for (file, status, part) in [
        (format!("<graphml{}/>", repeated(200_000, &|number| format!(" a{number}=''"))), 400, "64 attributes"),
        (
            graph("", &format!("<node id='a'{}/>", repeated(40_000, &|number| format!(" a{number}=''")))),
            400,
            "64 attributes",
        ),
        (graph(&many_keys, &nodes(3000)), 400, "256 keys"),
        (graph(&format!("<key id='k' for='node'><default>{long}</default></key>"), &nodes(2000)), 413, "256 MiB"),
        (
            graph(
                &format!("<key id='k' for='node' attr.name='{long}'/>"),
                &repeated(2000, &|number| format!("<node id='{number}'><data key='k'/></node>")),
            ),
            413,
            "256 MiB",
        ),
        ("<graphml>".to_owned() + &"<graph>".repeat(500_000), 400, "256 deep"),
        (format!("<!DOCTYPE g [<!ENTITY a '{}'>]>{}", "b".repeat(1000), graph("", "&a;")), 400, "document type"),
    ] {
        let code = if status == 413 { "too_large" } else { "invalid" };
        let problem = served.fails("POST", IMPORT, &file, status, code);
        let message = problem["detail"].as_str().expect("a message");
        assert!(message.contains(part) && message.starts_with("line 1: "), "{part}: {message}");
    }
    assert_eq!(get(&served, "/v1/graphs"), whole(json!([])));
    // Many data of one node are read in the time that their bytes explain.
    let (status, imported) = post(&served, IMPORT, &graph("", &many_data));
    assert_eq!((status, &imported["blocks"]), (413, &json!(null)), "one block has too much metadata: {imported}");
}

/// Sends an import of `count` blocks in small commits. Does not wait for the response.
fn importing(served: &Served, count: usize, query: &str) -> TcpStream {
    let file: String =
        (0..count).map(|number| format!("{{\"block\": {{\"name\": \"{number}\", \"kind\": \"k\"}}}}\n")).collect();
    let mut stream = TcpStream::connect(served.address).expect("it listens");
    let head = format!(
        "POST /v1/graphs/g/import?batches=true{query} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-ndjson\r\n\
         Content-Length: {}\r\n\r\n",
        served.address,
        file.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(file.as_bytes())).expect("taken");
    stream
}

#[test]
fn an_import_ends_when_its_client_leaves_and_the_next_one_waits_for_that() {
    const BLOCKS: usize = 60_000;
    for query in ["", "&progress=true"] {
        let served = Served::with(|builder| builder.commit_bytes_max(4_000));
        let mut stream = importing(&served, BLOCKS, query);
        let has_begun = || get(&served, "/v1/graphs")["data"].as_array().is_some_and(|graphs| !graphs.is_empty());
        if query.is_empty() {
            while !has_begun() {}
        } else {
            let mut lines = BufReader::new(&mut stream).lines();
            let committed = |line: &str| line.contains("\"imported\":") && !line.contains("\"imported\":0,");
            while !committed(&lines.next().expect("a line").expect("read")) {}
        }
        // The close is a reset: the client reads no more.
        set_socket_linger(&stream, Some(Duration::ZERO)).expect("set");
        drop(stream);
        let (status, imported) =
            post(&served, "/v1/graphs/h/import", "{\"block\": {\"name\": \"a\", \"kind\": \"k\"}}");
        assert_eq!((status, &imported["blocks"]), (200, &json!(1)));
        let graphs = get(&served, "/v1/graphs")["data"].clone();
        let blocks =
            graphs.as_array().expect("a list").iter().find(|graph| graph["graph"] == "g").expect("begun")["blocks"]
                .as_u64()
                .expect("a count");
        assert!(blocks > 0 && (blocks as usize) < BLOCKS, "{query}: {blocks} of {BLOCKS} blocks were imported");
    }
}
