//! Quotas: who has which, and that a client waits.

use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::*;
use quire::Operation;
use quire::ResourceKind::Topic;

use crate::permissions::{allow, connected, enabled, limiting, user};
use crate::support::{Client, World, batch, fetching, text};

const INVALID_REQUEST: i16 = 42;

/// An administrator, and `ann`, who may read and write the topic `t`.
async fn clients(world: &World) -> (Client, Client) {
    let key = user(&world.database, "admin", &["admin"], &[]);
    let admin = connected(world, "admin", &key).await;
    let key = user(&world.database, "ann", &[], &[allow((Topic, "t", Operation::All))]);
    (admin, connected(world, "ann", &key).await)
}

/// The quotas that a filter selects: entities, and keys with values.
async fn described(admin: &mut Client, components: Vec<ComponentData>, is_strict: bool) -> Vec<String> {
    let request = DescribeClientQuotasRequest::default().with_components(components).with_strict(is_strict);
    let response = admin.call(1, &request).await;
    assert_eq!(response.error_code, 0);
    let entries = response.entries.expect("entries").into_iter().map(|entry| {
        let entity = entry.entity.iter().map(|part| {
            format!("{} {}", part.entity_type.as_str(), part.entity_name.as_deref().unwrap_or("<default>"))
        });
        let values = entry.values.iter().map(|value| format!("{}={}", value.key.as_str(), value.value));
        entity.chain(values).collect::<Vec<_>>().join(", ")
    });
    entries.collect()
}

fn component(of: &str, match_type: i8, name: Option<&str>) -> ComponentData {
    ComponentData::default().with_entity_type(text(of)).with_match_type(match_type).with_match(name.map(text))
}

#[tokio::test]
async fn quotas_are_set_listed_and_removed() {
    let world = enabled().await;
    let (mut admin, _) = clients(&world).await;
    let mut request = limiting("ann", "producer_byte_rate", Some(1_024.0));
    request.entries.extend(limiting("ann", "consumer_byte_rate", Some(2_048.0)).entries);
    let mut default = limiting("", "request_percentage", Some(50.0));
    default.entries[0].entity[0].entity_name = None;
    request.entries.extend(default.entries.clone());
    let mut pair = limiting("ann", "producer_byte_rate", Some(1.0));
    let client = pair.entries[0].entity[0].clone().with_entity_type(text("client-id"));
    pair.entries[0].entity.push(client.with_entity_name(Some(text("app"))));
    request.entries.extend(pair.entries);
    let only = request.clone().with_validate_only(true);
    assert!(admin.call(1, &only).await.entries.iter().all(|entry| entry.error_code == 0));
    assert_eq!(described(&mut admin, Vec::new(), false).await, [""; 0], "a validation changes nothing");
    assert!(admin.call(1, &request).await.entries.iter().all(|entry| entry.error_code == 0));
    let of_all = "user <default>, request_percentage=50";
    let of_ann = "user ann, producer_byte_rate=1024, consumer_byte_rate=2048";
    let of_pair = "user ann, client-id app, producer_byte_rate=1";
    assert_eq!(described(&mut admin, Vec::new(), false).await, [of_all, of_ann, of_pair]);
    assert_eq!(described(&mut admin, vec![component("user", 0, Some("ann"))], false).await, [of_ann, of_pair]);
    assert_eq!(described(&mut admin, vec![component("user", 0, Some("ann"))], true).await, [of_ann]);
    assert_eq!(described(&mut admin, vec![component("user", 1, None)], false).await, [of_all]);
    assert_eq!(described(&mut admin, vec![component("client-id", 2, None)], false).await, [of_pair]);
    assert_eq!(admin.call(1, &limiting("ann", "producer_byte_rate", None)).await.entries[0].error_code, 0);
    let left = "user ann, consumer_byte_rate=2048";
    assert_eq!(described(&mut admin, vec![component("user", 0, Some("ann"))], true).await, [left]);
    for (key, value) in
        [("controller_mutation_rate", 1.0), ("producer_byte_rate", 0.0), ("consumer_byte_rate", f64::NAN)]
    {
        let refused = admin.call(1, &limiting("ann", key, Some(value))).await.entries.remove(0);
        assert_eq!(refused.error_code, INVALID_REQUEST, "{key} {value}");
    }
}

#[tokio::test]
async fn a_client_beyond_its_quota_is_answered_and_then_waits() {
    let world = enabled().await;
    let (mut admin, mut ann) = clients(&world).await;
    let produced = ann.call(9, &crate::support::producing("t", 0, &batch(&["a"]))).await;
    assert_eq!(produced.throttle_time_ms, 0);
    // The waits are as long as they get, so that no test sees their end.
    let few = Some(1e-3);
    assert_eq!(admin.call(1, &limiting("ann", "producer_byte_rate", few)).await.entries[0].error_code, 0);
    let produced = ann.call(9, &crate::support::producing("t", 0, &batch(&["b"]))).await;
    assert_eq!(produced.responses[0].partition_responses[0].error_code, 0, "it is committed");
    assert_eq!(produced.throttle_time_ms, 30_000);
    ann.send(12, &fetching("t", 0)).await;
    assert_eq!(admin.call(12, &fetching("t", 0)).await.throttle_time_ms, 0, "others do not wait");

    assert_eq!(admin.call(1, &limiting("ann", "producer_byte_rate", None)).await.entries[0].error_code, 0);
    assert_eq!(admin.call(1, &limiting("admin", "consumer_byte_rate", few)).await.entries[0].error_code, 0);
    let before = world.counters.statistics().requests;
    let fetched = admin.call(12, &fetching("t", 0)).await;
    assert_eq!((fetched.error_code, fetched.throttle_time_ms), (0, 30_000));
    assert!(!fetched.responses[0].partitions[0].records.as_ref().expect("records").is_empty());
    assert_eq!(world.counters.statistics().requests, before + 1, "the request of ann is not read");
}
