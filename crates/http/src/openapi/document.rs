//! The OpenAPI document of the table of operations.

use std::collections::BTreeMap;

use axum::http::Method;
use quire_api::Code;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::operations::operations;
use super::row::{Describe, OperationRow, Parameter, ParameterKind, RequestShape, ResponseShape};
use crate::local_read;
use quire_api::reply::PartReply;
use quire_api::reply::ProblemReply;

const SCHEMAS: &str = "#/components/schemas/";

/// Describes types: those of requests as they are read, those of responses as they are written.
struct Generators {
    requests: SchemaGenerator,
    replies: SchemaGenerator,
}

/// The description of every operation.
pub(super) fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generators = Generators {
        requests: settings.clone().for_deserialize().into_generator(),
        replies: settings.for_serialize().into_generator(),
    };
    let part_reply = generators.replies.subschema_for::<PartReply<'_>>().to_value();
    let problem = generators.replies.subschema_for::<ProblemReply<'_>>().to_value();
    let mut paths = BTreeMap::<&str, Map<String, Value>>::new();
    for operation in operations() {
        let described = generators.operation(&operation, &part_reply);
        paths.entry(operation.path).or_default().insert(operation.method.to_owned(), described);
    }
    let Generators { mut requests, mut replies } = generators;
    let mut schemas = requests.take_definitions(true);
    for (name, schema) in replies.take_definitions(true) {
        let other = schemas.insert(name.clone(), schema.clone());
        assert!(other.is_none_or(|other| other == schema), "two types are named {name}");
    }
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Quire",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0"},
            "description": "One durable log that serves streams, events, jobs and graphs. docs/http.md explains each route."
        },
        "servers": [{"url": "http://127.0.0.1:7070"}],
        "paths": paths,
        // The empty requirement is for a server whose access control is disabled.
        "security": [{"apiKey": []}, {}],
        "components": {
            "schemas": schemas,
            "responses": problems(&problem),
            "securitySchemes": {
                "apiKey": {"type": "http", "scheme": "bearer", "description": "An API key: docs/access.md."}
            }
        }
    })
}

/// A response for each status of a problem, with its codes.
fn problems(problem: &Value) -> BTreeMap<String, Value> {
    let mut codes = BTreeMap::<u16, Vec<&str>>::new();
    for code in Code::ALL {
        codes.entry(code.http()).or_default().push(code.name());
    }
    let response = |(status, codes): (u16, Vec<&str>)| {
        let mut fields = json!({"code": {"enum": codes}, "status": {"const": status}});
        if status == 503 {
            // The memory limit and `/readyz` answer other codes with it, too.
            fields = json!({"status": {"const": status}});
        }
        let schema = json!({"allOf": [problem], "properties": fields});
        let content = json!({"application/problem+json": {"schema": schema}});
        (format!("Problem{status}"), json!({"description": "The request failed.", "content": content}))
    };
    codes.into_iter().map(response).collect()
}

impl Generators {
    fn operation(&mut self, operation: &OperationRow, part_reply: &Value) -> Value {
        let mut described = Map::new();
        described.insert("summary".into(), operation.summary.into());
        described.insert("operationId".into(), operation_id(operation).into());
        described.insert("tags".into(), json!([tag(operation.path)]));
        let has_values = !matches!(operation.reply, ResponseShape::File(_));
        let mut parameters: Vec<Value> = path_parameters(operation.path);
        parameters.extend(operation.parameters.iter().map(parameter));
        if has_values {
            parameters.push(parameter(&Parameter {
                name: "as",
                kind: ParameterKind::Word(&["json", "text", "base64"]),
                is_required: false,
                is_list: false,
            }));
        }
        if operation.takes_key {
            let schema = json!({"type": "string", "minLength": 1, "maxLength": 255});
            parameters.push(json!({"name": "Idempotency-Key", "in": "header", "required": false, "schema": schema}));
        }
        let method = Method::from_bytes(operation.method.to_ascii_uppercase().as_bytes());
        if method.is_ok_and(|method| local_read::takes_header(&method, operation.path)) {
            let schema = json!({"type": "string", "examples": ["local", "at=17"]});
            parameters.push(json!({"name": "Quire-Read", "in": "header", "required": false, "schema": schema}));
        }
        if !parameters.is_empty() {
            described.insert("parameters".into(), parameters.into());
        }
        if let Some(content) = self.body(&operation.body) {
            described.insert("requestBody".into(), json!({"required": true, "content": content}));
        }
        let mut responses = Map::new();
        let mut done = json!({"description": "Done.", "content": self.reply(&operation.reply, part_reply)});
        if operation.takes_key {
            let replay = json!({"schema": {"const": "true"}, "description": "The first answer to an earlier copy."});
            done["headers"] = json!({"Idempotent-Replay": replay});
        }
        responses.insert("200".into(), done);
        for code in Code::ALL {
            let reference = json!({"$ref": format!("#/components/responses/Problem{}", code.http())});
            responses.insert(code.http().to_string(), reference);
        }
        described.insert("responses".into(), responses.into());
        described.into()
    }

    fn body(&mut self, body: &RequestShape) -> Option<Value> {
        match body {
            RequestShape::None => None,
            RequestShape::Of(describe) => Some(json!({"application/json": {"schema": describe(&mut self.requests)}})),
            RequestShape::Without(describe, fields) => {
                let schema = without(&mut self.requests, *describe, fields);
                Some(json!({"application/json": {"schema": schema}}))
            }
            RequestShape::File(types) => Some(files(types)),
        }
    }

    fn reply(&mut self, reply: &ResponseShape, part_reply: &Value) -> Value {
        let schema = match reply {
            ResponseShape::Of(describe) => describe(&mut self.replies).to_value(),
            ResponseShape::Any(types) => {
                let types: Vec<_> = types.iter().map(|describe| describe(&mut self.replies)).collect();
                json!({"anyOf": types})
            }
            ResponseShape::Part(name) => {
                let definition = definition(&self.replies, part_reply);
                let variants = definition["oneOf"].as_array().expect("a reply is one of several");
                let fields = variants.iter().find_map(|variant| variant["properties"].get(name));
                fields.unwrap_or_else(|| panic!("no part has the reply {name}")).clone()
            }
            ResponseShape::Empty => json!({"type": "object", "additionalProperties": false}),
            ResponseShape::Events(describe) => {
                let data = describe(&mut self.replies);
                return json!({"text/event-stream": {"schema": {"type": "string"}, "x-event-data": data}});
            }
            ResponseShape::Lines(describe) => {
                let schema = describe(&mut self.replies).to_value();
                let lines = json!({"schema": {"type": "string"}});
                return json!({"application/json": {"schema": schema}, "application/x-ndjson": lines});
            }
            ResponseShape::File(types) => return files(types),
        };
        json!({"application/json": {"schema": schema}})
    }
}

/// The description that a reference stands for.
fn definition<'g>(generator: &'g SchemaGenerator, reference: &Value) -> &'g Value {
    let name = reference["$ref"].as_str().and_then(|path| path.strip_prefix(SCHEMAS)).expect("a reference");
    &generator.definitions()[name]
}

/// A type without these fields.
fn without(generator: &mut SchemaGenerator, describe: Describe, fields: &[&str]) -> Value {
    let reference = describe(generator).to_value();
    let mut schema = definition(generator, &reference).clone();
    let properties = schema["properties"].as_object_mut().expect("an object");
    for field in fields {
        properties.remove(*field).unwrap_or_else(|| panic!("no field {field}"));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !fields.iter().any(|field| name == field));
    }
    schema
}

fn files(types: &[&str]) -> Value {
    let content = |kind: &&str| {
        let schema = if *kind == "application/json" { json!({"type": "object"}) } else { json!({"type": "string"}) };
        ((*kind).to_owned(), json!({"schema": schema}))
    };
    Value::Object(types.iter().map(content).collect())
}

fn parameter(parameter: &Parameter) -> Value {
    let value = match parameter.kind {
        ParameterKind::Text => json!({"type": "string"}),
        ParameterKind::Boolean => json!({"type": "boolean"}),
        ParameterKind::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        ParameterKind::Word(words) => json!({"type": "string", "enum": words}),
    };
    let schema = if parameter.is_list { json!({"type": "array", "items": value}) } else { value };
    json!({"name": parameter.name, "in": "query", "required": parameter.is_required, "schema": schema})
}

/// The names in a path.
fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let described = |name: &str| {
        let schema = match name {
            "partition" => json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
            _ => json!({"type": "string", "minLength": 1}),
        };
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    };
    names.map(described).collect()
}

/// A name for generated clients: the method and the names of the path.
fn operation_id(operation: &OperationRow) -> String {
    let names = operation.path.split(['/', '.']).filter(|name| !name.is_empty() && *name != "v1");
    let names: Vec<_> = names.map(|name| name.trim_matches(['{', '}'])).collect();
    format!("{}_{}", operation.method, names.join("_"))
}

/// The group of an operation: the first name of its path.
fn tag(path: &str) -> &str {
    let path = path.strip_prefix("/v1").unwrap_or(path);
    path.split('/').nth(1).unwrap_or_default()
}
