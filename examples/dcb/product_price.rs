//! Dynamic prices: a product is ordered at the price that the customer saw, which may have changed
//! some minutes ago. An order of several products is one event, guarded by one condition over one
//! projection a product.

use quire::events::{NewEvent, QueryItem};
use quire::{EventStore, Project, Projection, Timestamp};

use crate::TRIES;
use crate::scenario::{Answer, number};

/// For how long the price before a change is still good, in minutes.
const GRACE_MINUTES: u64 = 10;

/// The prices at which a product may be ordered at the time `now`.
fn prices(product: &str, now: Timestamp) -> impl Project<State = Vec<u64>> + use<> {
    let tag = format!("product:{product}");
    let item = QueryItem::new().event_type("ProductDefined").event_type("ProductPriceChanged").tag(&tag);
    Projection::new(item, Vec::new(), move |prices: &mut Vec<u64>, event| {
        let is_recent = now.as_micros().saturating_sub(event.time.as_micros()) <= GRACE_MINUTES * 60_000_000;
        if !is_recent {
            prices.clear();
        }
        prices.push(number(event, "price"));
    })
}

/// Orders products at the prices that were shown.
pub(crate) fn order(store: &EventStore, cart: &[(&str, u64)], now: Timestamp) -> Answer {
    let projections = || cart.iter().map(|(product, _)| prices(product, now)).collect::<Vec<_>>();
    store.decide(TRIES, projections, |valid| {
        for ((product, price), valid) in cart.iter().zip(&valid) {
            if !valid.contains(price) {
                return Err(format!("invalid price for product \"{product}\""));
            }
        }
        let ordered = cart
            .iter()
            .fold(NewEvent::new("ProductsOrdered"), |fact, (product, _)| fact.tag(format!("product:{product}")));
        let items: Vec<_> = cart.iter().map(|(product, price)| format!("{product}={price}")).collect();
        Ok(vec![ordered.data(items.join(" "))])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::check;

    #[test]
    fn a_price_is_good_while_it_is_current_and_ten_minutes_more() {
        let order = |store: &EventStore, now| order(store, &[("p1", 100)], now);
        let (ordered, invalid) = (Ok("ProductsOrdered product:p1 | p1=100"), Err("invalid price for product \"p1\""));
        check("", order, invalid);
        check("ProductDefined product:p1 | price=123", order, invalid);
        check("ProductDefined product:p1 | price=100", order, ordered);
        check("20m ProductDefined product:p1 | price=100", order, ordered);
        let changed = |minutes| {
            format!("90m ProductDefined product:p1 | price=100\n{minutes}m ProductPriceChanged product:p1 | price=120")
        };
        check(&changed(9), order, ordered);
        check(&changed(20), order, invalid);
        check(
            "90m ProductDefined product:p1 | price=90\n20m ProductPriceChanged product:p1 | price=100",
            order,
            ordered,
        );
    }

    #[test]
    fn a_cart_is_ordered_whole_or_not_at_all() {
        let order = |store: &EventStore, now| order(store, &[("p1", 100), ("p2", 200)], now);
        let given = "ProductDefined product:p1 | price=100\nProductDefined product:p2 | price=";
        let ordered = Ok("ProductsOrdered product:p1 product:p2 | p1=100 p2=200");
        check(&format!("{given}200"), order, ordered);
        check(&format!("{given}201"), order, Err("invalid price for product \"p2\""));
    }
}
