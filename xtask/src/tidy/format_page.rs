//! Rule `format`: the page on the file format and the code that defines it change together.
//!
//! The page contains two comments. One lists the sources that define formats; a path that ends in
//! `/` means every Rust file below. The other has their hash at the time of the last review of the
//! page. The hash is FNV-1a (64 bits) over each source's path and text, without comments and with
//! normalized spaces, so that rewording and reformatting do not count.
//!
//! Some sources must be listed: `codec.rs` of the contract and the models, the log's `record/`, and
//! every file that writes a magic `QUIRE...`. The rule can't check whether the page is right.

use super::{Violation, is_rust, is_test, lexer};
use crate::workspace::SourceFile;

/// The page's path.
pub(super) const PAGE: &str = "docs/file-format.md";

/// The crates whose `codec.rs` writes data to disk.
const CODECS: [&str; 6] = ["model", "streams", "events", "jobs", "graph", "system"];

/// Directories in which every Rust file defines a format.
const FOLDERS: [&str; 2] = ["crates/log/src/record/", "crates/jobs/src/codec/"];

/// The prefix of every file of a database. Tools and tests may contain it.
const MAGIC: &str = "b\"QUIRE";
const MAGIC_AT: [&str; 2] = ["crates/log/src/", "crates/quire/src/"];

const PARTED: &str = "the code changed since the last review of the format page: review docs/file-format.md, then run cargo xtask tidy --bless";

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let complain = |message: String| Violation::new("format", PAGE, message);
    let (page, sources) = match page_and_sources(files) {
        Ok(found) => found,
        Err(message) => return vec![complain(message)],
    };
    let mut violations = Vec::new();
    for file in files.iter().filter(|file| defines_a_format(file)) {
        if !sources.iter().any(|source| source.path == file.path) {
            violations.push(complain(format!(
                "`{}` defines a format: describe it, and add it to `<!-- sources: ... -->`",
                file.path
            )));
        }
    }
    let found = hash(&sources);
    match comment(&page.text, "layout") {
        None => violations.push(complain(format!("add the line `<!-- layout: {found} -->`"))),
        Some(written) if written.trim() != found => violations.push(complain(PARTED.to_owned())),
        Some(_) => {}
    }
    violations
}

/// The page with the current hash of its sources.
pub(super) fn bless(files: &[SourceFile]) -> Result<String, String> {
    let (page, sources) = page_and_sources(files)?;
    let written =
        comment(&page.text, "layout").ok_or(format!("{PAGE} has no line `<!-- layout: HASH -->` to write to"))?;
    let old = format!("<!-- layout:{written}-->");
    Ok(page.text.replacen(&old, &format!("<!-- layout: {} -->", hash(&sources)), 1))
}

fn defines_a_format(file: &SourceFile) -> bool {
    let path = &file.path;
    let is_codec = CODECS.iter().any(|name| *path == format!("crates/{name}/src/codec.rs"));
    let is_in = |folders: &[&str]| is_rust(path) && folders.iter().any(|folder| path.starts_with(folder));
    let has_magic = is_in(&MAGIC_AT) && !is_test(path) && lexer::without_comments(&file.text).contains(MAGIC);
    is_codec || is_in(&FOLDERS) || has_magic
}

fn page_and_sources(files: &[SourceFile]) -> Result<(&SourceFile, Vec<&SourceFile>), String> {
    let page = files.iter().find(|file| file.path == PAGE).ok_or("the page is missing".to_owned())?;
    let list = comment(&page.text, "sources").ok_or("add the line `<!-- sources: a.rs b/ -->`".to_owned())?;
    let mut sources = Vec::new();
    for path in list.split_whitespace() {
        let is_meant = |file: &&SourceFile| {
            file.path == path || (path.ends_with('/') && file.path.starts_with(path) && is_rust(&file.path))
        };
        let before = sources.len();
        sources.extend(files.iter().filter(is_meant));
        if sources.len() == before {
            return Err(format!("the source `{path}` does not exist"));
        }
    }
    Ok((page, sources))
}

/// The content of `<!-- name: ... -->`.
fn comment<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, behind) = text.split_once(&format!("<!-- {name}:"))?;
    Some(behind.split_once("-->")?.0)
}

fn hash(sources: &[&SourceFile]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes.iter().chain(&[0]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for source in sources {
        add(source.path.as_bytes());
        lexer::without_comments(&source.text).split_whitespace().for_each(|word| add(word.as_bytes()));
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const SOURCE: &str = "crates/log/src/record/header.rs";

    /// A checkout whose page was blessed with the source `blessed`, and whose source is now `now`.
    fn checkout(blessed: &str, now: &str) -> Vec<SourceFile> {
        let page = "# Format\n<!-- sources:\n  crates/log/src/record/\n-->\n<!-- layout: 0 -->\n";
        let page = bless(&[file(PAGE, page), file(SOURCE, blessed)]).expect("it can be blessed");
        vec![file(PAGE, &page), file(SOURCE, now)]
    }

    fn messages(files: &[SourceFile]) -> Vec<String> {
        check(files).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn a_blessed_page_passes_until_the_code_changes() {
        assert_eq!(messages(&checkout("const A: u8 = 1;", "const A: u8 = 1;")), [""; 0]);
        assert_eq!(messages(&checkout("const A: u8 = 1;", "const A: u8 = 2;")), [PARTED]);
        assert_eq!(messages(&checkout("const A: &str = \"a\";", "const A: &str = \"b\";")), [PARTED]);
        assert_eq!(messages(&checkout("let a = bc;", "let a = b c;")), [PARTED]);
    }

    #[test]
    fn comments_and_layout_of_the_text_do_not_count() {
        assert_eq!(messages(&checkout("const A: u8 = 1;", "/// One.\nconst  A: u8\n  = 1; // one\n")), [""; 0]);
    }

    #[test]
    fn a_format_that_the_page_does_not_list_is_named() {
        let also = |path, text| {
            let mut files = checkout("", "");
            files.push(file(path, text));
            messages(&files).join("\n")
        };
        assert!(also("crates/jobs/src/codec.rs", "").contains("`crates/jobs/src/codec.rs` defines a format"));
        assert!(also("crates/quire/src/meta.rs", "const MAGIC: &[u8; 8] = b\"QUIREMET\";").contains("meta.rs"));
        assert_eq!(also("crates/quire/src/tests.rs", "const MAGIC: &[u8; 8] = b\"QUIREMET\";"), "");
        assert_eq!(also("crates/http/src/codec.rs", "const MAGIC: &[u8; 8] = b\"QUIREMET\";"), "");
        assert!(also("crates/log/src/record/entry.rs", "").contains(PARTED), "the page lists the whole folder");
    }

    #[test]
    fn a_missing_page_or_comment_is_reported() {
        assert_eq!(messages(&[]), ["the page is missing"]);
        assert!(messages(&[file(PAGE, "# Format")])[0].contains("<!-- sources:"));
        assert!(messages(&[file(PAGE, "<!-- sources: a.rs -->"), file("a.rs", "")])[0].contains("<!-- layout: "));
        assert!(messages(&[file(PAGE, "<!-- sources: a.rs -->")])[0].contains("`a.rs` does not exist"));
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(hash(&[]), "cbf29ce484222325");
        // The published value for the one byte 0x00: an empty path and its end.
        assert_eq!(hash(&[&file("", "")]), "af63bd4c8601b7df");
    }
}
