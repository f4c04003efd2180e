//! The worked examples of the specification of dynamic consistency boundaries
//! (<https://dcb.events/examples>), as a program.
//! * `cargo run -p quire --example dcb` plays one decision of each;
//! * `cargo test -p quire --example dcb` plays all of their given/when/then scenarios.
//!
//! Each file is one example: its decisions first, its scenarios below them.

mod course_subscriptions;
mod event_sourced_aggregate;
mod invoice_number;
mod opt_in_token;
mod product_price;
mod record_duplication;
mod scenario;
mod unique_username;

use quire::{Database, Durability};
use scenario::Answer;

/// How often a decision is retried when another writer was faster.
const TRIES: u32 = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let database = Database::builder(folder.path()).durability(Durability::Os).open()?;
    let say = |what: &str, answer: Answer| -> quire::Result<()> {
        match answer? {
            Ok(appended) => println!("{what}: event {:?}", appended.last.map(|last| last.get())),
            Err(rejected) => println!("{what}: rejected, {rejected}"),
        }
        Ok(())
    };
    let courses = database.events("courses");
    say("define a course for one", course_subscriptions::define(&courses, "c1", 1))?;
    say("subscribe the first student", course_subscriptions::subscribe(&courses, "s1", "c1"))?;
    say("subscribe the second student", course_subscriptions::subscribe(&courses, "s2", "c1"))?;
    say("make room", course_subscriptions::change_capacity(&courses, "c1", 2))?;
    say("subscribe the second student", course_subscriptions::subscribe(&courses, "s2", "c1"))?;
    let accounts = database.events("accounts");
    say("register u1", unique_username::register(&accounts, "u1", database.now()))?;
    say("register u1 again", unique_username::register(&accounts, "u1", database.now()))?;
    say("create an invoice", invoice_number::create(&database.events("invoices")))?;
    let orders = database.events("orders");
    say("place an order", record_duplication::place(&orders, "o1", "token1"))?;
    say("place it again", record_duplication::place(&orders, "o2", "token1"))?;
    let aggregates = database.events("aggregates");
    event_sourced_aggregate::Course::define(&aggregates, "c1", 10)?;
    if let Some(mut course) = event_sourced_aggregate::Course::load(&aggregates, "c1")? {
        say("change a course's capacity", course.change_capacity(&aggregates, 20))?;
    }
    let shop = database.events("shop");
    say("order at a price that never was", product_price::order(&shop, &[("p1", 11)], database.now()))?;
    say(
        "confirm a token that was never sent",
        opt_in_token::confirm(&shop, "a@example.org", "000000", database.now()),
    )?;
    Ok(())
}
