//! Places an order, works it and mails it, each step exactly once:
//! * Placing is one commit: an event under a condition, a job and a message.
//! * A worker charges the order. Its event and the acknowledgement of the job are one commit.
//! * A consumer mails the customer. The mail's job and the consumer's offset are one commit.

use std::error::Error;

use quire::events::{Condition, NewEvent, QueryItem};
use quire::{Commit, ConsumerSettings, Database, Durability, Message, NewJob};

/// Places an order, unless it was placed before.
fn place(db: &Database, order: u32, customer: &str) -> quire::Result<()> {
    let tag = format!("order:{order}");
    let placed_before = QueryItem::new().event_type("OrderPlaced").tag(&tag);
    let commit = Commit::new()
        .append_if(
            "shop/orders",
            [NewEvent::new("OrderPlaced").tag(&tag).data(format!("{{\"customer\":\"{customer}\"}}"))],
            [Condition::fail_if_matches(placed_before)],
        )
        .enqueue("shop/charges", NewJob::new(order.to_string()))
        .produce("orders", Message::new(format!("{customer} ordered {order}")).key(&tag));
    db.commit(&commit)?.committed().map(|_| ())
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let db = Database::builder(directory.path().join("data")).durability(Durability::Os).open()?;
    place(&db, 17, "ann")?;
    let refused = place(&db, 17, "ann").unwrap_err();
    println!("the second attempt: {}", refused.refusal().expect("the condition failed"));

    let worker = db.queue("shop/charges").worker("cashier-1");
    let stop = worker.stopper();
    let summary = worker.run(|job| {
        stop.stop(); // after this order
        let order: u32 = std::str::from_utf8(&job.payload)?.parse()?;
        let charged = NewEvent::new("OrderCharged").tag(format!("order:{order}"));
        Ok(Commit::new().append("shop/orders", [charged]))
    })?;

    let mut consumer = db.topic("orders").consumer("mailer", ConsumerSettings::default())?;
    let stop = consumer.stopper();
    consumer.run(|orders| {
        stop.stop(); // after this delivery
        let texts = orders.records().map(|order| String::from_utf8_lossy(order.value.unwrap_or_default()));
        let mails = texts.map(|text| NewJob::new(format!("Thank you: {text}")));
        Ok(mails.fold(Commit::new(), |commit, mail| commit.enqueue("mails", mail)))
    })?;
    let mails = db.queue("mails").fetch("smtp-1", 10)?;
    println!("mails: {}, events: {}", mails.len(), db.events("shop/orders").head()?);
    assert_eq!((summary.completed, mails.len(), db.events("shop/orders").head()?.get()), (1, 1, 2));
    Ok(())
}

#[test]
fn an_order_is_placed_charged_and_mailed_once() {
    main().expect("every step");
}
