//! Unknown names: an error names the nearest existing name of the same kind, or the command that
//! lists them.
//!
//! A request names objects in its path (`/v1/topics/{topic}`) or in the parts of a commit. When the
//! server knows none of that name, the hint is added to its message. Where the server answers with
//! an empty result instead, a command calls [`check_store`] or [`check_jobs`].

use serde_json::Value;

use super::client::{HttpClient, Path};
use super::print::list;
use crate::failure::{CommandError, Result};

/// The least similarity of a name that is proposed instead of an unknown one.
const SIMILAR_MIN: f64 = 0.8;

/// A kind of object with names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObjectKind {
    Topic,
    Queue,
    Store,
    Graph,
    Group,
    Job,
}

/// The name of an object in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectName {
    kind: ObjectKind,
    name: String,
}

impl ObjectKind {
    const ALL: [ObjectKind; 6] = [
        ObjectKind::Topic,
        ObjectKind::Queue,
        ObjectKind::Store,
        ObjectKind::Graph,
        ObjectKind::Group,
        ObjectKind::Job,
    ];

    /// The field with the name of such an object, in requests and in lists.
    fn field(self) -> &'static str {
        match self {
            ObjectKind::Topic => "topic",
            ObjectKind::Queue => "queue",
            ObjectKind::Store => "store",
            ObjectKind::Graph => "graph",
            ObjectKind::Group => "group",
            ObjectKind::Job => "job",
        }
    }

    /// The segment of a path before the name.
    fn segment(self) -> &'static str {
        match self {
            ObjectKind::Topic => "topics",
            ObjectKind::Queue => "queues",
            ObjectKind::Store => "events",
            ObjectKind::Graph => "graphs",
            ObjectKind::Group => "groups",
            ObjectKind::Job => "jobs",
        }
    }

    /// The path that lists all of them. Jobs are too many for that.
    fn listing(self) -> Option<&'static str> {
        (self != ObjectKind::Job).then(|| self.segment())
    }

    /// The kind for people.
    fn noun(self) -> &'static str {
        match self {
            ObjectKind::Store => "event store",
            other => other.field(),
        }
    }

    /// The command that lists them.
    fn command(self) -> &'static str {
        match self {
            ObjectKind::Topic => "quire topics list",
            ObjectKind::Queue => "quire jobs queues",
            ObjectKind::Store => "quire events stores",
            ObjectKind::Graph => "quire graph list",
            ObjectKind::Group => "quire groups list",
            ObjectKind::Job => "quire jobs list",
        }
    }
}

impl ObjectName {
    /// The object that a path names.
    pub(super) fn in_path(segments: &[&str]) -> Option<Self> {
        let (kind, name) = match segments {
            // A group begins to exist with such a request.
            ["groups", _, "stores", store] => (ObjectKind::Store, store),
            ["groups", _, "queues", queue] => (ObjectKind::Queue, queue),
            [first, name, ..] => (ObjectKind::ALL.into_iter().find(|kind| kind.segment() == *first)?, name),
            _ => return None,
        };
        Some(ObjectName { kind, name: (*name).to_owned() })
    }

    /// The objects that the parts of a commit name.
    pub(super) fn in_parts(body: &Value) -> Vec<Self> {
        let commands = list(body, "parts").iter().filter_map(Value::as_object).flat_map(|part| part.values());
        let named = commands.flat_map(|command| {
            let of_kind =
                |kind: ObjectKind| Some(ObjectName { kind, name: command[kind.field()].as_str()?.to_owned() });
            ObjectKind::ALL.into_iter().filter_map(of_kind)
        });
        named.collect()
    }

    /// Whether a problem can be that this object does not exist.
    fn is_missing_in(&self, problem: &Value) -> bool {
        match (self.kind, problem["code"].as_str().unwrap_or_default()) {
            (_, "not_found") | (ObjectKind::Store, "unknown_subscription" | "unknown_projection") => true,
            (kind, code) => code.strip_prefix("unknown_") == Some(kind.field()),
        }
    }
}

/// The message of a problem. It has a hint, if one of the named objects does not exist.
pub(super) fn with_hint(client: &HttpClient, named: &[ObjectName], problem: &Value) -> String {
    let message = problem["detail"].as_str().unwrap_or_default();
    let hint = named.iter().filter(|named| named.is_missing_in(problem)).find_map(|named| hint(client, named));
    format!("{message}{}", hint.unwrap_or_default())
}

/// Checks that an event store exists, after a read of it found nothing.
///
/// # Errors
/// When it does not exist. The message names the nearest one.
pub(super) fn check_store(client: &HttpClient, store: &str) -> Result {
    let named = ObjectName { kind: ObjectKind::Store, name: store.to_owned() };
    match hint(client, &named) {
        Some(hint) => Err(CommandError::new(format!("event store {store} not found{hint}"))),
        None => Ok(()),
    }
}

/// Checks that these jobs exist.
///
/// # Errors
/// When one does not exist. The message names it.
pub(super) fn check_jobs(client: &HttpClient, jobs: &[String]) -> Result {
    jobs.iter().try_for_each(|job| client.get(&Path::new(&["jobs", job]).with("limit", 1)).map(drop))
}

/// The hint for an object that does not exist. `None` when it exists, or the server does not say.
fn hint(client: &HttpClient, ObjectName { kind, name }: &ObjectName) -> Option<String> {
    let Some(path) = kind.listing() else {
        return Some(format!("; `{}` lists the unfinished jobs", kind.command()));
    };
    // Without the list, the message of the server stands alone.
    let answer = client.try_get(&Path::new(&[path])).ok()?.ok()?;
    let known: Vec<&str> = list(&answer, "data").iter().filter_map(|it| it[kind.field()].as_str()).collect();
    if known.contains(&name.as_str()) {
        return None;
    }
    Some(match nearest(name, &known) {
        Some(nearest) => format!("; did you mean {nearest:?}?"),
        None if known.is_empty() => format!("; the database has no {}", kind.noun()),
        None => format!("; `{}` lists the names", kind.command()),
    })
}

/// The name that is most similar to `name`, if it is similar enough.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let lower = name.to_lowercase();
    // The last part of a name alone, like `orders` of `shop/orders`, is similar too.
    let similarity = |known: &str| {
        let known = known.to_lowercase();
        let last = known.rsplit(['/', '.']).next().unwrap_or(&known);
        strsim::jaro_winkler(&known, &lower).max(strsim::jaro_winkler(last, &lower))
    };
    let similar = known.iter().map(|known| (similarity(known), *known));
    let best = similar.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(similarity, _)| *similarity >= SIMILAR_MIN).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_nearest_name_is_proposed_if_it_is_similar() {
        let known = ["air/delays", "air/flights", "orders"];
        for (name, expected) in [
            ("air/delay", Some("air/delays")),
            ("Orders", Some("orders")),
            ("flights", Some("air/flights")),
            ("fligths", Some("air/flights")),
            ("customers", None),
        ] {
            assert_eq!(nearest(name, &known), expected, "{name}");
        }
        assert_eq!(nearest("orders", &[]), None);
    }

    #[test]
    fn objects_are_found_in_paths_and_parts() {
        let name = |kind, name: &str| ObjectName { kind, name: name.to_owned() };
        assert_eq!(
            ObjectName::in_path(&["topics", "t", "partitions", "0", "records"]),
            Some(name(ObjectKind::Topic, "t"))
        );
        assert_eq!(ObjectName::in_path(&["groups", "g", "stores", "s"]), Some(name(ObjectKind::Store, "s")));
        assert_eq!(ObjectName::in_path(&["events"]), None);
        let body = json!({ "parts": [{ "tick": {} }, { "commit_offset": { "group": "g", "topic": "t" } }] });
        assert_eq!(ObjectName::in_parts(&body), [name(ObjectKind::Topic, "t"), name(ObjectKind::Group, "g")]);
    }
}
