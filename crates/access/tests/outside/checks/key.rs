//! The text of an API key.

use quire::system::KeyText;

/// Whether the bytes are a key.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(key) = KeyText::parse(text) else { return false };
    assert_eq!(key.reveal(), text);
    assert!(text.contains(key.id().as_str()));
    assert!(!format!("{key:?}").contains(&text[text.len() - 38..]), "the secret is not shown");
    true
}
