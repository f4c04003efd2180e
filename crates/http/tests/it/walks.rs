//! Graph queries of a client: filters, walks, orders and components, and lists with limits.

use serde_json::{Value, json};

use crate::graphs::{get, names, post};
use crate::served::Served;

/// A server with a graph `g` of these blocks, each of the kind behind its colon, and edges of type
/// `t`.
fn with(blocks: &[&str], edges: &[(&str, &str)]) -> Served {
    let served = Served::new();
    let block = |given: &&str| {
        let (name, kind) = given.split_once(':').expect("a name and a kind");
        json!({ "put_block": { "graph": "g", "block": name, "kind": kind } })
    };
    let edge = |(source, target): &(&str, &str)| json!({ "put_edge": { "graph": "g", "source": source, "type": "t", "target": target, "allow_missing": true } });
    let parts: Vec<Value> = blocks.iter().map(block).chain(edges.iter().map(edge)).collect();
    let (status, answer) = post(&served, "/v1/commit", &json!({ "parts": parts }).to_string());
    assert_eq!(status, 200, "{answer}");
    served
}

#[test]
fn a_filter_compares_numbers_by_their_value_and_strings_by_their_text() {
    let metadata = r#"{"price":1e2,"id":12345678901234567890123,"o":{"v":1.10,"w":[0]},"s":"1","n":1,"a=b":true}"#;
    let served = Served::new();
    let put = json!({ "put_block": { "graph": "g", "block": "a", "kind": "k", "metadata_text": metadata } });
    assert_eq!(post(&served, "/v1/commit", &json!({ "parts": [put] }).to_string()).0, 200);
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    for (filter, is_found) in [
        ("price=1e2", true),
        ("price=100", true),
        ("price=100.0", true),
        ("price=101", false),
        ("id=12345678901234567890123", true),
        ("id=12345678901234567890124", false),
        ("id=1.2345678901234568e+22", false),
        (r#"o={"v":1.10,"w":[0]}"#, true),
        (r#"o={ "w": [0.0], "v": 1.1 }"#, true),
        (r#"o={"v":1.1}"#, false),
        ("/o/v=11e-1", true),
        ("s=1", true),
        ("s=1.0", false),
        ("n=1", true),
        ("/a~2b=true", true),
        ("/a~2b=false", false),
    ] {
        let found = names(&get(&served, &format!("/v1/graphs/g/blocks?metadata={}", encoded(filter)))["data"]);
        assert_eq!(found.len(), usize::from(is_found), "{filter}");
    }
    for no_pointer in ["/~3=1", "/a/~=1"] {
        let path = format!("/v1/graphs/g/blocks?metadata={}", encoded(no_pointer));
        served.fails("GET", &path, "", 400, "invalid");
    }
}

#[test]
fn a_way_through_matches_only_may_begin_and_end_at_what_does_not_match() {
    let served = with(&["a:x", "m:x", "b:y", "c:x"], &[("a", "m"), ("m", "b"), ("b", "c")]);
    let ways = |query: &str| {
        let found = get(&served, &format!("/v1/graphs/g/paths?{query}&kind=x&through=false"));
        found["paths"].as_array().expect("a list").iter().map(names).collect::<Vec<_>>()
    };
    for all in [false, true] {
        assert_eq!(ways(&format!("from=a&to=b&all={all}")), [["a", "m", "b"]]);
        assert_eq!(ways(&format!("from=b&to=a&direction=incoming&all={all}")), [["b", "m", "a"]]);
        assert_eq!(ways(&format!("from=a&to=c&all={all}")), [[""; 0]; 0], "none goes on from what does not match");
    }
}

#[test]
fn an_order_names_what_is_behind_a_cycle_and_on_none() {
    let served =
        with(&["s:k", "a:k", "b:k", "x:k", "y:k"], &[("s", "a"), ("a", "b"), ("b", "a"), ("b", "x"), ("x", "y")]);
    let order = |query: &str| {
        let found = get(&served, &format!("/v1/graphs/g/order?start=s{query}"));
        let cycles: Vec<_> = found["cycles"].as_array().expect("a list").iter().map(names).collect();
        (names(&found["order"]), cycles, names(&found["behind"]), found["bound"].clone())
    };
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let (first, cycles) = (owned(&["s"]), vec![owned(&["a", "b"])]);
    assert_eq!(order(""), (first.clone(), cycles.clone(), owned(&["x", "y"]), json!(null)));
    assert_eq!(order("&limit=4"), (first, cycles, owned(&["x"]), json!("limit")));
}

#[test]
fn the_edges_of_a_walk_are_those_between_the_blocks_that_it_gives() {
    let served = with(&["a:x", "m:y", "b:x"], &[("a", "m"), ("m", "b"), ("a", "b"), ("b", "b")]);
    let ends = |query: &str| {
        let walk = get(&served, &format!("/v1/graphs/g/walk?start=a&depth=9&edges=true{query}"));
        let edges = walk["edges"].as_array().expect("a list").clone();
        let given = |end: &Value| walk["visits"].as_array().expect("a list").iter().any(|visit| &visit["id"] == end);
        assert!(edges.iter().all(|edge| given(&edge["source"]) && given(&edge["target"])), "{walk}");
        edges.len()
    };
    assert_eq!(ends(""), 4);
    assert_eq!(ends("&kind=x"), 2);
}

#[test]
fn pages_of_missing_blocks_give_what_one_page_gives_whatever_is_put_and_deleted_meanwhile() {
    let (there, gone): (Vec<String>, Vec<String>) = (0..25).map(|n| (format!("{n}:k"), format!("gone {n}"))).unzip();
    let edges: Vec<_> = gone.iter().map(|target| ("0", target.as_str())).collect();
    let served = with(&there.iter().map(String::as_str).collect::<Vec<_>>(), &edges);
    let commit = |part: Value| {
        let (status, answer) = post(&served, "/v1/commit", &json!({ "parts": [part] }).to_string());
        assert_eq!(status, 200, "{answer}");
    };
    let ids = |page: &Value| -> Vec<String> {
        let blocks = page["data"].as_array().expect("a list");
        assert!(blocks.iter().all(|block| block["incoming"] == 1 && block["outgoing"] == 0), "{page}");
        blocks.iter().map(|block| block["id"].as_str().expect("an id").to_owned()).collect()
    };
    let all = get(&served, "/v1/graphs/g/missing?limit=25");
    assert_eq!((ids(&all).len(), &all["next_cursor"]), (25, &Value::Null));
    for limit in [1, 10, 24] {
        let (mut found, mut pages, mut after) = (Vec::new(), 0, String::new());
        loop {
            let page = get(&served, &format!("/v1/graphs/g/missing?limit={limit}{after}"));
            found.extend(ids(&page));
            pages += 1;
            let Some(next) = page["next_cursor"].as_str() else { break };
            after = format!("&cursor={next}");
            let other = format!("{pages} beside {limit}");
            commit(json!({ "put_block": { "graph": "g", "block": other, "kind": "k" } }));
            commit(json!({ "delete_block": { "graph": "g", "block": pages.to_string() } }));
        }
        assert_eq!((&found, pages), (&ids(&all), 25_usize.div_ceil(limit)), "pages of {limit}");
    }
    served.fails("GET", "/v1/graphs/g/missing?cursor=x", "", 400, "invalid");
    assert_eq!(ids(&get(&served, "/v1/graphs/g/missing?cursor=4000000000")), Vec::<String>::new());
}

#[test]
fn pages_of_versions_and_changes_say_whether_there_is_more() {
    let served = with(&["a:k"], &[]);
    let put = json!({ "parts": [{ "put_block": { "graph": "g", "block": "a", "kind": "k" } }] }).to_string();
    let positions: Vec<Value> = (0..2).map(|_| post(&served, "/v1/commit", &put).1["position"].clone()).collect();
    let versions = |query: &str| get(&served, &format!("/v1/graphs/g/blocks/a/versions?{query}"));
    let page = versions("limit=2");
    assert_eq!(
        (page["data"].as_array().map(Vec::len), &page["next_cursor"]),
        (Some(2), &json!(positions[0].to_string()))
    );
    let page = versions(&format!("limit=2&cursor={}", page["next_cursor"].as_str().expect("more")));
    assert_eq!((page["data"].as_array().map(Vec::len), &page["next_cursor"]), (Some(1), &json!(null)));
    assert_eq!(versions("limit=3")["next_cursor"], json!(null));

    let changes = |query: &str| get(&served, &format!("/v1/graphs/g/changes?{query}"));
    let page = changes("limit=2");
    assert_eq!((page["data"].as_array().map(Vec::len), &page["has_more"]), (Some(2), &json!(true)));
    let page = changes(&format!("limit=2&cursor={}", page["next_cursor"].as_str().expect("where to go on")));
    assert_eq!((page["data"].as_array().map(Vec::len), &page["has_more"]), (Some(1), &json!(false)));
    assert_eq!(changes("limit=3")["has_more"], json!(false));
}

#[test]
fn changes_from_the_first_on_are_refused_when_they_are_gone() {
    let served = with(&["a:k"], &[]);
    let put = json!({ "parts": [{ "put_block": { "graph": "g", "block": "a", "kind": "k" } }] }).to_string();
    let at = post(&served, "/v1/commit", &put).1["position"].clone();
    for feed in ["changes", "subscribe"] {
        if feed == "changes" {
            assert_eq!(get(&served, "/v1/graphs/g/changes?after=0-0")["data"].as_array().map(Vec::len), Some(2));
            let trim = json!({ "parts": [{ "trim_graph": { "graph": "g", "from": at } }] }).to_string();
            assert_eq!(post(&served, "/v1/commit", &trim).0, 200);
        }
        served.fails("GET", &format!("/v1/graphs/g/{feed}?after=0-0"), "", 410, "gone");
    }
}

#[test]
fn a_block_given_by_its_id_has_no_other_field() {
    let served = Served::new();
    let block = json!({ "id": "00000000000000000000000000000000", "nam": "x" });
    let put = json!({ "parts": [{ "put_block": { "graph": "g", "block": block, "kind": "k" } }] }).to_string();
    served.fails("POST", "/v1/commit", &put, 400, "invalid");
    served.fails("POST", "/v1/graphs/g/get", &json!({ "blocks": [block] }).to_string(), 400, "invalid");
}
