//! The words in a build for the model checker: memory of one run, instead of a file. Only the words
//! that a test names exist, because the checker keeps the history of each.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quire_threads::{AtomicBool, AtomicU64, Ordering, Sleepers, yield_now};

/// Some words, the same for every clone: a clone represents another process that maps the file.
#[derive(Debug, Clone)]
pub struct SharedWords {
    words: Arc<BTreeMap<usize, Word>>,
}

#[derive(Debug, Default)]
struct Word {
    number: AtomicU64,
    asleep: Sleepers,
    /// Whether every sleep with a timeout is over.
    time_is_over: AtomicBool,
}

impl SharedWords {
    /// Creates words with these indexes, all of them 0.
    pub fn in_memory(indexes: impl IntoIterator<Item = usize>) -> Self {
        SharedWords { words: Arc::new(indexes.into_iter().map(|index| (index, Word::default())).collect()) }
    }

    /// A file is not explored.
    ///
    /// # Errors
    /// Always.
    pub fn of_file(_file: &File, _count: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the word with this index.
    ///
    /// # Panics
    /// When the test has not declared the word.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        &self.named(index).number
    }

    /// Sleeps until the word is woken; does not sleep when its lower 32 bits are no longer
    /// `expected`. [`SharedWords::end_sleeps`] ends it.
    ///
    /// # Panics
    /// When the test has not declared the word.
    pub fn wait(&self, index: usize, expected: u32, timeout: Option<Duration>) {
        let word = self.named(index);
        let is_over = || timeout.is_some() && word.time_is_over.load(Ordering::Acquire);
        word.asleep.wait(|| !is_over() && word.number.load(Ordering::Relaxed) as u32 == expected);
        if is_over() {
            // A thread that polls lets the others continue.
            yield_now();
        }
    }

    /// Ends every sleep on a word, now and later, as if its timeout had expired.
    ///
    /// # Panics
    /// When the test has not declared the word.
    pub fn end_sleeps(&self, index: usize) {
        self.named(index).time_is_over.store(true, Ordering::Release);
        self.wake(index, u32::MAX);
    }

    /// Wakes at most `count` threads that sleep on a word: 1, or any number for all.
    ///
    /// # Panics
    /// When the test has not declared the word.
    pub fn wake(&self, index: usize, count: u32) {
        self.named(index).asleep.wake(count);
    }

    fn named(&self, index: usize) -> &Word {
        self.words.get(&index).unwrap_or_else(|| panic!("the test must declare word {index}"))
    }
}
