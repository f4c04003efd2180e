//! Rule `circle`: at most six files of a crate import each other.
//!
//! Files in a circle can only be understood together, so a circle is as long as a reader can hold.
//! The rule builds the import graph of each crate and names the files of every larger circle, each
//! with its imports inside the circle.
//!
//! An import is a path that begins with `crate`, `super` or `self`, and in a `use` also one that
//! begins with a child module. A path leads to the file that declares its name, through re-exports.
//! Not imports are `mod` lines, re-exports, tests, and the calls by which a module runs its
//! children (`child::run()`): a folder hangs together anyway. The rule reads tokens: it does not
//! expand macros and does not know modules inside of a file.

use std::collections::{BTreeMap, BTreeSet};

use super::{Violation, is_rust, is_test, lexer};
use crate::workspace::SourceFile;

const CIRCLE_FILES_MAX: usize = 6;

/// The path of a module from the root of its crate.
type ModulePath = Vec<String>;

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_rust(&file.path) && !is_test(&file.path)) {
        if let Some(source) = file.path.find("/src/") {
            crates.entry(&file.path[..source + "/src/".len()]).or_default().push(file);
        }
    }
    let mut violations = Vec::new();
    for (source, files) in crates {
        let graph = Modules::read(source, &files).imports();
        for circle in circles(&graph).into_iter().filter(|circle| circle.len() > CIRCLE_FILES_MAX) {
            let mut message = format!("{} files import each other, at most {CIRCLE_FILES_MAX} may:", circle.len());
            for file in &circle {
                let inside: Vec<&str> = graph[file].intersection(&circle).copied().collect();
                message += &format!("\n    {file} imports {}", inside.join(", "));
            }
            violations.push(Violation::new("circle", source, message));
        }
    }
    violations
}

/// The modules of one crate that have a file of their own.
struct Modules<'f> {
    modules: BTreeMap<ModulePath, Module<'f>>,
}

struct Module<'f> {
    /// Its file, from the source folder of the crate.
    file: &'f str,
    declared: BTreeSet<String>,
    /// Names that a `use` brings into scope, with their paths.
    names: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    imports: Vec<Vec<String>>,
}

impl<'f> Modules<'f> {
    fn read(source: &str, files: &[&'f SourceFile]) -> Self {
        let module = |file: &&'f SourceFile| {
            let name = &file.path[source.len()..];
            (module_path(name), Module::read(name, &file.text))
        };
        Modules { modules: files.iter().map(module).collect() }
    }

    /// The files that each file imports.
    fn imports(&self) -> BTreeMap<&'f str, BTreeSet<&'f str>> {
        let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (path, module) in &self.modules {
            let from_here = module.imports.iter().filter_map(|import| self.resolve(path, import, 0));
            graph.entry(module.file).or_default().extend(from_here.filter(|file| *file != module.file));
        }
        graph
    }

    /// The file that declares the last name of a path in `module`. `None` when the path leads to
    /// another crate.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<&'f str> {
        const DEPTH_MAX: usize = 16;
        let first = path.first()?;
        if depth > DEPTH_MAX || !is_local(first) && !self.modules.contains_key(&child(module, first)) {
            return None;
        }
        let mut here = module.to_vec();
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => here.clear(),
                "self" => {}
                "super" => drop(here.pop()),
                name => {
                    let below = child(&here, name);
                    if self.modules.contains_key(&below) {
                        here = below;
                        continue;
                    }
                    let found = self.modules.get(&here)?;
                    if found.declared.contains(name) {
                        return Some(found.file);
                    }
                    if let Some(target) = found.names.get(name) {
                        let target: Vec<String> = target.iter().chain(&path[index + 1..]).cloned().collect();
                        return self.resolve(&here, &target, depth + 1);
                    }
                    let mut through = found.globs.iter().filter_map(|glob| {
                        let target: Vec<String> = glob.iter().chain(&path[index..]).cloned().collect();
                        self.resolve(&here, &target, depth + 1)
                    });
                    return through.next().or(Some(found.file));
                }
            }
        }
        self.modules.get(&here).map(|module| module.file)
    }
}

/// Whether a path that begins so stays in its crate, wherever it stands.
fn is_local(first: &str) -> bool {
    matches!(first, "crate" | "self" | "super")
}

fn child(module: &[String], name: &str) -> ModulePath {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

fn module_path(file: &str) -> ModulePath {
    let path = file.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

impl<'f> Module<'f> {
    fn read(file: &'f str, text: &str) -> Self {
        let code = lexer::code(text);
        let tokens = without_tests(&tokens(&code));
        let mut module =
            Module { file, declared: BTreeSet::new(), names: BTreeMap::new(), globs: Vec::new(), imports: Vec::new() };
        let mut at = 0;
        while at < tokens.len() {
            match tokens[at] {
                "use" => at = module.read_use(&tokens, at),
                "mod" => at += 2,
                "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" => {
                    module.declared.extend(tokens.get(at + 1).map(|name| (*name).to_owned()));
                    at += 1;
                }
                _ => {
                    let path = path_at(&tokens, at);
                    at += 2 * path.len().max(1) - 1;
                    if path.len() > 1 && is_local(&path[0]) {
                        module.imports.push(path);
                    }
                }
            }
        }
        module
    }

    /// Reads the `use` at `start`, and returns where the next item begins.
    fn read_use(&mut self, tokens: &[&str], start: usize) -> usize {
        let is_public = match start.checked_sub(1).map(|before| tokens[before]) {
            Some("pub") => true,
            // `pub(crate) use`, `pub(super) use`
            Some(")") => tokens[..start].iter().rev().take(6).any(|token| *token == "pub"),
            _ => false,
        };
        let length = tokens[start..].iter().position(|token| *token == ";").unwrap_or(tokens.len() - start);
        let mut leaves = Vec::new();
        read_tree(&tokens[start + 1..start + length], &[], &mut leaves);
        for (path, name) in leaves {
            match name {
                None => self.globs.push(path.clone()),
                Some(name) => drop(self.names.insert(name, path.clone())),
            }
            if !is_public {
                self.imports.push(path);
            }
        }
        start + length
    }
}

/// The paths of a `use` tree, each with the name that it has here; a glob has none. Returns the
/// length of the tree.
fn read_tree(tokens: &[&str], before: &[String], leaves: &mut Vec<(Vec<String>, Option<String>)>) -> usize {
    let mut path = before.to_vec();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match *token {
            "::" => {}
            "*" => {
                leaves.push((path, None));
                return at;
            }
            "{" => {
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    at += if tokens[at] == "," { 1 } else { read_tree(&tokens[at..], &path, leaves) };
                }
                return at + 1;
            }
            "as" => {
                leaves.push((path, tokens.get(at).map(|name| (*name).to_owned())));
                return at + 1;
            }
            "," | "}" => {
                at -= 1;
                break;
            }
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
    }
    let name = path.last().cloned();
    leaves.push((path, name));
    at.max(1)
}

/// The names of the path that begins at a token; none when the token belongs to the path before.
fn path_at(tokens: &[&str], start: usize) -> Vec<String> {
    // A path goes on here, or this is the scope in `pub(in crate::a)`.
    if start > 0 && tokens[start - 1] == "::" || tokens[..start].ends_with(&["(", "in"]) {
        return Vec::new();
    }
    let is_name = |token: &&&str| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut path: Vec<String> = tokens.get(start).filter(is_name).map(|name| (*name).to_owned()).into_iter().collect();
    let mut at = start + 1;
    while !path.is_empty()
        && tokens.get(at) == Some(&"::")
        && let Some(name) = tokens.get(at + 1).filter(is_name)
    {
        path.push((*name).to_owned());
        at += 2;
    }
    path
}

pub(super) fn tokens(code: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            ':' if rest.starts_with("::") => 2,
            first if is_name(first) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            first => first.len_utf8(),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// The tokens without the items that only a test build has.
pub(super) fn without_tests<'t>(tokens: &[&'t str]) -> Vec<&'t str> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_test_only(&tokens[at..]) {
            at += item(&tokens[at..]);
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// Whether an attribute begins here that leaves its item to test builds.
fn is_test_only(tokens: &[&str]) -> bool {
    let end = tokens.iter().position(|token| *token == "]").unwrap_or(tokens.len());
    let attribute = &tokens[..end];
    attribute.starts_with(&["#", "[", "cfg", "("]) && attribute.contains(&"test") && !attribute.contains(&"not")
}

/// The length of the item that begins here, attributes included: to its `;`, or to the end of its
/// block.
fn item(tokens: &[&str]) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate() {
        match *token {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 && matches!(*token, ";" | "}") {
            return index + 1;
        }
    }
    tokens.len()
}

/// The sets of files that reach each other by imports, each of two files or more.
fn circles<'f>(graph: &BTreeMap<&'f str, BTreeSet<&'f str>>) -> Vec<BTreeSet<&'f str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = graph.keys().map(|file| (*file, reach(graph, file))).collect();
    let mut circles = Vec::new();
    let mut placed = BTreeSet::new();
    for file in graph.keys() {
        let circle: BTreeSet<&str> =
            reached[file].iter().copied().filter(|other| reached[other].contains(file)).collect();
        if !circle.is_empty() && placed.insert(*file) {
            placed.extend(&circle);
            circles.push(circle);
        }
    }
    circles
}

/// Every file that a file imports, directly or through others.
fn reach<'f>(graph: &BTreeMap<&'f str, BTreeSet<&'f str>>, from: &'f str) -> BTreeSet<&'f str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(file) = open.pop() {
        open.extend(graph[file].iter().filter(|next| reached.insert(**next)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    /// File `number` of a crate, which imports file `next`.
    fn link(name: &str, number: usize, next: usize) -> SourceFile {
        let text = format!("use crate::m{next}::M{next}; pub struct M{number};");
        file(&format!("crates/{name}/src/m{number}.rs"), &text)
    }

    /// A crate whose files import each other in one circle.
    fn ring(count: usize) -> Vec<SourceFile> {
        (0..count).map(|number| link("a", number, (number + 1) % count)).collect()
    }

    /// The imports of a crate, as `from -> to`.
    #[track_caller]
    fn check_imports(files: &[(&str, &str)], expected: &[&str]) {
        let files: Vec<_> = files.iter().map(|(path, text)| file(&format!("crates/a/src/{path}"), text)).collect();
        let graph = Modules::read("crates/a/src/", &files.iter().collect::<Vec<_>>()).imports();
        let arrows = graph.iter().flat_map(|(from, to)| to.iter().map(move |to| format!("{from} -> {to}")));
        assert_eq!(arrows.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn seven_files_in_a_circle_are_named_and_six_are_not() {
        assert_eq!(check(&ring(6)), []);
        let found = check(&ring(7));
        assert_eq!((found.len(), found[0].place.as_str()), (1, "crates/a/src/"));
        assert!(found[0].message.starts_with("7 files"), "{}", found[0].message);
        assert!(found[0].message.contains("\n    m6.rs imports m0.rs"), "{}", found[0].message);
    }

    #[test]
    fn a_circle_does_not_include_the_files_above_and_below_it() {
        let chain: Vec<_> = (0..20).map(|number| link("a", number, number + 1)).collect();
        assert_eq!(check(&chain), []);
        let mut files = ring(7);
        files[2].text += "use crate::low::Low;";
        files.push(file("crates/a/src/low.rs", "pub struct Low;"));
        files.push(file("crates/a/src/high.rs", "use crate::m3::M3;"));
        let found = check(&files);
        assert!(found.len() == 1 && found[0].message.starts_with("7 files"), "{found:?}");
    }

    #[test]
    fn a_circle_ends_at_the_crate() {
        let crate_of = |number| if number < 4 { "a" } else { "b" };
        let files: Vec<_> = (0..8).map(|number| link(crate_of(number), number, (number + 1) % 8)).collect();
        assert_eq!(check(&files), []);
    }

    #[test]
    fn paths_lead_to_the_file_that_declares_the_name() {
        check_imports(
            &[
                ("lib.rs", "mod a; mod b; pub use b::inner::Deep; pub use b::Plain as Other;"),
                ("a.rs", "use crate::{Deep, b::{self, inner}}; fn f() -> crate::Other { super::b::g() }"),
                ("b/mod.rs", "mod inner; pub struct Plain; pub use inner::*; fn g() { inner::h() }"),
                ("b/inner.rs", "pub struct Deep; use super::Plain; use super::super::a::f;"),
            ],
            &["a.rs -> b/inner.rs", "a.rs -> b/mod.rs", "b/inner.rs -> a.rs", "b/inner.rs -> b/mod.rs"],
        );
        check_imports(
            &[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "use crate::b::Deep;"),
                ("b.rs", "mod inner; mod other; pub use inner::*; use other::run; fn f() { self::other::g() }"),
                ("b/inner.rs", "pub enum Deep { One }"),
                ("b/other.rs", "fn run() {}"),
            ],
            &["a.rs -> b/inner.rs", "b.rs -> b/other.rs"],
        );
    }

    #[test]
    fn modules_re_exports_tests_and_other_crates_do_not_count_as_imports() {
        check_imports(
            &[
                ("lib.rs", "mod a; mod b; pub use a::A; pub(crate) use b::B;"),
                ("a.rs", "pub(in crate::b) struct A; use std::b::B; // crate::b\nconst T: &str = \"crate::b::B\";"),
                (
                    "b.rs",
                    "#[cfg(test)]\nmod tests { use crate::a::A; fn f() {} }\n#[cfg(all(test, unix))]\nuse crate::a::C;",
                ),
            ],
            &[],
        );
        check_imports(
            &[
                ("b.rs", "#[cfg(test)]\nmod tests { fn f() {} }\nuse crate::a::A;"),
                ("a.rs", "pub struct A; #[cfg(not(test))]\nuse crate::c::C;"),
                ("c.rs", "pub struct C;"),
            ],
            &["a.rs -> c.rs", "b.rs -> a.rs"],
        );
    }
}
