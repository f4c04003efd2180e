//! The prose of a file: the paragraphs of its comments, or of a page outside of code and tables.
//!
//! Spans of code count as one word. Headings and tables are left out, and so are fenced code
//! blocks.

use super::super::{is_rust, lexer};

/// Adjacent lines that are read as one text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Paragraph {
    /// Its first line, from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// Maximum width of a line of comment.
const WIDTH: usize = 100;

/// The paragraphs of a Rust file, a `.proto` file, or a page.
pub(super) fn paragraphs(path: &str, text: &str) -> Vec<Paragraph> {
    if path.ends_with(".md") {
        return gather(text.lines().map(|line| Some(Line { body: line, alone: false })));
    }
    let comments = comments(path, text);
    gather(comments.lines().zip(text.lines()).map(|(comment, line)| {
        let body = comment.trim().strip_prefix("//")?;
        let body = body.strip_prefix(['/', '!']).unwrap_or(body);
        Some(Line { body: body.strip_prefix(' ').unwrap_or(body), alone: !line.trim_start().starts_with("//") })
    }))
}

/// The lines, from 1, of comments that are too wide. URLs, tables and code blocks may be wider.
pub(super) fn too_wide(path: &str, text: &str) -> Vec<usize> {
    let comments = comments(path, text);
    let mut fenced = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(comments.lines()) {
        let body = line.trim_start().trim_start_matches(['/', '!']).trim_start();
        if line.trim_start().is_empty() {
            fenced = false;
        } else if body.starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !body.starts_with('|') && line.trim_end().chars().count() > WIDTH && !line.contains("://")
        {
            found.push(number);
        }
    }
    found
}

/// How many words a text has.
pub(super) fn words(text: &str) -> usize {
    text.split(|c: char| !c.is_ascii_alphabetic() && c != '\'').filter(|word| !word.is_empty()).count()
}

/// The sentences of a text.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(char::is_whitespace) {
        if text[..at].ends_with(['.', '!', '?']) {
            found.push(&text[start..at]);
            start = at + 1;
        }
    }
    found.push(&text[start..]);
    found
}

fn comments(path: &str, text: &str) -> String {
    if is_rust(path) || path.ends_with(".proto") { lexer::comments(text) } else { String::new() }
}

struct Line<'a> {
    body: &'a str,
    /// It follows code on its line, so it is a paragraph by itself.
    alone: bool,
}

fn gather<'a>(lines: impl Iterator<Item = Option<Line<'a>>>) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let (mut fenced, mut open) = (false, false);
    for (number, line) in (1..).zip(lines) {
        let Some(line) = line else {
            (fenced, open) = (false, false);
            continue;
        };
        let body = line.body.trim();
        let is_fence = body.starts_with("```");
        fenced ^= is_fence;
        let is_prose = !body.starts_with(['#', '|'])
            && !["SAFETY", "SPDX", "---", "===", "-=-"].iter().any(|mark| body.starts_with(mark));
        if fenced || is_fence || body.is_empty() || !is_prose {
            open = false;
            continue;
        }
        if !open || line.alone || is_item(body) {
            paragraphs.push(Paragraph { line: number, text: String::new() });
        }
        let paragraph = paragraphs.last_mut().expect("one was pushed before the first line is added");
        if !paragraph.text.is_empty() {
            paragraph.text.push(' ');
        }
        paragraph.text.push_str(&without_code(body));
        open = !line.alone;
    }
    paragraphs
}

/// Whether a line begins an item of a list.
fn is_item(body: &str) -> bool {
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    body.starts_with("* ") || body.starts_with("- ") || (digits > 0 && body[digits..].starts_with(". "))
}

/// The line with each span of code as the word `code`.
fn without_code(line: &str) -> String {
    let mut pieces = line.split('`').enumerate().peekable();
    let mut text = String::new();
    while let Some((index, piece)) = pieces.next() {
        let is_closed = pieces.peek().is_some();
        text.push_str(match (index % 2 == 1, is_closed) {
            (false, _) => piece,
            (true, true) => "code",
            (true, false) => piece,
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expect: &[(usize, &str)]) {
        let paragraphs = paragraphs(path, text);
        let found: Vec<_> = paragraphs.iter().map(|paragraph| (paragraph.line, paragraph.text.as_str())).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn comments_are_read_by_paragraph() {
        check(
            "a.rs",
            "//! One\n//! two.\n//!\n//! # Heading\n//! Three.\nfn f() {\n    // Four\n}\n",
            &[(1, "One two."), (5, "Three."), (7, "Four")],
        );
        check(
            "a.rs",
            "// one\n//\n// * two\n//   three\n// * four\n// 10. five",
            &[(1, "one"), (3, "* two three"), (5, "* four"), (6, "10. five")],
        );
        check("a.rs", "a: u8, // one\nb: u8, // two\n// three", &[(1, "one"), (2, "two"), (3, "three")]);
        check("a.proto", "syntax = \"proto3\";\n// one\nmessage A {}", &[(2, "one")]);
    }

    #[test]
    fn code_and_tables_are_left_out() {
        check(
            "a.rs",
            "/// See [`Log`]:\n///\n/// ```\n/// let a = told();\n/// ```\n/// | a |\n/// end",
            &[(1, "See [code]:"), (7, "end")],
        );
        check("a.rs", "let a = \"// no comment\";\n// SAFETY: told\nlet b = 1;", &[]);
        check(
            "a.md",
            "# Title\none `a b` two\n\n| who | is |\n|---|---|\n\n```sh\nwho is\n```\nend",
            &[(2, "one code two"), (10, "end")],
        );
    }

    #[test]
    fn wide_comments_are_named_unless_a_url_makes_them_wide() {
        let wide = "a ".repeat(49);
        let text = format!("// {wide}\n    // {wide}\n// https://example.org/{wide}\nlet a = \"{wide}{wide}\";\n");
        assert_eq!(too_wide("a.rs", &text), [2]);
        assert_eq!(too_wide("a.rs", &format!("// ```\n// {wide}{wide}\n// ```\n// | {wide}\n// b {wide}")), [5]);
        assert!(too_wide("a.md", &format!("// {wide}{wide}")).is_empty());
    }

    #[test]
    fn words_and_sentences_are_counted() {
        assert_eq!(words("the client's 2nd try, code"), 5);
        assert_eq!(sentences("One two. Three! Four (e.g. five)"), ["One two.", "Three!", "Four (e.g.", "five)"]);
    }
}
