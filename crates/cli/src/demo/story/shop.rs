//! The shop: the names it uses in the database, and the commit that places an order.

use quire::events::{Condition, NewEvent, Query, QueryItem};
use quire::{Commit, Database, Message, NewBlock, NewEdge, NewJob};
use serde_json::json;

use crate::failure::Result;

/// The event store of orders and payments.
pub(in crate::demo) const ORDERS_STORE: &str = "shop/orders";
/// The topic for systems that follow the orders.
pub(in crate::demo) const ORDERS_TOPIC: &str = "orders";
/// The queue of payments to take.
pub(in crate::demo) const PAYMENTS: &str = "shop/payments";
/// The graph of customers and items.
pub(in crate::demo) const CATALOGUE: &str = "shop/catalogue";
/// The type of the event that an order appends.
pub(super) const ORDER_PLACED: &str = "OrderPlaced";
/// The type of the event that a payment appends.
pub(super) const PAYMENT_TAKEN: &str = "PaymentTaken";
/// The type of the edge from a customer to an item.
pub(super) const BOUGHT: &str = "bought";

/// Creates the topic and the blocks of customers and items.
///
/// # Errors
/// When the database fails.
pub(super) fn furnish(database: &Database) -> Result {
    database.topic(ORDERS_TOPIC).create(1)?;
    let customers = ["ada", "grace", "alan"].map(|name| NewBlock::new(name, "customer"));
    let items = ["lamp", "globe"].map(|name| NewBlock::new(name, "item"));
    let blocks = customers.into_iter().chain(items);
    let commit = blocks.fold(Commit::new(), |commit, block| commit.put_block(CATALOGUE, block));
    database.commit(&commit)?.committed()?;
    Ok(())
}

/// An order of one item.
#[derive(Debug)]
pub(super) struct ShopOrder {
    pub(super) customer: &'static str,
    pub(super) item: &'static str,
    /// The tag that all events of this order have, like `order:1`.
    pub(super) tag: String,
    tags: [String; 2],
    /// The order as JSON: the data of the event, the payload of the job and the value of the
    /// message.
    json: String,
}

impl ShopOrder {
    /// Order `number`.
    pub(super) fn new(number: u32, customer: &'static str, item: &'static str) -> Self {
        ShopOrder {
            customer,
            item,
            tag: format!("order:{number}"),
            tags: [format!("customer:{customer}"), format!("item:{item}")],
            json: json!({ "order": number, "customer": customer, "item": item, "cents": 4_900 }).to_string(),
        }
    }

    /// The order as one commit over four models.
    pub(super) fn commit<'c>(&'c self, condition: Option<Condition<'c>>) -> Commit<'c> {
        let event = NewEvent::new(ORDER_PLACED).tag(&self.tag).tag(&self.tags[0]).tag(&self.tags[1]).data(&self.json);
        Commit::new()
            .append_if(ORDERS_STORE, [event], condition)
            .enqueue(PAYMENTS, NewJob::new(self.json.as_bytes()).kind("take-payment"))
            .produce(ORDERS_TOPIC, Message::new(&self.json).key(&self.tag))
            .put_edge(CATALOGUE, NewEdge::new(self.customer, BOUGHT, self.item))
    }
}

/// The condition that no event of `event_type` has `tag` yet.
pub(super) fn none_yet<'c>(event_type: &'c str, tag: &'c str) -> Condition<'c> {
    Condition::fail_if_matches(Query::from(QueryItem::new().event_type(event_type).tag(tag)))
}

/// The events of `event_type` that have `tag`, counted.
///
/// # Errors
/// When the database fails.
pub(super) fn count_events(database: &Database, event_type: &str, tag: &str) -> Result<u64> {
    let mut count = 0;
    let query = Query::from(QueryItem::new().event_type(event_type).tag(tag));
    database.events(ORDERS_STORE).visit(&query, quire::events::ReadOptions::default(), |_| count += 1)?;
    Ok(count)
}
