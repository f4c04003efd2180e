//! Bounds of search expressions. FTS5 does not stop within a step, so an expression that takes long
//! is refused before.

use quire::{Error, ErrorKind, Result};

/// The most bytes of an expression.
const BYTES_MAX: usize = 1_024;

/// The most words of an expression.
const WORDS_MAX: usize = 64;

/// The most prefixes, such as `deliv*`. Each reads all words that begin so.
const PREFIXES_MAX: usize = 4;

/// The fewest letters of a prefix.
const PREFIX_LETTERS_MIN: usize = 2;

/// Checks the bounds of an expression.
///
/// # Errors
/// [`ErrorKind::Invalid`] without a word; [`ErrorKind::TooCostly`] beyond a bound.
pub(super) fn check(expression: &str) -> Result<()> {
    let refuse = |message: String| Err(Error::new(ErrorKind::TooCostly, message));
    if expression.len() > BYTES_MAX {
        return refuse(format!("the search expression has {} bytes, more than {BYTES_MAX}", expression.len()));
    }
    let words: Vec<&str> = expression.split(|letter: char| !letter.is_alphanumeric()).collect();
    let count = words.iter().filter(|word| !word.is_empty()).count();
    if count == 0 {
        return Err(Error::new(ErrorKind::Invalid, "the search expression has no word"));
    }
    if count > WORDS_MAX {
        return refuse(format!("the search expression has {count} words, more than {WORDS_MAX}"));
    }
    let prefixes = expression.split('*').count() - 1;
    if prefixes > PREFIXES_MAX {
        return refuse(format!("the search expression has {prefixes} prefixes, more than {PREFIXES_MAX}"));
    }
    for before in expression.split('*').take(prefixes) {
        let word = before.trim_end_matches([' ', '"']);
        let letters = word.chars().rev().take_while(|letter| letter.is_alphanumeric()).count();
        if letters < PREFIX_LETTERS_MIN {
            return refuse(format!(
                "the search expression has a prefix of {letters} letters, fewer than {PREFIX_LETTERS_MIN}: {word}*"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_beyond_a_bound_are_refused_by_its_name() {
        for usual in
            ["late", "iah late", "\"late plane\"", "NEAR(late plane, 3)", "deliv*", "\"one tw\" *", "a AND NOT b"]
        {
            check(usual).unwrap_or_else(|error| panic!("{usual}: {error}"));
        }
        let long = "w".repeat(1_025);
        let many = "w ".repeat(65);
        for (expression, kind, names) in [
            (&*long, ErrorKind::TooCostly, "1025 bytes, more than 1024"),
            (&*many, ErrorKind::TooCostly, "65 words, more than 64"),
            ("aa* ab* ac* ad* ae*", ErrorKind::TooCostly, "5 prefixes, more than 4"),
            ("a*", ErrorKind::TooCostly, "a prefix of 1 letters, fewer than 2"),
            ("one *", ErrorKind::TooCostly, ""),
            ("", ErrorKind::Invalid, "no word"),
            ("\"*\"", ErrorKind::Invalid, "no word"),
        ] {
            match check(expression) {
                Ok(()) => assert_eq!(names, "", "{expression}"),
                Err(error) => {
                    assert!(error.kind() == kind && error.to_string().contains(names), "{expression}: {error}")
                }
            }
        }
    }
}
