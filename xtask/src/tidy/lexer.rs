//! Separates the code of a Rust file from its comments and its literals.
//!
//! Each view has the length and the lines of the text; everything outside the view is blank. It
//! knows nested comments, raw and byte strings, and the difference between lifetimes and
//! characters. It knows no other token, and never fails.

/// The kind of a byte of a Rust file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Comment,
    Literal,
}

/// The code alone: without comments and literals.
pub(crate) fn code(text: &str) -> String {
    view(text, |part| part == Part::Code)
}

/// The comments alone, doc comments included.
pub(crate) fn comments(text: &str) -> String {
    view(text, |part| part == Part::Comment)
}

/// Everything except the comments.
pub(crate) fn without_comments(text: &str) -> String {
    view(text, |part| part != Part::Comment)
}

/// The lines, from 1, that contain `word` as a whole word. A word may contain punctuation: `todo!`.
pub(crate) fn lines_with<'a>(view: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    view.lines().enumerate().filter(move |(_, line)| has_word(line, word)).map(|(index, _)| index + 1)
}

fn has_word(line: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        let begins = !word.starts_with(is_name) || !before.is_some_and(is_name);
        let ends = !word.ends_with(is_name) || !after.is_some_and(is_name);
        begins && ends
    })
}

fn view(text: &str, keeps: impl Fn(Part) -> bool) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (part, length) = next_part(rest, kept.chars().next_back());
        for c in rest[..length].chars() {
            kept.push(if c == '\n' || keeps(part) { c } else { ' ' });
        }
        rest = &rest[length..];
    }
    kept
}

/// The kind and the length in bytes of the first token. `before` is the character before the text.
fn next_part(text: &str, before: Option<char>) -> (Part, usize) {
    if text.starts_with("//") {
        return (Part::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Part::Comment, block_comment(text));
    }
    let first = text.chars().next().expect("there is text");
    if first == '"' {
        return (Part::Literal, quoted(text, '"'));
    }
    if first == '\'' {
        return character(text).map_or((Part::Code, 1), |length| (Part::Literal, length));
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if is_name(first) && !before.is_some_and(is_name) {
        let name = text.find(|c| !is_name(c)).unwrap_or(text.len());
        let behind = &text[name..];
        let length = match &text[..name] {
            "r" | "br" | "cr" => raw_string(behind),
            "b" | "c" if behind.starts_with('"') => Some(quoted(behind, '"')),
            "b" if behind.starts_with('\'') => Some(quoted(behind, '\'')),
            _ => None,
        };
        return length.map_or((Part::Code, name), |length| (Part::Literal, name + length));
    }
    (Part::Code, first.len_utf8())
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of a literal between two `quote` characters, in which `\` escapes the next character.
fn quoted(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// The length of a raw string after its `r`, or `None` when none begins here (`r#name`).
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.bytes().take_while(|byte| *byte == b'#').count();
    if !text[hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = hashes + 1;
    Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()))
}

/// The length of a character literal, or `None` when the quote begins a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        return Some(quoted(text, '\''));
    }
    chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, of_code: &str, of_comments: &str) {
        let squeezed = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(code(text)), of_code);
        assert_eq!(squeezed(comments(text)), of_comments);
        assert_eq!(code(text).lines().count(), text.lines().count());
    }

    #[test]
    fn comments_and_code_are_separated() {
        check("let a = 1; // one\nlet b;", "let a = 1; let b;", "// one");
        check("a /* b /* c */ d */ e", "a e", "/* b /* c */ d */");
        check("a // no end", "a", "// no end");
    }

    #[test]
    fn quoted_text_is_neither_code_nor_comment() {
        check(r#"f("// not \" a comment", b"x", c"y") // but this"#, "f( , , )", "// but this");
        check("f(r\"\\\", r#\"a \" // b\"#, br##\"\"# c\"##)", "f( , , )", "");
        check("f('\"', '\\'', b'\\'', '/') // end", "f( , , , )", "// end");
    }

    #[test]
    fn a_lifetime_is_not_read_as_a_character_and_a_raw_name_not_as_a_string() {
        check("fn f<'a>(x: &'a str) -> &'static str { r#fn }", "fn f<'a>(x: &'a str) -> &'static str { r#fn }", "");
        check("bar\"x\" y", "bar y", "");
    }

    #[test]
    fn a_word_is_found_whole_or_not_at_all() {
        let lines = |text, word| lines_with(text, word).collect::<Vec<_>>();
        assert_eq!(lines("a std::b\nstdin\nmy_std\nuse std;", "std"), [1, 4]);
        assert_eq!(lines("todo!()\nnot_todo!()\n todo !", "todo!"), [1]);
        assert_eq!(lines("allow(dead_code)\nallow(dead_codes)", "dead_code"), [1]);
    }
}
