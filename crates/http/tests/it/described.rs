//! Requests and responses against the description in `docs/openapi.json`: every one of these tests
//! that a request of [`Served`] reaches.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::served::{Answer, Served};

static DESCRIPTION: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../../docs/openapi.json")).expect("it is JSON"));

/// The validators by the pointer to their schema.
static VALIDATORS: LazyLock<Mutex<HashMap<String, &'static Validator>>> = LazyLock::new(Mutex::default);

/// Whether a path is that of a template: the number of its literal segments.
fn literals(template: &str, path: &str) -> Option<usize> {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    let agrees = |(template, segment): (&&str, &&str)| template == segment || template.starts_with('{');
    let agree = template.len() == path.len() && template.iter().zip(&path).all(agrees);
    agree.then(|| template.iter().filter(|segment| !segment.starts_with('{')).count())
}

/// The operation of a request, and the pointer to it.
pub(crate) fn operation(method: &str, path: &str) -> Option<(&'static Value, String)> {
    let path = path.split('?').next().unwrap_or_default();
    let paths = DESCRIPTION["paths"].as_object().expect("it has paths");
    let method = method.to_ascii_lowercase();
    let templates = paths.keys().filter(|template| paths[*template].get(&method).is_some());
    let template = templates.max_by_key(|template| literals(template, path))?;
    literals(template, path)?;
    let pointer = format!("/paths/{}/{method}", template.replace('/', "~1"));
    Some((&paths[template][&method], pointer))
}

/// Checks a value against the schema at this pointer.
#[track_caller]
fn validate(pointer: &str, value: &Value, context: &str) {
    let validator = *VALIDATORS.lock().expect("no panic holds it").entry(pointer.to_owned()).or_insert_with(|| {
        let schema = DESCRIPTION.pointer(pointer).unwrap_or_else(|| panic!("no schema at {pointer}"));
        let schema = json!({"allOf": [schema], "components": DESCRIPTION["components"]});
        Box::leak(Box::new(jsonschema::draft202012::new(&schema).unwrap_or_else(|error| panic!("{pointer}: {error}"))))
    });
    if let Some(error) = validator.iter_errors(value).next() {
        panic!("{context}: {error} at {}: {value}", error.instance_path());
    }
}

/// Checks an accepted request and every response against the description.
#[track_caller]
pub(crate) fn check(method: &str, path: &str, body: &str, answer: &Answer) {
    // A name with slashes, or no route at all.
    let Some((operation, pointer)) = operation(method, path) else { return };
    let context = format!("{method} {path} {body} {}", answer.status);
    let kind = answer.head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap_or_default();
    if answer.status != 200 {
        let response = operation["responses"][answer.status.to_string()]["$ref"].as_str();
        let response = response.unwrap_or_else(|| panic!("{context}: undocumented status"));
        let pointer = format!("{}/content/application~1problem+json/schema", response.trim_start_matches('#'));
        validate(&pointer, &answer.json(), &context);
        return;
    }
    let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    for pair in path.split_once('?').map_or("", |(_, query)| query).split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split('=').next().unwrap_or_default();
        let is_described = parameters.iter().any(|known| known["in"] == "query" && known["name"] == name);
        assert!(is_described, "{context}: undocumented parameter {name}");
    }
    let request = "requestBody/content/application~1json/schema";
    if let Some(body) = Some(body).filter(|body| !body.is_empty())
        && operation.pointer(&format!("/{request}")).is_some()
    {
        let body = serde_json::from_str(body).unwrap_or_else(|error| panic!("{context}: {error}"));
        validate(&format!("{pointer}/{request}"), &body, &context);
    }
    let kind = kind.split(';').next().unwrap_or_default();
    let response = format!("/responses/200/content/{}/schema", kind.replace('/', "~1"));
    let is_progress = kind == "application/x-ndjson";
    assert!(is_progress || operation.pointer(&response).is_some(), "{context}: undocumented type {kind}");
    if kind == "application/json" {
        validate(&format!("{pointer}{response}"), &answer.json(), &context);
    }
}

/// A value that a parameter of this schema takes.
fn example(schema: &Value) -> String {
    match schema["type"].as_str() {
        Some("array") => example(&schema["items"]),
        Some("integer") => schema["minimum"].to_string(),
        Some("boolean") => "true".to_owned(),
        _ => schema["enum"][0].as_str().unwrap_or("a").to_owned(),
    }
}

#[test]
fn every_described_parameter_is_known_to_its_route() {
    let served = Served::new();
    let mut count = 0;
    for (template, methods) in DESCRIPTION["paths"].as_object().expect("it has paths") {
        for (method, operation) in methods.as_object().expect("it has methods") {
            let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
            let path = template.replace("{partition}", "0").replace("{job}", "1-0").replace("{bulk}", "1-0");
            let path: Vec<_> =
                path.split('/').map(|segment| if segment.starts_with('{') { "n" } else { segment }).collect();
            for parameter in parameters.iter().filter(|parameter| parameter["in"] == "query") {
                let name = parameter["name"].as_str().expect("a name");
                let path = format!("{}?{name}={}", path.join("/"), example(&parameter["schema"]));
                let body = if method == "post" { "{}" } else { "" };
                // A stream that begins has no end.
                if template.ends_with("/subscribe") && template != "/v1/graphs/{graph}/subscribe" {
                    continue;
                }
                let head = served.head(&method.to_ascii_uppercase(), &path, body.len(), "Connection: close\r\n");
                let answer = served.send(&[head.as_bytes(), body.as_bytes()].concat());
                assert!(!answer.text.contains("unknown parameter"), "{method} {path}: {answer:?}");
                count += 1;
            }
        }
    }
    assert!(count > 100, "{count} parameters");
}

#[test]
fn the_server_has_its_description() {
    let served = Served::new();
    assert_eq!(served.read("/openapi.json"), *DESCRIPTION);
}
