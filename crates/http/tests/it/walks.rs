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
fn an_order_names_the_blocks_after_a_cycle_that_are_on_none() {
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
fn the_edges_of_a_walk_join_the_blocks_that_it_returns() {
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
fn pages_of_versions_and_changes_show_whether_more_follow() {
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
fn changes_from_the_first_are_refused_when_they_are_trimmed() {
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

#[test]
fn paths_come_shortest_first_and_lead_through_missing_blocks_unless_they_are_left_out() {
    // Depth first, the longest path would come first.
    let served = with(
        &["a:k", "b:k", "c:k", "d:k"],
        &[("a", "b"), ("b", "c"), ("c", "d"), ("a", "c"), ("a", "gone"), ("gone", "d")],
    );
    let lengths = |query: &str| {
        let found = get(&served, &format!("/v1/graphs/g/paths?from=a&{query}"));
        let paths = found["paths"].as_array().expect("a list").iter();
        (paths.map(|path| path.as_array().map_or(0, Vec::len) - 1).collect::<Vec<_>>(), found["bound"].clone())
    };
    assert_eq!(lengths("to=d&all=true"), (vec![2, 2, 3], json!(null)));
    assert_eq!(lengths("to=d&all=true&limit=2"), (vec![2, 2], json!("limit")));
    assert_eq!(lengths("to=d&all=true&missing=false"), (vec![2, 3], json!(null)));
    assert_eq!(lengths("to=d"), (vec![2], json!(null)));
    assert_eq!(lengths("to=gone"), (vec![1], json!(null)), "an edge names it");
    served.fails("GET", "/v1/graphs/g/paths?from=a&to=d&missing=perhaps", "", 400, "invalid");

    let visits = |query: &str| get(&served, &format!("/v1/graphs/g/walk?start=a&depth=9&count=true{query}"));
    assert_eq!(visits("")["count"], 5);
    assert_eq!(visits("&missing=false")["count"], 4);
    let parts = |query: &str| get(&served, &format!("/v1/graphs/g/components?start=a{query}"))["components"].clone();
    assert_eq!(parts("").as_array().map(Vec::len), Some(5));
    assert_eq!(parts("&missing=false").as_array().map(Vec::len), Some(4));
}

#[test]
fn a_read_at_an_unknown_block_is_refused_with_its_facts() {
    let served = with(&["a:k", "b:k"], &[("a", "b"), ("a", "gone")]);
    let (id, gone) = (quire::graph::BlockId::of_name("nowhere"), quire::graph::BlockId::of_name("gone"));
    for path in [
        "paths?from=a&to=nowhere",
        "paths?from=a&to=nowhere&all=true",
        "paths?from=nowhere&to=a",
        "walk?start=nowhere",
        "order?start=a&start=nowhere",
        "components?start=nowhere",
        "blocks/nowhere",
    ] {
        let problem = served.fails("GET", &format!("/v1/graphs/g/{path}"), "", 404, "not_found");
        let message = format!("unknown block \"nowhere\" ({id}) in graph \"g\" at position 1");
        let facts = ["detail", "graph", "block", "name", "position"].map(|fact| problem[fact].clone());
        let expected = [json!(message), json!("g"), json!(id.to_string()), json!("nowhere"), json!(1)];
        assert_eq!(facts, expected, "{path}");
    }
    let problem = served.fails("GET", &format!("/v1/graphs/g/paths?from={gone}&to={id}&by=id"), "", 404, "not_found");
    assert_eq!((&problem["block"], &problem["name"]), (&json!(gone.to_string()), &Value::Null), "a start must exist");
    served.fails("GET", "/v1/graphs/g/paths?from=a&to=gone&missing=false", "", 404, "not_found");
}

#[test]
fn numbers_are_returned_instead_of_lists() {
    let served = with(&["a:x", "b:y", "c:x"], &[("a", "b"), ("b", "c"), ("a", "c"), ("a", "a")]);
    assert_eq!(
        get(&served, "/v1/graphs/g/blocks?count=true"),
        json!({ "position": 1, "count": 3, "next_cursor": null })
    );
    assert_eq!(get(&served, "/v1/graphs/g/blocks?count=true&kind=x")["count"], 2);
    let neighbours = |query: &str| get(&served, &format!("/v1/graphs/g/blocks/a/neighbours?count=true{query}"));
    assert_eq!(neighbours(""), json!({ "position": 1, "count": 3 }));
    assert_eq!(neighbours("&direction=both")["count"], 4, "a loop counts in both directions");
    assert_eq!(neighbours("&type=none")["count"], 0);
    let walk = |query: &str| get(&served, &format!("/v1/graphs/g/walk?start=a&count=true{query}"));
    assert_eq!(walk("&edges=true"), json!({ "count": 3, "edges": 4, "bound": null, "position": 1 }));
    assert_eq!(walk("&kind=y"), json!({ "count": 2, "bound": null, "position": 1 }), "the start counts");
    assert_eq!(walk("&visited=2")["bound"], "visited");
    for path in ["blocks?", "blocks/a/neighbours?", "walk?start=a&"] {
        served.fails("GET", &format!("/v1/graphs/g/{path}count=true&limit=9"), "", 400, "invalid");
    }
    let page = get(&served, "/v1/graphs/g/blocks/a/neighbours?limit=1");
    let cursor = page["next_cursor"].as_str().expect("a page");
    served.fails("GET", &format!("/v1/graphs/g/blocks/a/neighbours?count=true&cursor={cursor}"), "", 400, "invalid");

    // More blocks than a list returns.
    let block = |number: usize| json!({ "put_block": { "graph": "many", "block": number.to_string(), "kind": "k" } });
    let edge = |number: usize| json!({ "put_edge": { "graph": "many", "source": "0", "type": "t", "target": number.to_string() } });
    for first in (0..12_000).step_by(4_000) {
        let parts: Vec<Value> = (first..first + 4_000).map(block).chain((first..first + 4_000).map(edge)).collect();
        assert_eq!(post(&served, "/v1/commit", &json!({ "parts": parts }).to_string()).0, 200);
    }
    assert_eq!(get(&served, "/v1/graphs/many/walk?start=0&count=true")["count"], 12_000);
    assert_eq!(get(&served, "/v1/graphs/many/blocks?count=true")["count"], 12_000);
}

#[test]
fn orders_and_components_are_of_a_whole_graph_or_from_many_blocks() {
    let served = with(
        &["a:k", "b:k", "c:k", "alone:k", "other:x"],
        &[("a", "b"), ("b", "a"), ("b", "c"), ("other", "gone"), ("other", "c")],
    );
    let sets = |answer: &Value, list: &str| -> Vec<Vec<String>> {
        answer[list].as_array().expect("a list").iter().map(names).collect()
    };
    let whole = r#"{"whole": true}"#;
    let (status, parted) = post(&served, "/v1/graphs/g/components", whole);
    assert_eq!((status, &parted["bound"], parted["position"].as_u64()), (200, &json!(null), Some(1)));
    assert_eq!(sets(&parted, "components"), [vec!["a", "b"], vec!["c"], vec!["alone"], vec!["other"], vec!["-"]]);
    let (_, ordered) = post(&served, "/v1/graphs/g/order", whole);
    assert_eq!(
        (names(&ordered["order"]), sets(&ordered, "cycles")),
        (vec!["alone".into(), "other".into(), "-".into()], vec![vec!["a".into(), "b".into()]])
    );
    assert_eq!(names(&ordered["behind"]), ["c"]);
    let of = |query: &str| sets(&post(&served, &format!("/v1/graphs/g/components?{query}"), whole).1, "components");
    assert_eq!(of("missing=false").len(), 4);
    assert_eq!(of("kind=x&through=false"), [["other"]]);
    let bounded = post(&served, "/v1/graphs/g/components?visited=2", whole).1;
    assert_eq!(
        (sets(&bounded, "components"), &bounded["bound"]),
        (vec![vec!["a".to_owned(), "b".to_owned()]], &json!("visited"))
    );

    let id = quire::graph::BlockId::of_name("alone").to_string();
    let some = json!({ "starts": ["b", { "id": id }] }).to_string();
    let (_, parted) = post(&served, "/v1/graphs/g/components", &some);
    assert_eq!(sets(&parted, "components"), [vec!["b", "a"], vec!["alone"], vec!["c"]]);
    let from_query = get(&served, "/v1/graphs/g/components?start=b&start=alone");
    assert_eq!(sets(&from_query, "components"), sets(&parted, "components"));
    // More names than fit into an address.
    let starts: Vec<String> = (0..20_000).map(|_| "alone".to_owned()).collect();
    assert_eq!(post(&served, "/v1/graphs/g/order", &json!({ "starts": starts }).to_string()).0, 200);

    let too_many = json!({ "starts": vec!["a"; 100_001] }).to_string();
    for body in ["{}", r#"{"whole": false}"#, r#"{"whole": true, "starts": ["a"]}"#, r#"{"all": true}"#, &too_many] {
        served.fails("POST", "/v1/graphs/g/order", body, 400, "invalid");
        served.fails("POST", "/v1/graphs/g/components", body, 400, "invalid");
    }
    for query in ["start=a", "by=id", "kind=x", "limit=0"] {
        served.fails("POST", &format!("/v1/graphs/g/order?{query}"), whole, 400, "invalid");
    }
    let problem = served.fails("POST", "/v1/graphs/g/order", r#"{"starts": ["nowhere"]}"#, 404, "not_found");
    assert_eq!(problem["name"], "nowhere");
    served.fails("POST", "/v1/graphs/none/order", whole, 404, "not_found");
}
