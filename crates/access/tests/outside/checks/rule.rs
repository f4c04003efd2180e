//! Rules as text: the first line says of which type the second is.

use std::fmt::Display;
use std::str::FromStr;

use quire::system::{AccessRule, RuleSubject};
use quire_access::NameRule;

/// Whether the text is one of its type. It is then shown as it is read.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Some((of, text)) = text.split_once('\n') else { return false };
    match of {
        "rule" => is_read::<AccessRule>(text),
        "subject" => text.parse::<RuleSubject>().is_ok(),
        "name" => is_read::<NameRule>(text),
        _ => false,
    }
}

fn is_read<T: FromStr + Display + PartialEq>(text: &str) -> bool {
    let Ok(read) = text.parse::<T>() else { return false };
    let shown = read.to_string();
    let again = shown.parse::<T>().ok();
    assert!(again.is_some_and(|again| again == read), "{text:?} is shown as {shown:?}");
    true
}
