//! Readable names of entry kinds and tags, as on the file format page, for people who inspect a
//! log.

use std::fmt::Write;

use quire_model::codec::Decoder;
use quire_model::{EntryKind, ModelId, Tag};

/// A part of a tag after the model's number and the role.
#[derive(Debug, Clone, Copy)]
enum TagField {
    /// A number of four bytes.
    Number(&'static str),
    /// A number as a varint.
    Short(&'static str),
    /// Sixteen bytes.
    Id(&'static str),
    /// The rest, in hexadecimal digits.
    Bytes(&'static str),
    /// The rest, as text.
    Text,
}

use TagField::{Bytes, Id, Number, Short, Text};

const TAGS: &[(ModelId, u8, &str, &[TagField])] = &[
    (ModelId::STREAMS, b't', "topic", &[Number("")]),
    (ModelId::STREAMS, b'p', "partition", &[Number("topic"), Number("")]),
    (ModelId::STREAMS, b'g', "group", &[Number("")]),
    (ModelId::EVENTS, b'n', "store name", &[Short("")]),
    (ModelId::EVENTS, b's', "store", &[Short("")]),
    (ModelId::EVENTS, b'e', "type", &[Short("store"), Text]),
    (ModelId::EVENTS, b't', "tag", &[Short("store"), Text]),
    (ModelId::EVENTS, b'i', "event", &[Short("store"), Id("")]),
    (ModelId::EVENTS, b'u', "source", &[Short("store"), Text]),
    (ModelId::EVENTS, b'b', "subscription", &[Short("store"), Text]),
    (ModelId::EVENTS, b'p', "projection", &[Short("store"), Text]),
    (ModelId::JOBS, b'q', "queue", &[Number("")]),
    (ModelId::JOBS, b'f', "finished in queue", &[Number(""), Bytes("state")]),
    (ModelId::JOBS, b'j', "job", &[Bytes("")]),
    (ModelId::JOBS, b't', "tag", &[Text]),
    (ModelId::GRAPH, b'c', "catalogue", &[]),
    (ModelId::GRAPH, b'b', "block", &[Number("graph"), Id("")]),
    (ModelId::GRAPH, b'k', "kind", &[Number("graph"), Number("")]),
    (ModelId::GRAPH, b'u', "tag", &[Number("graph"), Text]),
    (ModelId::GRAPH, b's', "source", &[Number("graph"), Id("")]),
    (ModelId::GRAPH, b't', "target", &[Number("graph"), Id("")]),
];

const STREAMS: &[&str] = &[
    "topic created",
    "batch produced",
    "group created",
    "offset committed",
    "topic deleted",
    "topic altered",
    "records deleted",
    "producer given",
    "generation begun",
    "offset deleted",
    "group deleted",
    "member replaced",
    "unread protected",
    "member joined",
    "member renewed",
    "members gone",
];
const EVENTS: &[&str] = &[
    "store created",
    "event appended",
    "upstream read",
    "subscription put",
    "subscription moved",
    "subscription dropped",
    "projection saved",
    "projection dropped",
    "trimmed",
    "forgotten",
    "retention set",
];
const JOBS: &[&str] = &[
    "queue created",
    "enqueued",
    "queue set",
    "queue cleared",
    "queue destroyed",
    "extended",
    "noted",
    "edited",
    "revived",
    "bulk begun",
    "bulk advanced",
    "key held",
    "moved out",
];
/// The kind of the first of [`JOB_STEPS`].
const FIRST_STEP: u8 = 16;
/// The steps of jobs, by their causes.
const JOB_STEPS: &[&str] = &[
    "due",
    "leased",
    "completed",
    "failed",
    "lease expired",
    "timed out",
    "snoozed",
    "cancelled",
    "held",
    "released",
    "rescheduled",
    "expired",
    "deleted",
    "replaced",
    "unreadable",
];
const GRAPH: &[&str] = &[
    "graph named",
    "block kind named",
    "edge type named",
    "block put",
    "block deleted",
    "edge put",
    "edge deleted",
    "retention set",
    "history trimmed",
];

const SYSTEM: &[&str] = &[
    "user put",
    "user dropped",
    "key put",
    "key dropped",
    "role put",
    "role dropped",
    "rule added",
    "rule removed",
    "state set",
    "secret put",
    "quota put",
    "term begun",
    "member set",
];

/// The name of a model: `streams`, `events`, `jobs`, `graph`, `idempotency`, `system`, or its
/// number.
pub fn model_name(model: ModelId) -> String {
    match model {
        ModelId::STREAMS => "streams".to_owned(),
        ModelId::EVENTS => "events".to_owned(),
        ModelId::JOBS => "jobs".to_owned(),
        ModelId::GRAPH => "graph".to_owned(),
        ModelId::IDEMPOTENCY => "idempotency".to_owned(),
        ModelId::SYSTEM => "system".to_owned(),
        unknown => format!("model {}", unknown.get()),
    }
}

/// The name of an entry's kind: `event appended`, or `kind 17` for a kind that this program does
/// not know.
pub fn kind_name(kind: EntryKind) -> String {
    let (names, first) = match kind.model {
        ModelId::STREAMS => (STREAMS, 1),
        ModelId::EVENTS => (EVENTS, 1),
        ModelId::JOBS if kind.kind >= FIRST_STEP => (JOB_STEPS, FIRST_STEP),
        ModelId::JOBS => (JOBS, 1),
        ModelId::GRAPH => (GRAPH, 1),
        ModelId::IDEMPOTENCY => (&["commit answered"][..], 1),
        ModelId::SYSTEM => (SYSTEM, 1),
        _ => (&[][..], 0),
    };
    let name = kind.kind.checked_sub(first).and_then(|index| names.get(usize::from(index)));
    name.map_or_else(|| format!("kind {}", kind.kind), |name| (*name).to_owned())
}

/// A tag as text: `tag store=0 "plane:N14228"`, or its escaped bytes for a tag that this program
/// does not know.
pub fn tag_text(tag: Tag<'_>) -> String {
    let bytes = tag.as_bytes();
    let known = bytes.split_first_chunk::<2>().and_then(|([model, role], rest)| {
        let named = |(of, letter, ..): &&(ModelId, u8, &str, &[TagField])| of.get() == *model && letter == role;
        let (_, _, name, fields) = TAGS.iter().find(named)?;
        fields_text(name, fields, rest)
    });
    known.unwrap_or_else(|| bytes.escape_ascii().to_string())
}

fn fields_text(name: &str, fields: &[TagField], mut rest: &[u8]) -> Option<String> {
    let mut text = name.to_owned();
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    for field in fields {
        let (label, value) = match *field {
            Number(label) => {
                let (number, behind) = rest.split_first_chunk::<4>()?;
                rest = behind;
                (label, u32::from_le_bytes(*number).to_string())
            }
            Short(label) => {
                let mut from = Decoder::new(rest);
                let number = from.varint().ok()?;
                rest = from.rest();
                (label, number.to_string())
            }
            Id(label) => {
                let (id, behind) = rest.split_first_chunk::<16>()?;
                rest = behind;
                (label, hex(id))
            }
            Bytes(label) => (label, hex(std::mem::take(&mut rest))),
            Text => ("", format!("\"{}\"", std::mem::take(&mut rest).escape_ascii())),
        };
        let separator = if label.is_empty() { "" } else { "=" };
        write!(text, " {label}{separator}{value}").expect("text can be written");
    }
    rest.is_empty().then_some(text)
}

#[cfg(test)]
mod tests {
    use quire_model::TagBuf;

    use super::*;

    /// The page with the names.
    const PAGE: &str = include_str!("../../../../docs/file-format.md");

    #[test]
    fn every_name_of_a_kind_is_that_of_the_page() {
        for (model, names) in [("streams", STREAMS), ("events", EVENTS), ("jobs", JOBS), ("graph", GRAPH)] {
            let table = PAGE.split_once(&format!("| {model} | kind |")).expect("a table a model").1;
            let table = table.split("\n\n").next().expect("its end");
            for (index, name) in names.iter().enumerate() {
                assert!(table.contains(&format!("\n| {name} | {} |", index + 1)), "{name}\n{table}");
            }
            let rows = table.lines().filter(|row| row.starts_with("| ")).filter(|row| !row.starts_with("| steps |"));
            assert_eq!(rows.count(), names.len(), "{table}");
        }
        // The page wraps this sentence.
        let causes = PAGE.split_once("The causes: ").expect("the causes").1.split_once(". ").expect("their end").0;
        let steps: Vec<String> = JOB_STEPS.iter().enumerate().map(|(cause, name)| format!("{cause} {name}")).collect();
        assert_eq!(causes.replace('\n', " "), steps.join(", "));
        assert_eq!(kind_name(EntryKind { model: ModelId::JOBS, kind: 17 }), "leased");
    }

    #[test]
    fn a_known_tag_is_readable_and_an_unknown_one_is_escaped() {
        let text = |tag: TagBuf| tag_text(tag.tag());
        let event = TagBuf::new(ModelId::EVENTS, b't').bytes(b"\x07plane:N1");
        assert_eq!(text(event), r#"tag store=7 "plane:N1""#);
        assert_eq!(text(TagBuf::new(ModelId::STREAMS, b'p').number(1).number(2)), "partition topic=1 2");
        let edge = TagBuf::new(ModelId::GRAPH, b's').number(0).bytes(&[0xab; 16]);
        assert_eq!(text(edge), format!("source graph=0 {}", "ab".repeat(16)));
        assert_eq!(tag_text(Tag::new(b"\x02?x")), r"\x02?x");
        assert_eq!(text(TagBuf::new(ModelId::STREAMS, b'p').number(1)), r"\x01p\x01\x00\x00\x00");
        assert_eq!(kind_name(EntryKind { model: ModelId::JOBS, kind: 200 }), "kind 200");
    }
}
