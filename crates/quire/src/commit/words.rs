//! Words, such as the tags of a job: one slice of the caller's, or a list that owns or borrows each
//! word.

use std::borrow::Cow;

#[derive(Debug, Clone)]
pub(crate) enum TextList<'c> {
    Slice(&'c [&'c str]),
    List(Vec<Cow<'c, str>>),
}

impl Default for TextList<'_> {
    fn default() -> Self {
        TextList::Slice(&[])
    }
}

impl<'c> TextList<'c> {
    pub(crate) fn push(&mut self, word: Cow<'c, str>) {
        match self {
            TextList::List(words) => words.push(word),
            TextList::Slice(words) => {
                let before = words.iter().map(|word| Cow::Borrowed(*word));
                *self = TextList::List(before.chain([word]).collect());
            }
        }
    }

    /// Returns the words of a list as a slice has them; `None` for a slice.
    pub(crate) fn listed(&self) -> Option<Vec<&str>> {
        match self {
            TextList::Slice(_) => None,
            TextList::List(words) => Some(words.iter().map(|word| &**word).collect()),
        }
    }

    /// Returns the words as one slice. `listed` is what [`TextList::listed`] returned.
    pub(crate) fn slice<'p>(&'p self, listed: Option<&'p [&'p str]>) -> &'p [&'p str] {
        match self {
            TextList::Slice(words) => words,
            TextList::List(_) => listed.expect("a list was listed"),
        }
    }
}
