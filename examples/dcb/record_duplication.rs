//! Prevent record duplication: a token that the client generated with the form makes a second
//! submission fail.

use quire::events::{NewEvent, QueryItem};
use quire::{EventStore, Projection};

use crate::TRIES;
use crate::scenario::Answer;

/// Places an order.
pub(crate) fn place(store: &EventStore, order: &str, token: &str) -> Answer {
    let token = format!("idempotency:{token}");
    let was_used =
        || Projection::new(QueryItem::new().event_type("OrderPlaced").tag(&token), false, |used, _| *used = true);
    store.decide(TRIES, was_used, |was_used| {
        if was_used {
            return Err("Re-submission".to_owned());
        }
        Ok(vec![NewEvent::new("OrderPlaced").tag(format!("order:{order}")).tag(token.as_str())])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::check;

    #[test]
    fn a_token_is_good_for_one_order() {
        let given = "OrderPlaced order:o12345 idempotency:11111";
        check(given, |store, _| place(store, "o54321", "11111"), Err("Re-submission"));
        let placed = Ok("OrderPlaced order:o54321 idempotency:22222");
        check(given, |store, _| place(store, "o54321", "22222"), placed);
    }
}
