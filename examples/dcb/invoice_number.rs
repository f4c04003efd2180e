//! Invoice numbers: consecutive without a gap, however many writers create invoices at the same
//! time.

use quire::events::{NewEvent, QueryItem};
use quire::{EventStore, Projection};

use crate::TRIES;
use crate::scenario::{Answer, number};

/// Creates the next invoice. Only the last one is read.
pub(crate) fn create(store: &EventStore) -> Answer {
    let next = || {
        let last = QueryItem::new().event_type("InvoiceCreated").only_last_event();
        Projection::new(last, 1, |next, event| *next = number(event, "number") + 1)
    };
    store.decide(TRIES, next, |next| Ok(vec![NewEvent::new("InvoiceCreated").data(format!("number={next}"))]))
}

#[cfg(test)]
mod tests {
    use quire::events::{Query, ReadOptions};

    use super::*;
    use crate::scenario::{check, with_store};

    #[test]
    fn the_first_is_1_and_the_next_one_more() {
        check("", |store, _| create(store), Ok("InvoiceCreated | number=1"));
        check("InvoiceCreated | number=1", |store, _| create(store), Ok("InvoiceCreated | number=2"));
    }

    #[test]
    fn those_who_create_at_once_leave_no_gap() {
        with_store("", |_, store| {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..50).for_each(|_| assert!(create(store).expect("no error").is_ok())));
                }
            });
            let mut numbers = Vec::new();
            store
                .visit(&Query::all(), ReadOptions::default(), |event| numbers.push(number(&event, "number")))
                .expect("read");
            assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
        });
    }
}
