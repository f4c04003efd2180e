//! Where statements end in a text: at a `;` outside of quotes and comments.

/// A text of SQL, whose quotes and comments are known.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::verbs) struct SqlText<'t> {
    text: &'t str,
    /// The text with spaces in the place of comments and with `'` in the place of quoted parts. It
    /// has the same length.
    code: String,
    /// Whether a quoted part or a comment is open at the end.
    is_open: bool,
}

impl<'t> SqlText<'t> {
    /// Finds the quotes and the comments of a text.
    pub(in crate::verbs) fn parse(text: &'t str) -> Self {
        let bytes = text.as_bytes();
        let mut code = bytes.to_vec();
        let (mut at, mut is_open) = (0, false);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let (end, cover) = match rest {
                [quote @ (b'\'' | b'"' | b'`'), ..] => (quoted_end(rest, *quote), b'\''),
                [b'[', ..] => (end_after(&rest[1..], b"]").map(|end| end + 1), b'\''),
                // Its end is no part of it: a text that ends here is complete.
                [b'-', b'-', ..] => (Some(end_after(rest, b"\n").map_or(rest.len(), |end| end - 1)), b' '),
                [b'/', b'*', ..] => (end_after(&rest[2..], b"*/").map(|end| end + 2), b' '),
                _ => {
                    at += 1;
                    continue;
                }
            };
            is_open = end.is_none();
            let end = at + end.unwrap_or(rest.len());
            code[at..end].fill(cover);
            at = end;
        }
        let code = String::from_utf8(code).expect("whole characters were replaced");
        SqlText { text, code, is_open }
    }

    /// The text outside of quotes and comments.
    pub(in crate::verbs) fn code(&self) -> &str {
        &self.code
    }

    /// Whether the end is in a quoted part or in a comment. A comment up to the end of a line does
    /// not count.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether each statement ends with a `;`.
    pub(super) fn is_complete(&self) -> bool {
        let rest = self.code.rsplit_once(';').map_or(&*self.code, |(_, rest)| rest);
        !self.is_open && rest.trim().is_empty()
    }

    /// The statements, without the `;` at their ends.
    pub(super) fn statements(&self) -> Vec<&'t str> {
        let (mut statements, mut begin) = (Vec::new(), 0);
        for code in self.code.split(';') {
            let end = begin + code.len();
            if !code.trim().is_empty() {
                statements.push(self.text[begin..end].trim());
            }
            begin = end + 1;
        }
        statements
    }
}

/// The end of a quoted part at the start of `bytes`. A doubled quote stands for one.
fn quoted_end(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut at = 1;
    loop {
        at += bytes[at..].iter().position(|byte| *byte == quote)? + 1;
        if bytes.get(at) != Some(&quote) {
            return Some(at);
        }
        at += 1;
    }
}

/// The end of the first `mark`.
fn end_after(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark).map(|start| start + mark.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_at_a_semicolon_outside_of_quotes_and_comments() {
        for (text, expected) in [
            ("SELECT 1;", &["SELECT 1"][..]),
            ("SELECT 1;;\n SELECT 'a;b''c;' ;", &["SELECT 1", "SELECT 'a;b''c;'"]),
            ("SELECT \";\", [;], `;`;", &["SELECT \";\", [;], `;`"]),
            ("SELECT 1 -- a; b\n + 2;", &["SELECT 1 -- a; b\n + 2"]),
            ("SELECT 1 /* a; é */ + 2; -- the end; \n", &["SELECT 1 /* a; é */ + 2"]),
            ("-- nothing", &[]),
            (" ; ", &[]),
            ("", &[]),
        ] {
            let parsed = SqlText::parse(text);
            assert!(parsed.is_complete(), "{text}");
            assert_eq!(parsed.statements(), expected, "{text}");
        }
    }

    #[test]
    fn a_text_is_incomplete_without_a_semicolon_at_its_end() {
        for text in
            ["SELECT 1", "SELECT 1; SELECT", "SELECT 'a;", "SELECT 'a'';", "SELECT [a;", "SELECT 1 /* ;", "S -- ;"]
        {
            assert!(!SqlText::parse(text).is_complete(), "{text}");
        }
    }

    #[test]
    fn quotes_and_comments_are_covered() {
        let parsed = SqlText::parse("a 'é' /* é */ \"b\" --c");
        assert_eq!(parsed.code(), format!("a ''''{}'''{}", " ".repeat(10), " ".repeat(4)));
        assert!(!parsed.is_open());
        assert!(SqlText::parse("a /*").is_open() && SqlText::parse("a 'b").is_open());
    }
}
