//! Words, such as the tags of a job: one slice of the caller's, or a list that owns or borrows each
//! word.

use std::borrow::Cow;

#[derive(Debug, Clone)]
pub(crate) enum Words<'c> {
    Slice(&'c [&'c str]),
    List(Vec<Cow<'c, str>>),
}

impl Default for Words<'_> {
    fn default() -> Self {
        Words::Slice(&[])
    }
}

impl<'c> Words<'c> {
    pub(crate) fn push(&mut self, word: Cow<'c, str>) {
        match self {
            Words::List(words) => words.push(word),
            Words::Slice(words) => {
                let before = words.iter().map(|word| Cow::Borrowed(*word));
                *self = Words::List(before.chain([word]).collect());
            }
        }
    }

    /// Returns the words of a list as a slice has them; `None` for a slice.
    pub(crate) fn listed(&self) -> Option<Vec<&str>> {
        match self {
            Words::Slice(_) => None,
            Words::List(words) => Some(words.iter().map(|word| &**word).collect()),
        }
    }

    /// Returns the words as one slice. `listed` is what [`Words::listed`] returned.
    pub(crate) fn slice<'p>(&'p self, listed: Option<&'p [&'p str]>) -> &'p [&'p str] {
        match self {
            Words::Slice(words) => words,
            Words::List(_) => listed.expect("a list was listed"),
        }
    }
}
