//! Repeated lines: the first is printed, the others are counted.
//!
//! Lines are counted for each place of the source that emits them, so the memory is bounded
//! whatever clients do. Within [`WINDOW_MS`] a place prints at most [`LINES_MAX`] lines, no two of
//! them equal. Lines at `debug` and `trace` are always printed.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

use super::fields::LineFields;

/// How long the lines of a place are counted, in milliseconds.
pub(super) const WINDOW_MS: u64 = 60_000;

/// Most lines of a place within a window.
const LINES_MAX: usize = 64;

/// The windows of all places.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    hasher: RandomState,
    windows: HashMap<Identifier, RepeatWindow>,
}

/// The lines of a place since its first one.
#[derive(Debug)]
struct RepeatWindow {
    begun_ms: u64,
    metadata: &'static Metadata<'static>,
    /// The hashes of the printed lines.
    printed: Vec<u64>,
    held: u64,
    /// The message of the last line that was counted.
    message: String,
}

/// Whether a line is printed.
#[derive(Debug)]
pub(super) enum LineVerdict {
    /// It is counted.
    Hold,
    /// It is printed, after the summary of the window before.
    Print { ended: Option<EndedWindow> },
}

/// A window that is over, with lines that were counted.
#[derive(Debug)]
pub(super) struct EndedWindow {
    pub(super) metadata: &'static Metadata<'static>,
    pub(super) message: String,
    pub(super) held: u64,
    /// The length of the window.
    pub(super) ms: u64,
}

impl Repeats {
    /// Notes a line, and returns whether it is printed.
    pub(super) fn note(
        &mut self,
        now_ms: u64,
        metadata: &'static Metadata<'static>,
        fields: &LineFields,
    ) -> LineVerdict {
        if *metadata.level() > Level::INFO {
            return LineVerdict::Print { ended: None };
        }
        let hash = self.hasher.hash_one(fields);
        let place = metadata.callsite();
        let over = self.windows.get(&place).is_some_and(|window| window.is_over(now_ms));
        let ended = if over { self.windows.remove(&place).and_then(|window| window.end(now_ms)) } else { None };
        let window = self.windows.entry(place).or_insert_with(|| RepeatWindow::begin(now_ms, metadata));
        if window.printed.len() < LINES_MAX && !window.printed.contains(&hash) {
            window.printed.push(hash);
            return LineVerdict::Print { ended };
        }
        window.held += 1;
        window.message.clear();
        window.message.push_str(fields.message());
        LineVerdict::Hold
    }

    /// Ends the windows whose time is over, and returns those with counted lines.
    pub(super) fn ended(&mut self, now_ms: u64) -> Vec<EndedWindow> {
        let over = self.windows.extract_if(|_, window| window.is_over(now_ms));
        over.filter_map(|(_, window)| window.end(now_ms)).collect()
    }

    /// Ends all windows.
    pub(super) fn end_all(&mut self, now_ms: u64) -> Vec<EndedWindow> {
        self.windows.drain().filter_map(|(_, window)| window.end(now_ms)).collect()
    }
}

impl RepeatWindow {
    fn begin(now_ms: u64, metadata: &'static Metadata<'static>) -> Self {
        RepeatWindow { begun_ms: now_ms, metadata, printed: Vec::new(), held: 0, message: String::new() }
    }

    /// A clock that was set back begins a new window.
    fn is_over(&self, now_ms: u64) -> bool {
        now_ms < self.begun_ms || now_ms - self.begun_ms >= WINDOW_MS
    }

    fn end(self, now_ms: u64) -> Option<EndedWindow> {
        let RepeatWindow { begun_ms, metadata, held, message, .. } = self;
        (held > 0).then(|| EndedWindow { metadata, message, held, ms: now_ms.saturating_sub(begun_ms) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{Event, Subscriber};
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use super::*;

    /// Notes events at a time that the test sets.
    #[derive(Default)]
    struct Noted {
        now_ms: u64,
        repeats: Repeats,
        printed: Vec<String>,
    }

    impl Noted {
        fn report(&mut self, ended: impl IntoIterator<Item = EndedWindow>) {
            for EndedWindow { message, held, ms, .. } in ended {
                self.printed.push(format!("{message} … {held} more in {ms} ms"));
            }
        }
    }

    #[derive(Clone, Default)]
    struct NotingLayer(Arc<Mutex<Noted>>);

    impl<S: Subscriber> Layer<S> for NotingLayer {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut noted = self.0.lock().expect("no panic");
            let fields = LineFields::of(event);
            let now_ms = noted.now_ms;
            if let LineVerdict::Print { ended } = noted.repeats.note(now_ms, event.metadata(), &fields) {
                noted.report(ended);
                noted.printed.push(fields.message().to_owned());
            }
        }
    }

    fn check(scenario: impl FnOnce(&Mutex<Noted>), expect: &[&str]) {
        let layer = NotingLayer::default();
        let noted = Arc::clone(&layer.0);
        tracing::subscriber::with_default(Registry::default().with(layer), || scenario(&noted));
        assert_eq!(noted.lock().expect("no panic").printed, expect);
    }

    #[test]
    fn equal_lines_are_counted_until_the_window_ends() {
        let say = |name: &str| tracing::warn!(name, "failed");
        let scenario = |noted: &Mutex<Noted>| {
            (0..87).for_each(|_| say("a"));
            say("b");
            noted.lock().expect("no panic").now_ms = WINDOW_MS - 1;
            say("a");
            noted.lock().expect("no panic").now_ms = WINDOW_MS;
            say("a");
            let mut noted = noted.lock().expect("no panic");
            let (early, late) = (noted.repeats.ended(WINDOW_MS + 1), noted.repeats.end_all(WINDOW_MS + 2));
            noted.report(early.into_iter().chain(late));
        };
        check(scenario, &["failed", "failed", "failed … 87 more in 60000 ms", "failed"]);
    }

    #[test]
    fn a_place_prints_a_bounded_number_of_different_lines() {
        let scenario = |noted: &Mutex<Noted>| {
            (0..1_000_u64).for_each(|number| tracing::info!(number, "refused"));
            let mut noted = noted.lock().expect("no panic");
            assert_eq!(noted.printed.len(), LINES_MAX);
            noted.printed.clear();
            let ended = noted.repeats.ended(WINDOW_MS);
            noted.report(ended);
        };
        check(scenario, &["refused … 936 more in 60000 ms"]);
    }

    #[test]
    fn debug_lines_are_all_printed() {
        check(|_| (0..3).for_each(|_| tracing::debug!("request")), &["request"; 3]);
    }
}
