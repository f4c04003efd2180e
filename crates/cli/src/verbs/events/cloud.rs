//! Events as CloudEvents 1.0 in JSON (CNCF specification, "JSON Event Format for CloudEvents").
//!
//! Tags and metadata are extension attributes, which are strings: `tags` holds a JSON array.
//! `sequence` (the extension of that name) is the position, and marks an event that Quire wrote.
//! Other attributes that an event has no field for go into its metadata, in the object
//! `cloudevent`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::calendar;
use crate::verbs::exact;

/// Converts an event of a store, as the server shows it.
pub(super) fn from_event(event: &Value, store: &str) -> Value {
    let mut cloud = Map::new();
    cloud.insert("specversion".into(), json!("1.0"));
    cloud.insert("id".into(), event["id"].clone());
    cloud.insert("source".into(), json!(store));
    cloud.insert("type".into(), event["type"].clone());
    if let Some(time_ms) = event["time_ms"].as_i64() {
        cloud.insert("time".into(), json!(calendar::rfc3339(time_ms)));
    }
    cloud.insert("sequence".into(), json!(event["position"].to_string()));
    cloud.insert("tags".into(), json!(event["tags"].to_string()));
    for (name, value) in event.as_object().into_iter().flatten() {
        match (name.as_str(), value) {
            (_, Value::Null) => {}
            ("data", value) => {
                cloud.insert("datacontenttype".into(), json!("application/json"));
                // On one line, byte for byte.
                match exact::text(value) {
                    text if text.contains(['\n', '\r']) => {
                        cloud.insert("data_base64".into(), json!(STANDARD.encode(text)));
                    }
                    _ => drop(cloud.insert("data".into(), value.clone())),
                }
            }
            ("data_text", value) => {
                cloud.insert("datacontenttype".into(), json!("text/plain"));
                cloud.insert("data".into(), value.clone());
            }
            ("data_base64", value) => {
                cloud.insert("data_base64".into(), value.clone());
            }
            ("metadata", value) => {
                cloud.insert("metadata".into(), json!(exact::text(value)));
            }
            ("metadata_text", value) => {
                cloud.insert("metadatatext".into(), value.clone());
            }
            ("metadata_base64", value) => {
                cloud.insert("metadatabase64".into(), value.clone());
            }
            _ => {}
        }
    }
    Value::Object(cloud)
}

/// Whether a line of a file is a CloudEvent.
pub(super) fn is_cloud_event(line: &Value) -> bool {
    line.get("specversion").is_some()
}

/// The attributes that an event has a field for.
const PLACED: [&str; 10] = [
    "specversion",
    "type",
    "tags",
    "metadata",
    "metadatatext",
    "metadatabase64",
    "data",
    "data_base64",
    "datacontenttype",
    "sequence",
];

/// Converts a CloudEvent to an event to append. An id that is not a UUID becomes one.
///
/// # Errors
/// The problem, as a sentence.
pub(super) fn to_event(cloud: &Value) -> Result<Value, String> {
    let mut event = Map::new();
    match &cloud["specversion"] {
        Value::String(version) if version == "1.0" => {}
        other => return Err(format!("its specversion is {other}: only \"1.0\" is known")),
    }
    let given = cloud["id"].as_str().ok_or("it has no id")?;
    let id = Uuid::try_parse(given).ok();
    event.insert("type".into(), json!(cloud["type"].as_str().ok_or("it has no type")?));
    event.insert("id".into(), json!(id.unwrap_or_else(|| derived(&cloud["source"], given)).to_string()));
    let parsed = |name: &str| match &cloud[name] {
        Value::Null => Ok(None),
        text => {
            let wrapped = format!("{{\"{name}\":{}}}", exact::said(text));
            let parsed = exact::parse(&wrapped).map_err(|error| format!("its {name} are not JSON: {error}"))?;
            Ok::<_, String>(Some(parsed[name].clone()))
        }
    };
    event.insert("tags".into(), parsed("tags")?.unwrap_or_else(|| json!([])));
    if let Some(metadata) = parsed("metadata")? {
        event.insert("metadata".into(), metadata);
    }
    for (from, to) in
        [("metadatatext", "metadata_text"), ("metadatabase64", "metadata_base64"), ("data_base64", "data_base64")]
    {
        if let Some(value) = cloud.get(from) {
            event.insert(to.into(), value.clone());
        }
    }
    let content_type = cloud["datacontenttype"].as_str();
    let is_json = content_type.is_none_or(is_json);
    // A CloudEvent that Quire wrote lacks only position and time, which the append assigns.
    if id.is_none() || cloud.get("sequence").is_none() {
        let is_told = |name: &str| name == "datacontenttype" && !is_json && content_type != Some("text/plain");
        let kept = |name: &str| !PLACED.contains(&name) || is_told(name);
        let attributes = cloud.as_object().into_iter().flatten();
        let attributes = attributes.filter(|(name, value)| kept(name) && !value.is_null());
        // An id that is a UUID is the event's own id.
        let attributes = attributes.filter(|(name, _)| id.is_none() || *name != "id");
        keep(&mut event, &attributes.map(|(name, value)| (name.clone(), value.clone())).collect())?;
    }
    // By the format, a string with a media type other than JSON is plain text.
    match &cloud["data"] {
        Value::Null => {}
        text if !is_json && exact::text(text).starts_with('"') => {
            event.insert("data_text".into(), json!(exact::said(text)));
        }
        data => drop(event.insert("data".into(), data.clone())),
    }
    Ok(Value::Object(event))
}

/// Whether a media type is JSON. By the format, its subtype is `json` or ends with `+json`.
fn is_json(content_type: &str) -> bool {
    let subtype = content_type.split(';').next().unwrap_or_default().trim();
    subtype.split_once('/').is_some_and(|(_, subtype)| {
        subtype.eq_ignore_ascii_case("json") || subtype.to_ascii_lowercase().ends_with("+json")
    })
}

/// Derives the id of an event whose id is not a UUID. It is a UUID of version 5 (RFC 9562) of
/// source and id, which together are unique among CloudEvents.
fn derived(source: &Value, id: &str) -> Uuid {
    let source = Uuid::new_v5(&Uuid::NAMESPACE_URL, source.as_str().unwrap_or_default().as_bytes());
    Uuid::new_v5(&source, id.as_bytes())
}

/// Keeps attributes that an event has no field for in its metadata, under `cloudevent`.
fn keep(event: &mut Map<String, Value>, attributes: &Map<String, Value>) -> Result<(), String> {
    if attributes.is_empty() {
        return Ok(());
    }
    let has_other = ["metadata_text", "metadata_base64"].iter().any(|name| event.contains_key(*name));
    let metadata = event.get("metadata").map_or_else(|| "{}".to_owned(), exact::text);
    let fields: Map<String, Value> = serde_json::from_str(&metadata).unwrap_or_default();
    let rest = metadata.trim_start().strip_prefix('{').filter(|_| !has_other);
    let Some(rest) = rest else {
        let names: Vec<&str> = attributes.keys().map(String::as_str).collect();
        return Err(format!("its metadata must be a JSON object to hold {}", names.join(", ")));
    };
    // As text, which keeps the bytes.
    let comma = if fields.is_empty() { "" } else { "," };
    let kept = exact::text(&Value::Object(attributes.clone()));
    let both = format!(r#"{{"metadata":{{"cloudevent":{kept}{comma}{rest}}}"#);
    let both = exact::parse(&both).map_err(|error| format!("its metadata are not JSON: {error}"))?;
    event.insert("metadata".into(), both["metadata"].clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_not_a_uuid_is_converted_to_one_and_kept() {
        let cloud = |id: &str, source: &str| json!({ "specversion": "1.0", "id": id, "source": source, "type": "T" });
        let event = to_event(&cloud("order-7", "/shop")).expect("sound");
        let kept = r#"{"cloudevent":{"id":"order-7","source":"/shop"}}"#;
        assert_eq!(exact::text(&event["metadata"]), kept);
        assert_eq!(event["id"], to_event(&cloud("order-7", "/shop")).expect("sound")["id"], "the same each time");
        assert_ne!(event["id"], to_event(&cloud("order-7", "/other")).expect("sound")["id"]);
        assert_ne!(event["id"], to_event(&cloud("order-8", "/shop")).expect("sound")["id"]);
        let mut with = cloud("order-7", "/shop");
        with["metadata"] = json!("{\"user\": 1.10}");
        let both = r#"{"cloudevent":{"id":"order-7","source":"/shop"},"user": 1.10}"#;
        assert_eq!(exact::text(&to_event(&with).expect("sound")["metadata"]), both);
        with["metadata"] = json!("[1]");
        to_event(&with).expect_err("there is no place for the id");
    }

    #[test]
    fn attributes_without_a_field_are_kept_in_the_metadata() {
        let id = "a0b1c2d3-e4f5-8000-8000-000000000001";
        let cloud = json!({ "specversion": "1.0", "id": id, "source": "/shop", "type": "T", "subject": "order 7", "time": "2026-01-01T00:00:00Z",
            "traceparent": "00-1", "datacontenttype": "application/xml", "data": "<a/>" });
        let event = to_event(&cloud).expect("sound");
        let kept = r#"{"cloudevent":{"datacontenttype":"application/xml","source":"/shop","subject":"order 7","time":"2026-01-01T00:00:00Z","traceparent":"00-1"}}"#;
        assert_eq!(exact::text(&event["metadata"]), kept);
        assert_eq!((&event["id"], &event["data_text"]), (&json!(id), &json!("<a/>")));
        let json = json!({ "specversion": "1.0", "id": id, "type": "T", "datacontenttype": "application/cloud+json; charset=utf-8", "data": "a" });
        assert_eq!(to_event(&json).expect("sound")["data"], "a");
    }

    #[test]
    fn data_on_several_lines_comes_back_to_the_byte() {
        let line = "{\"data\":{\"a\":\r\n1}}";
        let mut event = exact::parse(line).expect("JSON");
        let fields = json!({ "position": 7, "id": "a0b1c2d3-e4f5-8000-8000-000000000001", "type": "T", "tags": [], "time_ms": 0 });
        event.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        let cloud = from_event(&event, "s");
        assert!(!exact::text(&cloud).contains(['\n', '\r']), "{cloud}");
        assert_eq!(to_event(&cloud).expect("sound")["data_base64"], STANDARD.encode("{\"a\":\r\n1}"));
    }

    #[test]
    fn an_event_survives_the_round_trip_through_a_cloud_event() {
        for shown in [
            json!({ "data": { "a": 1 }, "metadata": { "user": "u" } }),
            json!({ "data_text": "no JSON", "metadata": null }),
            json!({ "data": "JSON", "metadata_text": "m" }),
            json!({ "data_base64": "/wA=", "metadata_base64": "AA==" }),
            json!({ "data": null }),
        ] {
            let mut event = json!({ "position": 7, "id": "a0b1c2d3-e4f5-8000-8000-000000000001", "type": "T", "tags": ["x:1", "y"],
                "time_ms": 0 });
            event.as_object_mut().expect("an object").extend(shown.as_object().expect("an object").clone());
            let cloud = from_event(&event, "s");
            assert!(is_cloud_event(&cloud));
            assert_eq!((&cloud["sequence"], &cloud["time"]), (&json!("7"), &json!("1970-01-01T00:00:00.000Z")));
            let mut back = to_event(&cloud).expect("sound");
            back["position"] = json!(7);
            back["time_ms"] = json!(0);
            let fields = event.as_object_mut().expect("an object");
            fields.retain(|_, value| !value.is_null());
            assert_eq!(exact::text(&back), exact::text(&event));
        }
    }

    #[test]
    fn an_invalid_event_is_an_error() {
        assert_eq!(to_event(&json!({ "specversion": "1.0", "type": "T" })), Err("it has no id".to_owned()));
        assert_eq!(to_event(&json!({ "specversion": "1.0", "id": "i" })), Err("it has no type".to_owned()));
        to_event(&json!({ "specversion": "0.3", "id": "i", "type": "T" })).expect_err("another version");
    }
}
