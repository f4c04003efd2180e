//! The names of types: nouns, and each of them once in the workspace's crates.
//!
//! It reads structs, enums, traits, unions and type aliases of `crates/*/src`, public and private.
//! Tests, code that a model checker runs, generated code, associated types and types within a
//! function are left out. The two tables below hold the exceptions.

use std::collections::BTreeMap;

use super::super::{is_test, lexer};
use crate::workspace::SourceFile;

/// A type, and where it is defined.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Type {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) name: String,
}

/// A complaint about a type's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) at: Type,
    pub(super) message: String,
}

/// Names that look like a participle or a question and are nouns, with the reason.
const NOUNS: &[(&str, &str)] = &[
    ("Feed", "a feed of data is a noun"),
    ("Finding", "the standard word for one result of an inspection"),
    ("Heading", "the heading of a page is a noun"),
    ("Ordering", "the standard library's word"),
    ("Posting", "the standard word for one entry of an inverted index"),
    ("Ring", "a ring of slots is a noun"),
    ("Seed", "the seed of a generator is a noun"),
    ("Setting", "one of the settings, a noun"),
    ("Timing", "one measured time, a noun"),
];

/// Participles that do not end in `ed` or `ing`, and words that begin a question.
const IRREGULAR: &[&str] = &[
    "Begun",
    "Built",
    "Bound",
    "Caught",
    "Cut",
    "Done",
    "Drawn",
    "Due",
    "Felt",
    "Found",
    "Given",
    "Gone",
    "Heard",
    "Held",
    "Hidden",
    "Kept",
    "Known",
    "Laid",
    "Left",
    "Lost",
    "Made",
    "Meant",
    "Met",
    "Put",
    "Read",
    "Said",
    "Seen",
    "Sent",
    "Set",
    "Shown",
    "Slept",
    "Spent",
    "Split",
    "Stood",
    "Taken",
    "Thought",
    "Told",
    "Unread",
    "Unsent",
    "Unseen",
    "Unwritten",
    "Written",
    "How",
    "What",
    "When",
    "Where",
    "Whether",
    "Which",
    "Who",
    "Whom",
    "Whose",
    "Why",
];

/// Names that more than one crate may have: the names, the paths whose types are excepted, the reason.
///
/// Within one crate an excepted name is still there at most once.
const SHARED: &[(&[&str], &[&str], &str)] = &[
    (
        &["Settings", "Error", "ErrorKind", "Result", "Statistics", "Counters"],
        &["crates/"],
        "one a crate, always written with the crate's name where two of them meet",
    ),
    (
        &["Command", "Reply", "Refusal", "Decision", "Draft", "Effect", "Stop"],
        &["crates/streams/", "crates/events/", "crates/jobs/", "crates/graph/", "crates/system/"],
        "each model has its own of the contract's vocabulary, and no model sees another",
    ),
    (
        &[
            "Ack",
            "Append",
            "CancelJob",
            "DeleteBlock",
            "DeleteEdge",
            "DeleteEdges",
            "DropProjection",
            "Enqueue",
            "PutBlock",
            "PutEdge",
            "PutSubscription",
            "Produce",
            "SaveProjection",
            "Upstream",
        ],
        &["crates/http/src/commit/request/"],
        "the JSON form of the command of that name",
    ),
    (
        &[
            "Condition",
            "Draft",
            "Event",
            "Graph",
            "Group",
            "Job",
            "Member",
            "Message",
            "Part",
            "Retry",
            "Roster",
            "Store",
            "Subscription",
            "Topic",
        ],
        &["crates/sim/src/naive/"],
        "the naive twin of the type of that name, with which its answers are compared",
    ),
    (
        &["Events", "Graph", "Group", "Queue", "SavedProjection", "Subscription", "Topic"],
        &["crates/quire/src/handles/"],
        "the handle to what a model keeps under that name",
    ),
    (
        &[
            "Append",
            "Backoff",
            "Backup",
            "Clash",
            "Copy",
            "Degree",
            "Direction",
            "DropProjection",
            "Edge",
            "Enqueue",
            "Events",
            "Export",
            "Filter",
            "Format",
            "Graph",
            "Groups",
            "Header",
            "Hold",
            "Import",
            "Jobs",
            "Limit",
            "Limits",
            "Link",
            "List",
            "Neighbours",
            "Order",
            "Paths",
            "Produce",
            "Project",
            "Projections",
            "Queue",
            "Queues",
            "Scope",
            "Shape",
            "Subscriptions",
            "Topics",
            "Trim",
            "Unique",
            "Walk",
        ],
        &["crates/cli/src/verbs/", "crates/cli/src/tools/"],
        "the flags of the command line that stand for the type or the command of that name",
    ),
    (
        &["Client", "Command", "Arguments"],
        &["crates/chaos/src/", "crates/sim/src/"],
        "the command line of a test program, which no crate depends on",
    ),
    (
        &["App", "Connection", "Server"],
        &["crates/http/src/", "crates/grpc/src/", "crates/kafka/src/"],
        "one a front end, and no front end sees another",
    ),
    (
        &["SharedWords", "Futex"],
        &["crates/mapped/src/words/", "crates/threads/src/"],
        "the same type for a model checker; a build has one of the two",
    ),
];

/// Names of types that are also names in a protocol, with the paths whose comments mean the
/// protocol's.
const FOREIGN: &[(&str, &str)] = &[("DeleteRecords", "crates/kafka/")];

/// The names of types that stand in a paragraph of a comment as words, without backticks. A
/// renaming of types by search and replace leaves such words. Names of one word are left out,
/// because they are ordinary words too.
pub(super) fn bare<'t>(path: &str, text: &'t str, types: &[Type]) -> Vec<&'t str> {
    let is_compound = |word: &str| word.bytes().skip(1).any(|byte| byte.is_ascii_uppercase()) && word.len() > 3;
    let is_foreign = |word: &str| FOREIGN.iter().any(|(name, of)| *name == word && path.starts_with(of));
    let is_type = |word: &str| types.iter().any(|one| one.name == word);
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    words.filter(|word| is_compound(word) && !is_foreign(word) && is_type(word)).collect()
}

/// The types that the workspace's crates define.
pub(super) fn types(files: &[SourceFile]) -> Vec<Type> {
    let is_source = |path: &str| {
        let mut names = path.split('/');
        names.next() == Some("crates")
            && names.nth(1) == Some("src")
            && path.ends_with(".rs")
            && !is_test(path)
            && !path.contains("/explored/")
            && !path.ends_with("/explored.rs")
    };
    let sources = files.iter().filter(|file| is_source(&file.path) && !file.text.contains("@generated"));
    sources.flat_map(|file| defined(&file.path, &file.text)).collect()
}

/// What is wrong with the names of `types`.
pub(super) fn complaints(types: &[Type]) -> Vec<Complaint> {
    let mut found = Vec::new();
    for one in types.iter().filter(|one| is_participle(&one.name) || is_question(&one.name)) {
        found.push(Complaint {
            at: one.clone(),
            message: format!("the type `{}` is named by a participle or a question: name it by a noun", one.name),
        });
    }
    let mut by_name: BTreeMap<&str, Vec<&Type>> = BTreeMap::new();
    for one in types {
        by_name.entry(&one.name).or_default().push(one);
    }
    for (name, of_name) in by_name {
        for (index, one) in of_name.iter().enumerate() {
            let earlier = of_name[..index].iter().filter(|earlier| {
                crate_of(&earlier.path) == crate_of(&one.path) || !(is_shared(one) || is_shared(earlier))
            });
            found.extend(earlier.map(|earlier| Complaint {
                at: (*one).clone(),
                message: format!(
                    "{}:{} has a type `{name}` too: give one of them a name of its own",
                    earlier.path, earlier.line
                ),
            }));
        }
    }
    found
}

fn is_shared(one: &Type) -> bool {
    SHARED.iter().any(|(names, paths, _)| {
        names.contains(&one.name.as_str()) && paths.iter().any(|path| one.path.starts_with(path))
    })
}

fn crate_of(path: &str) -> &str {
    path.split('/').nth(1).unwrap_or(path)
}

/// Whether the name is a single word, and that word a participle.
fn is_participle(name: &str) -> bool {
    let is_single = name.bytes().skip(1).all(|byte| byte.is_ascii_lowercase());
    let ends_so = name.len() > 3 && (name.ends_with("ed") || name.ends_with("ing"));
    let is_noun = NOUNS.iter().any(|(noun, _)| *noun == name);
    is_single && !is_noun && (ends_so || IRREGULAR.contains(&name))
}

fn is_question(name: &str) -> bool {
    let rest = |word: &str| name.strip_prefix(word).is_some_and(|rest| rest.starts_with(|c: char| c.is_uppercase()));
    ["How", "What", "When", "Where", "Whether", "Which", "Who", "Whom", "Whose", "Why"].into_iter().any(rest)
}

/// What a block of braces is, as far as its types are concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    /// A module or the body of a type: its types count.
    Plain,
    /// A function, an `impl`, a `trait`, or a module of tests: its types do not count.
    Inner,
}

fn defined(path: &str, text: &str) -> Vec<Type> {
    let code = lexer::code(text);
    let mut types = Vec::new();
    let mut blocks = Vec::new();
    let mut head = Head::default();
    for (number, line) in (1..).zip(code.lines()) {
        for token in tokens(line) {
            match token {
                "{" => {
                    blocks.push(if head.is_inner() { Block::Inner } else { Block::Plain });
                    head = Head::default();
                }
                "}" => {
                    blocks.pop();
                    head = Head::default();
                }
                ";" => head = Head::default(),
                word => {
                    let is_type = head.keyword.is_some_and(|keyword| TYPES.contains(&keyword)) && !head.is_named;
                    if is_type && word.starts_with(|c: char| c.is_ascii_uppercase()) {
                        head.is_named = true;
                        if !head.is_test && !blocks.contains(&Block::Inner) {
                            types.push(Type { path: path.to_owned(), line: number, name: word.to_owned() });
                        }
                    }
                    head.read(word);
                }
            }
        }
    }
    types
}

const TYPES: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

/// What stands before the braces of an item.
#[derive(Default)]
struct Head {
    /// The first keyword that says what the item is.
    keyword: Option<&'static str>,
    is_named: bool,
    is_test: bool,
    last: String,
    within_cfg: bool,
}

impl Head {
    fn is_inner(&self) -> bool {
        self.is_test || matches!(self.keyword, Some("fn" | "impl" | "trait"))
    }

    fn read(&mut self, word: &str) {
        self.within_cfg |= word == "cfg";
        self.is_test |= word == "test" && self.within_cfg && self.last != "=";
        self.within_cfg &= word != "]";
        let keywords = ["fn", "impl", "mod", "use"].into_iter().chain(TYPES);
        if self.keyword.is_none() {
            self.keyword = keywords.into_iter().find(|keyword| *keyword == word);
        }
        word.clone_into(&mut self.last);
    }
}

/// The words of a line of code, and each other character by itself.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let first = rest.chars().next()?;
        let length = if is_name(first) { rest.find(|c| !is_name(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let token = &rest[..length];
        rest = &rest[length..];
        Some(token)
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::file;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, text)| file(path, text)).collect();
        let said = |complaint: Complaint| format!("{}:{} {}", complaint.at.path, complaint.at.line, complaint.at.name);
        complaints(&types(&files)).into_iter().map(said).collect()
    }

    #[test]
    fn types_are_found_in_modules_and_not_in_tests_functions_or_impls() {
        let text = "pub struct One<T>(T);\nmod a {\n    pub(crate) enum Two { A { b: u8 } }\n    type Three = u8;\n}\n\
            trait Four { type Item; fn f() -> impl Iterator { struct Local; } }\n\
            impl Four for u8 { type Item = u8; }\nfn f(a: impl Four) { enum Local { A } }\n\
            #[cfg(test)]\nmod tests {\n    struct Test;\n}\n#[cfg(all(unix, test))]\nstruct Test;\n\
            #[cfg(not(loom))]\nuse a::{Two};\n// struct Comment;\nconst S: &str = \"struct Literal;\";\nunion Five { a: u8 }";
        let names: Vec<_> = types(&[file("crates/a/src/b.rs", text)]).into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["One", "Two", "Three", "Four", "Five"]);
    }

    #[test]
    fn a_type_among_the_words_of_a_comment_is_named() {
        let types = types(&[file("crates/a/src/b.rs", "struct ExactlyOne;\nstruct Draft;\nenum DeleteRecords {}")]);
        let found = |path, text| bare(path, text, &types);
        assert_eq!(found("crates/a/src/c.rs", "ExactlyOne edge, DeleteRecords."), ["ExactlyOne", "DeleteRecords"]);
        assert_eq!(found("crates/kafka/src/c.rs", "DeleteRecords: moves the start."), [""; 0]);
        assert_eq!(found("crates/a/src/c.rs", "A draft. Draft a GraphML file: crate::ExactlyOne, code."), [""; 0]);
    }

    #[test]
    fn tests_and_generated_code_are_left_out() {
        for path in ["crates/a/tests/t.rs", "crates/a/src/b/tests.rs", "crates/a/src/explored/c.rs", "xtask/src/a.rs"] {
            assert_eq!(types(&[file(path, "struct Told;")]), [], "{path}");
        }
        assert_eq!(types(&[file("crates/a/src/b.rs", "// This file is @generated\nstruct Told;")]), []);
    }

    #[test]
    fn a_participle_and_a_question_are_named_and_nouns_are_not() {
        let bad = "struct Asked;\nenum Told {}\ntype Waiting = u8;\ntrait Which {}\nstruct WhatIsNew;\nstruct Unsent;";
        assert_eq!(found(&[("crates/a/src/b.rs", bad)]).len(), 6);
        let good = "struct AskedJob;\nstruct WalkRequest;\nstruct Feed;\nstruct Ring;\nstruct Whole;\nstruct Setting;";
        assert_eq!(found(&[("crates/a/src/b.rs", good)]), [""; 0]);
    }

    #[test]
    fn two_types_of_one_name_are_named_where_no_exception_holds() {
        let two = |one: &str, other: &str, text: &str| found(&[(one, text), (other, text)]);
        assert_eq!(two("crates/a/src/a.rs", "crates/b/src/b.rs", "struct Handle;"), ["crates/b/src/b.rs:1 Handle"]);
        assert_eq!(two("crates/a/src/a.rs", "crates/a/src/b.rs", "struct Handle;"), ["crates/a/src/b.rs:1 Handle"]);
        assert_eq!(two("crates/a/src/a.rs", "crates/b/src/b.rs", "struct Settings;"), [""; 0]);
        assert_eq!(two("crates/a/src/a.rs", "crates/a/src/b.rs", "struct Settings;"), ["crates/a/src/b.rs:1 Settings"]);
        assert_eq!(two("crates/jobs/src/a.rs", "crates/graph/src/b.rs", "enum Command {}"), [""; 0]);
        assert_eq!(two("crates/jobs/src/a.rs", "crates/log/src/b.rs", "enum Command {}"), [""; 0]);
    }
}
