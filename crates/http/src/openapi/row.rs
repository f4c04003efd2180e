//! What the description has of one operation, and the words to write it down.

use schemars::{JsonSchema, Schema, SchemaGenerator};

pub(super) const DIRECTION: ParameterKind = ParameterKind::Word(&["outgoing", "incoming", "both"]);

/// One operation: a route with its method.
pub(crate) struct OperationRow {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(super) summary: &'static str,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: RequestShape,
    pub(super) reply: ResponseShape,
    /// Whether it takes the header `Idempotency-Key`.
    pub(super) takes_key: bool,
}

impl OperationRow {
    /// The path of an operation whose request has a body of JSON.
    pub(crate) fn path_with_json_body(&self) -> Option<&'static str> {
        matches!(self.body, RequestShape::Of(_) | RequestShape::Without(..)).then_some(self.path)
    }
}

/// A parameter in the query string.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) kind: ParameterKind,
    pub(super) is_required: bool,
    /// Whether it may be repeated.
    pub(super) is_list: bool,
}

/// The values of a parameter.
#[derive(Clone, Copy)]
pub(super) enum ParameterKind {
    Text,
    Boolean,
    Number(u64, u64),
    Word(&'static [&'static str]),
}

/// Adds the description of a type, and returns a reference to it.
pub(super) type Describe = fn(&mut SchemaGenerator) -> Schema;

/// The body of a request.
pub(super) enum RequestShape {
    None,
    Of(Describe),
    /// The type without a field, which the path gives.
    Without(Describe, &'static [&'static str]),
    /// A file.
    File(&'static [&'static str]),
}

/// The body of a successful response.
pub(super) enum ResponseShape {
    Of(Describe),
    /// One of these.
    Any(&'static [Describe]),
    /// The fields of the reply to a part.
    Part(&'static str),
    /// An object without fields.
    Empty,
    /// Server-sent events; the data of each one is described.
    Events(Describe),
    /// JSON, or lines of JSON that end with it, if the client asked for the progress.
    Lines(Describe),
    /// Text or bytes of these types.
    File(&'static [&'static str]),
}

pub(super) fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

pub(super) fn get(path: &'static str, summary: &'static str, reply: ResponseShape) -> OperationRow {
    OperationRow {
        method: "get",
        path,
        summary,
        parameters: Vec::new(),
        body: RequestShape::None,
        reply,
        takes_key: false,
    }
}

pub(super) fn post(
    path: &'static str,
    summary: &'static str,
    body: RequestShape,
    reply: ResponseShape,
) -> OperationRow {
    OperationRow { method: "post", body, ..get(path, summary, reply) }
}

pub(super) fn delete(path: &'static str, summary: &'static str, reply: ResponseShape) -> OperationRow {
    OperationRow { method: "delete", ..get(path, summary, reply) }
}

impl OperationRow {
    pub(super) fn key(mut self) -> Self {
        self.takes_key = true;
        self
    }

    pub(super) fn with(mut self, name: &'static str, kind: ParameterKind) -> Self {
        self.parameters.push(Parameter { name, kind, is_required: false, is_list: false });
        self
    }

    pub(super) fn requires(mut self, name: &'static str) -> Self {
        self.parameters.push(Parameter { name, kind: ParameterKind::Text, is_required: true, is_list: false });
        self
    }

    pub(super) fn list(mut self, names: &[&'static str]) -> Self {
        let list =
            |name: &&'static str| Parameter { name, kind: ParameterKind::Text, is_required: false, is_list: true };
        self.parameters.extend(names.iter().map(list));
        self
    }

    pub(super) fn page(self) -> Self {
        self.with("limit", ParameterKind::Number(1, 10_000)).with("cursor", ParameterKind::Text)
    }

    pub(super) fn number(self, name: &'static str) -> Self {
        self.with(name, ParameterKind::Number(0, u64::MAX))
    }

    pub(super) fn flag(self, name: &'static str) -> Self {
        self.with(name, ParameterKind::Boolean)
    }

    pub(super) fn filter(self) -> Self {
        self.list(&["kind", "tag", "metadata"])
    }

    /// The bounds of a walk.
    pub(super) fn walk(self) -> Self {
        let walk = self.filter().list(&["type"]).with("direction", DIRECTION).flag("through").flag("missing");
        let walk = walk
            .with("depth", ParameterKind::Number(0, 10_000_000))
            .with("visited", ParameterKind::Number(1, 10_000_000));
        walk.with("time_ms", ParameterKind::Number(1, 60_000))
            .number("at")
            .with("limit", ParameterKind::Number(1, 10_000))
    }
}
