//! The memory of lists while the JSON of a request is parsed.
//!
//! An element takes a few bytes of a body and up to some hundred bytes of memory: `{}` is a whole
//! item of a query. So a list claims the memory of its elements before it grows, also a list inside
//! of another one.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Claims go to the meter for this number of bytes at a time. The first ones are free.
pub const METERED_BYTES: usize = 64 << 10;

/// The memory of an element is this number of times its size: the element, its copy in the commit,
/// and its reply.
const TIMES: usize = 3;

/// A claim of memory: returns whether there is as much.
type ListMeter = Box<dyn FnMut(usize) -> bool>;

thread_local! {
    static METER: RefCell<Option<ListMeter>> = const { RefCell::new(None) };
    /// The claimed bytes that no list has taken.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Parses a request, whose lists claim their memory from `claim`. When it returns false, parsing
/// fails.
pub fn metered<T>(claim: impl FnMut(usize) -> bool + 'static, parse: impl FnOnce() -> T) -> T {
    struct Metering(Option<ListMeter>, usize);
    impl Drop for Metering {
        fn drop(&mut self) {
            METER.set(self.0.take());
            LEFT.set(self.1);
        }
    }
    let _before = Metering(METER.replace(Some(Box::new(claim))), LEFT.replace(METERED_BYTES));
    parse()
}

/// Takes memory for elements; returns whether there is as much. Without a meter, there is.
fn take(bytes: usize) -> bool {
    let left = LEFT.get();
    if bytes <= left {
        LEFT.set(left - bytes);
        return true;
    }
    let claimed = bytes.max(METERED_BYTES);
    let is_granted = METER.with_borrow_mut(|meter| meter.as_mut().is_none_or(|claim| claim(claimed)));
    LEFT.set(if is_granted { left + claimed - bytes } else { 0 });
    is_granted
}

/// Deserializes a list, and claims its memory as it grows.
///
/// # Errors
/// Those of the deserializer, and when the meter refuses the memory.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(ListVisitor(PhantomData))
}

/// Collects the elements of a list.
struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            if elements.len() == elements.capacity() {
                let more = elements.len().max(4);
                if !take(TIMES * more * size_of::<T>()) {
                    return Err(A::Error::custom("the lists of the request exceed the free memory"));
                }
                elements.reserve_exact(more);
            }
            elements.push(element);
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::request::{AppendRequest, CommitRequest, ReadRequest};

    #[test]
    fn every_list_claims_its_memory_as_it_grows() {
        const COUNT: usize = 20_000;
        macro_rules! check {
            ($of:ty, $before:literal, $element:literal, $after:literal) => {
                let list = [$element; COUNT].join(",");
                let text = format!("{}{list}{}", $before, $after);
                // No element is smaller than a string.
                let least = COUNT * size_of::<String>();
                let parse = |text: &str, most: usize| {
                    let claimed = Rc::new(Cell::new(0));
                    let counted = Rc::clone(&claimed);
                    let claim = move |bytes: usize| {
                        counted.set(counted.get() + bytes);
                        counted.get() <= most
                    };
                    let parsed = metered(claim, || serde_json::from_str::<$of>(text).map(drop));
                    (claimed.get(), parsed)
                };
                let (claimed, parsed) = parse(&text, usize::MAX);
                assert!(parsed.is_ok(), "{}: {parsed:?}", $before);
                assert!(claimed >= least, "{}: {claimed}", $before);
                let (claimed, parsed) = parse(&text, least);
                assert!(parsed.is_err() && claimed <= 8 * least, "{}: {claimed}", $before);
                let few = format!("{}{}{}", $before, $element, $after);
                assert_eq!(parse(&few, 0).0, 0, "{}", $before);
            };
        }
        check!(CommitRequest<'_>, r#"{"parts":["#, r#"{"tick":{}}"#, "]}");
        check!(CommitRequest<'_>, r#"{"parts":[{"each":["#, r#"{"tick":{}}"#, "]}]}");
        check!(CommitRequest<'_>, r#"{"parts":[{"fetch":{"queues":["#, r#""""#, "]}}]}");
        check!(CommitRequest<'_>, r#"{"parts":[{"enqueue":{"queue":"q","payload":1,"tags":["#, r#""""#, "]}}]}");
        check!(
            CommitRequest<'_>,
            r#"{"parts":[{"produce":{"topic":"t","value":1,"headers":["#,
            r#"{"key":""}"#,
            "]}}]}"
        );
        check!(AppendRequest<'_>, r#"{"events":["#, r#"{"type":"a"}"#, "]}");
        check!(AppendRequest<'_>, r#"{"events":[{"type":"a","tags":["#, r#""""#, "]}]}");
        check!(AppendRequest<'_>, r#"{"conditions":["#, r#"{"fail_if_events_match":{"items":[]}}"#, "]}");
        check!(ReadRequest<'_>, r#"{"query":{"items":["#, "{}", "]}}");
        check!(ReadRequest<'_>, r#"{"query":{"items":[{"types":["#, r#""""#, "]}]}}");
        check!(ReadRequest<'_>, r#"{"query":{"items":[{"tags":["#, r#""""#, "]}]}}");
    }
}
