//! The checks of the DCB specification's conformance suite, from several processes over HTTP, with
//! servers that are killed and restarted.
//!
//! Two servers share one database, and writers use either one. A killer repeatedly ends one of them
//! by SIGKILL and restarts it. A writer without a response sends its request again with the event's
//! id, and so learns whether its event was appended. In the end, no event may lie between an event
//! and the state that its writer saw.
//!
//! The number of appends bounds each test. `QUIRE_CHECK_ROUNDS=100` makes the tests a hundred times
//! as long.

mod servers;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};

use servers::{Answered, Servers};

/// The factor on the usual length.
fn rounds() -> u64 {
    std::env::var("QUIRE_CHECK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// Numbers from a seed (SplitMix64, Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// At most `count_max` different names with these numbers.
    fn some(&mut self, name: &str, at_most: u64, of: u64) -> Vec<String> {
        let mut names: Vec<String> =
            (0..self.below(at_most + 1)).map(|_| format!("{name}{}", self.below(of))).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn id(&mut self) -> String {
        format!("{:016x}{:016x}", self.next(), self.next())
    }

    /// A query of 0 to 3 items. No item means every event.
    fn items(&mut self) -> Value {
        let items: Vec<Value> = (0..self.below(4))
            .map(|_| json!({ "types": self.some("Type", 4, 10), "tags": self.some("tag", 3, 10) }))
            .collect();
        if items.is_empty() { json!([{}]) } else { Value::from(items) }
    }
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether an event matches one of the items.
fn is_match(items: &Value, event: &Value) -> bool {
    let (event_type, tags) = (event["type"].as_str().expect("a type"), names(&event["tags"]));
    items.as_array().expect("items").iter().any(|item| {
        let types = names(&item["types"]);
        (types.is_empty() || types.contains(&event_type)) && names(&item["tags"]).iter().all(|tag| tags.contains(tag))
    })
}

/// Every event of the store, in order.
fn everything(servers: &Servers) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    loop {
        let after = events.last().map_or(0, |last| last["position"].as_u64().expect("a position"));
        let page = servers.get(0, &format!("/v1/events/checked?limit=1000&after={after}"));
        events.extend(page["data"].as_array().expect("events").iter().cloned());
        if page["has_more"] == false {
            return events;
        }
    }
}

fn nothing_comes_between(with_kills: bool) {
    const WRITERS: u64 = 8;
    let appends = 12 * rounds();
    let servers = Servers::start(2);
    let (left, kills) = (AtomicU64::new(WRITERS), AtomicU64::new(0));
    let made = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (servers, left, made) = (&servers, &left, &made);
            scope.spawn(move || {
                let mut random = Random(writer);
                let mut own = 0;
                while own < appends {
                    let server = random.below(2) as usize;
                    let items = random.items();
                    let read = json!({ "query": { "items": items }, "backwards": true, "limit": 1 });
                    let read = servers.until_answered(server, "POST", "/v1/events/checked/read", &read);
                    let seen = read["data"][0]["position"].as_u64().unwrap_or_default();
                    let event = json!({ "id": random.id(), "type": format!("Type{}", random.below(10)),
                        "tags": random.some("tag", 3, 10), "data": { "items": items, "seen": seen } });
                    let condition = json!({ "fail_if_events_match": { "items": items }, "after": seen });
                    let append = json!({ "events": [event], "conditions": [condition] });
                    let is_appended = servers.append(server, &append);
                    own += u64::from(is_appended);
                    made.fetch_add(u64::from(is_appended), Ordering::Relaxed);
                }
                left.fetch_sub(1, Ordering::Release);
            });
        }
        if with_kills {
            let (mut random, mut last) = (Random(99), 0);
            // A kill for every few appends.
            while left.load(Ordering::Acquire) > 0 {
                let now = made.load(Ordering::Relaxed);
                if now >= last + 10 {
                    last = now;
                    servers.kill_and_start(random.below(2) as usize);
                    kills.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::yield_now();
            }
        }
    });
    assert!(!with_kills || kills.load(Ordering::Relaxed) > 0);
    let events = everything(&servers);
    assert_eq!(events.len() as u64, WRITERS * appends, "each that was acknowledged is there once, and no other");
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["position"], index as u64 + 1);
        let (items, seen) = (&event["data"]["items"], event["data"]["seen"].as_u64().expect("a position"));
        let last = events[..index].iter().rev().find(|before| is_match(items, before));
        let last = last.map_or(0, |last| last["position"].as_u64().expect("a position"));
        assert_eq!(last, seen, "what event {} rests on", index + 1);
    }
}

#[test]
fn no_matching_event_precedes_a_conditional_append_of_two_processes_over_http() {
    nothing_comes_between(false);
}

#[test]
fn no_matching_event_precedes_a_conditional_append_while_servers_are_killed() {
    nothing_comes_between(true);
}

#[test]
fn no_event_appears_in_the_past_from_two_processes_over_http() {
    const WRITERS: usize = 5;
    let appends = 40 * rounds();
    let servers = Servers::start(2);
    let is_over = AtomicBool::new(false);
    // The writers wait for the reader, so that it finds them running.
    let begun = Barrier::new(WRITERS + 1);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last_head = 0;
            begun.wait();
            for server in (0..2).cycle() {
                let is_last = is_over.load(Ordering::Acquire);
                let page = servers.get(server, "/v1/events/checked?backwards=true&limit=6");
                let head = page["head"].as_u64().expect("a head");
                let events = page["data"].as_array().expect("events");
                let positions: Vec<u64> = events.iter().filter_map(|event| event["position"].as_u64()).collect();
                assert_eq!(positions, (1..=head).rev().take(6).collect::<Vec<_>>(), "no gap before the head");
                assert!(head >= last_head, "{head} after {last_head}");
                last_head = head;
                if is_last {
                    break;
                }
            }
            last_head
        });
        let write = |writer: usize| {
            let (servers, begun) = (&servers, &begun);
            scope.spawn(move || {
                begun.wait();
                for _ in 0..appends {
                    let append = json!({ "events": [{ "type": "Written", "tags": [format!("writer{writer}")] }] });
                    assert!(servers.append(writer % 2, &append));
                }
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        writers.into_iter().for_each(|writer| writer.join().expect("it writes"));
        is_over.store(true, Ordering::Release);
        assert_eq!(reader.join().expect("it reads"), WRITERS as u64 * appends);
    });
    assert_eq!(everything(&servers).len() as u64, WRITERS as u64 * appends);
}

#[test]
fn clients_with_different_names_are_not_refused_from_two_processes_over_http() {
    let servers = Servers::start(2);
    std::thread::scope(|scope| {
        for writer in 0..20 {
            let servers = &servers;
            scope.spawn(move || {
                let items = json!([{ "tags": [format!("writer{writer}")] }]);
                let mut seen = 0;
                for _ in 0..6 * rounds() {
                    let event = json!({ "type": "Written", "tags": [format!("writer{writer}")] });
                    let condition = json!({ "fail_if_events_match": { "items": items }, "after": seen });
                    let append = json!({ "events": [event], "conditions": [condition] });
                    match servers.ask(writer % 2, "POST", "/v1/events/checked/append", &append) {
                        Answered::Ok(appended) => seen = appended["last"].as_u64().expect("a position"),
                        other => panic!("{other:?}: nobody else writes what it asks"),
                    }
                }
            });
        }
    });
}

/// 100 names, 10 racers each: exactly 100 accepted.
#[test]
fn one_of_ten_clients_gets_a_claimed_name_from_two_processes_over_http() {
    const NAMES: usize = 100;
    let servers = Servers::start(2);
    let accepted: u64 = std::thread::scope(|scope| {
        let race = |racer: usize| {
            let servers = &servers;
            scope.spawn(move || {
                let claim = |name: usize| {
                    let tag = format!("username:{name}");
                    let condition = json!({ "fail_if_events_match": { "items": [{ "tags": [tag] }] } });
                    let append =
                        json!({ "events": [{ "type": "Registered", "tags": [tag] }], "conditions": [condition] });
                    u64::from(servers.append(racer % 2, &append))
                };
                (0..NAMES).map(claim).sum::<u64>()
            })
        };
        let racers: Vec<_> = (0..10).map(race).collect();
        racers.into_iter().map(|racer| racer.join().expect("no panic")).sum()
    });
    assert_eq!(accepted, NAMES as u64);
    assert_eq!(everything(&servers).len(), NAMES);
}
