//! The typed reads: each answer of a server has its type.

use quire_client::reply::VersionReply;
use quire_client::request::{
    Ack, AppendPart, CommitRequest, ConditionRequest, Enqueue, FetchRequest, ItemRequest, NewEventRequest,
    PutBlockPart, PutEdgePart, QueryRequest, SubscriptionRequest,
};
use quire_client::{Client, Code};

use crate::support::served;

/// Puts the blocks a, b and c, the edges a to b, b to c, and c to the missing block d.
fn put_graph(client: &Client) {
    let put = |name: &'static str| PutBlockPart::new("g", name, "kind").content(name);
    let edge = |from: &'static str, to: &'static str| PutEdgePart::new("g", from, "next", to);
    let commit = CommitRequest::of(put("a")).and(put("b")).and(put("c")).and(edge("a", "b")).and(edge("b", "c"));
    client.commit(&commit.and(edge("c", "d").allow_missing())).expect("committed");
    client.commit(&CommitRequest::of(PutBlockPart::new("g", "a", "kind").content("a2"))).expect("committed");
}

#[test]
fn reads_of_a_graph_have_their_types() {
    served(|client| {
        put_graph(client);
        let names: Vec<_> = client.graphs().map(|graph| graph.expect("a graph").graph).collect();
        assert_eq!(names, ["g"]);
        let graph = client.graph("g").expect("the graph");
        assert_eq!((graph.graph.blocks, graph.graph.edges, graph.versions), (3, 3, 1));
        let blocks = client.blocks("g", &["b", "x"]).expect("blocks");
        assert_eq!(blocks[0].as_ref().map(|block| block.content.bytes()), Some(&b"b"[..]));
        assert!(blocks[1].is_none());
        assert_eq!(client.block_count("g", &[("kind", "kind")]).expect("a count").count, 3);
        let versions: Vec<_> = client.versions("g", "a").map(|version| version.expect("a version")).collect();
        let [VersionReply::Put { block: newest, .. }, VersionReply::Put { block: first, .. }] = &*versions else {
            panic!("{versions:?}")
        };
        assert_eq!((newest.content.bytes(), first.content.bytes()), (&b"a2"[..], &b"a"[..]));
        let degree = client.degree("g", "b", &[]).expect("a degree");
        assert_eq!((degree.outgoing, degree.incoming), (1, 1));
        let missing: Vec<_> = client.missing_blocks("g").map(|block| block.expect("a block").incoming).collect();
        assert_eq!(missing, [1]);
        let walk = client.walk("g", "a", &[("depth", "1")]).expect("a walk");
        let names: Vec<_> = walk.visits.iter().map(|visit| visit.name.as_deref()).collect();
        assert_eq!((names, walk.bound.as_deref()), (vec![Some("a"), Some("b")], Some("depth")));
        assert_eq!(client.walk_count("g", "a", &[("depth", "9"), ("missing", "false")]).expect("a count").count, 3);
        let paths = client.paths("g", "a", "c", &[]).expect("paths");
        assert_eq!(paths.paths[0].last().and_then(|visit| visit.name.as_deref()), Some("c"));
        let order = client.order("g", &[]).expect("an order");
        let names: Vec<_> = order.order.iter().filter_map(|block| block.name.as_deref()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(client.components("g", &[]).expect("components").components.len() >= 3);
        let lines = concat!(r#"{"block": {"name": "e", "kind": "kind"}}"#, "\n");
        assert_eq!(client.import_json_lines("imported", lines).expect("imported").blocks, 1);
    });
}

#[test]
fn a_subscription_is_created_read_fetched_and_deleted() {
    served(|client| {
        let append =
            |id: &str| CommitRequest::of(AppendPart::new("orders").event(NewEventRequest::new("Placed", "17").tag(id)));
        client.commit(&append("order:1")).expect("committed");
        let query = QueryRequest::of(ItemRequest::any().event_type("Placed"));
        let request = SubscriptionRequest::default().query(query).attempts_max(3);
        let put = client.put_subscription("orders", "billing", &request).expect("created");
        assert_eq!((&*put.query.items[0].types[0], put.attempts_max), ("Placed", 3));
        let fetch = FetchRequest { wait_ms: 10_000, ..FetchRequest::default() };
        let delivered = client.fetch_deliveries("orders", "billing", &fetch).expect("a delivery");
        let [delivery] = &*delivered else { panic!("{delivered:?}") };
        let event = delivery.event.as_ref().expect("the event");
        assert_eq!((event.data.bytes(), &*event.event_type), (&b"17"[..], "Placed"));
        let (job, token) = (delivery.job.job.parse().expect("an id"), delivery.job.token.parse().expect("a token"));
        client.commit(&CommitRequest::of(Ack::new(job, token))).expect("acknowledged");
        let read = client.subscription("orders", "billing").expect("the subscription");
        assert_eq!((read.position, read.queue.map(|queue| queue.counts["completed"])), (1, Some(1)));
        assert_eq!(client.subscriptions("orders").count(), 1);
        client.delete_subscription("orders", "billing").expect("deleted");
        let error = client.subscription("orders", "billing").expect_err("no subscription");
        assert_eq!(error.code(), Some(Code::NotFound));
    });
}

#[test]
fn the_whole_database_is_read_and_compacted() {
    served(|client| {
        put_graph(client);
        let stats = client.stats().expect("statistics");
        assert_eq!((stats.graphs[0].blocks, stats.commits, stats.failing.len()), (3, 2, 0));
        assert!(stats.limits.iter().any(|limit| limit.limit == "graphs_max" && limit.count == 1));
        let health = client.health().expect("it works");
        assert_eq!((&*health.status, health.version.as_deref()), ("ok", Some(env!("CARGO_PKG_VERSION"))));
        let compacted = client.compact().expect("compacted");
        assert!(compacted.bytes_after <= compacted.bytes_before, "{compacted:?}");
    });
}

/// A commit that is refused from the second time on.
fn register() -> CommitRequest<'static> {
    let taken = QueryRequest::of(ItemRequest::any().tag("username:ada"));
    let event = NewEventRequest::new("Registered", "").tag("username:ada");
    let append = AppendPart::new("accounts").event(event).condition(ConditionRequest::fail_if_events_match(taken));
    CommitRequest::of(Enqueue::new("mails", "welcome")).and(append)
}

#[test]
fn a_dry_run_commits_nothing_and_refusals_and_samples_are_read() {
    served(|client| {
        let tried = client.dry_run(&register()).expect("nothing refuses it");
        assert!(tried.dry_run && tried.entries.iter().any(|entry| entry.kind == "event_appended"), "{tried:?}");
        assert_eq!(client.stats().expect("statistics").commits, 0);
        let done = client.commit(&register()).expect("committed");
        assert_eq!((tried.position, tried.replies.len()), (done.position, done.replies.len()));

        let of_dry_run = client.dry_run(&register()).expect_err("the name is taken");
        let of_commit = client.commit(&register()).expect_err("the name is taken");
        assert_eq!(of_dry_run.code(), Some(Code::ConditionFailed));
        assert_eq!((of_dry_run.facts(), of_dry_run.to_string()), (of_commit.facts(), of_commit.to_string()));
        let refusals: Vec<_> = client.refusals().map(|refused| refused.expect("a refusal")).collect();
        let [refused] = &*refusals else { panic!("the dry run is not among them: {refusals:?}") };
        assert_eq!((refused.number, &*refused.problem.code), (1, "condition_failed"));
        assert_eq!(refused.problem.facts["part"], 1);
        assert_eq!(refused.resources[0].name.as_deref(), Some("accounts"));
        assert_eq!(client.history(0).expect("samples").interval_ms, 10_000);
    });
}

#[test]
fn a_local_client_reads_at_its_position_and_commits_by_the_leader() {
    served(|client| {
        assert_eq!(client.shown_position(), None);
        let local = client.local();
        let done = local.commit(&register()).expect("committed");
        assert_eq!(local.shown_position(), Some(0));
        assert_eq!(local.stats().expect("statistics").commits, 1);
        assert_eq!(local.shown_position(), Some(done.position));
        let at = client.local_at(done.position);
        assert_eq!(at.stats().expect("statistics").position, done.position);
        let ahead = client.local_at(done.position + 1).stats().expect_err("not there yet");
        assert_eq!(ahead.code(), Some(Code::AheadOfLog));
        let refused = local.subscribe::<serde_json::Value>(&["events", "accounts"], &[]).next();
        assert_eq!(refused.expect("an item").expect_err("it continues").code(), Some(Code::Invalid));
    });
}
