//! Part 2: two customers order the last item at the same moment. The condition lets one of them
//! have it.

use std::io::Write;
use std::sync::Barrier;
use std::thread;

use quire::events::Refusal;
use quire::jobs::JobState;
use quire::{CommitRefusal, Database, Outcome, Reason};

use super::check;
use super::shop::{ORDER_PLACED, ORDERS_STORE, ORDERS_TOPIC, PAYMENTS, ShopOrder, count_events, none_yet};
use crate::failure::{CommandError, Result};

const LAST_ITEM: &str = "item:globe";

/// Places two orders for the last globe from two threads, and prints which one was refused, and
/// why.
///
/// # Errors
/// When the database fails, or not exactly one of the orders is refused.
pub(super) fn for_the_last_item(database: &Database, out: &mut dyn Write) -> Result {
    let orders = [ShopOrder::new(2, "grace", "globe"), ShopOrder::new(3, "alan", "globe")];
    let start = Barrier::new(orders.len());
    let outcomes = thread::scope(|scope| {
        let place = |order: &ShopOrder| {
            start.wait();
            database.commit(&order.commit(Some(none_yet(ORDER_PLACED, LAST_ITEM))))
        };
        let running = orders.each_ref().map(|order| scope.spawn(move || place(order)));
        running.map(|thread| thread.join().expect("a customer does not panic"))
    });
    let [grace, alan] = outcomes;
    let [grace_order, alan_order] = &orders;
    let (winner, position, loser, refused) = match (grace?, alan?) {
        (Outcome::Committed(committed), Outcome::Refused(refused)) => {
            (grace_order, committed.at.position, alan_order, refused)
        }
        (Outcome::Refused(refused), Outcome::Committed(committed)) => {
            (alan_order, committed.at.position, grace_order, refused)
        }
        outcomes => return check(false, || format!("two orders for one item ended with {outcomes:?}")),
    };
    let sold = count_events(database, ORDER_PLACED, LAST_ITEM)?;
    check(sold == 1, || format!("the last globe was sold {sold} times"))?;
    let jobs = database.queue(PAYMENTS).list(JobState::Pending, None, 10)?.jobs.len();
    let messages = database.topic(ORDERS_TOPIC).offsets(0)?.next.get();
    check((jobs, messages) == (2, 2), || format!("two orders left {jobs} jobs and {messages} messages"))?;

    writeln!(out, "\n2. Two customers, one last item")?;
    writeln!(out, "   grace and alan order the last globe at the same moment, each on this condition:")?;
    writeln!(out, "   no {ORDER_PLACED} with the tag {LAST_ITEM} exists")?;
    writeln!(out, "   {:<6} committed at position {position}", winner.customer)?;
    writeln!(out, "   {:<6} refused: {}", loser.customer, refused.reason)?;
    writeln!(out, "          {}", blocking_event(database, &refused)?)?;
    Ok(writeln!(
        out,
        "   globes sold: {sold}. {}'s order left no event, no job, no message: {messages} messages and {jobs} jobs for 2 orders.",
        loser.customer
    )?)
}

/// Describes the event because of which a commit was refused, as the store has it.
fn blocking_event(database: &Database, refused: &CommitRefusal) -> Result<String> {
    let Reason::Events(Refusal::ConditionFailed { position: Some(position), .. }) = refused.reason else {
        return Err(CommandError::new(format!("an order was refused for another reason: {refused}")));
    };
    let event = database.events(ORDERS_STORE).event_at(position)?;
    let event = event.ok_or_else(|| CommandError::new(format!("event {position} is missing; please report it")))?;
    let tags: Vec<_> = event.tags.iter().map(|tag| String::from_utf8_lossy(tag)).collect();
    Ok(format!("event {position} is {}: {}", event.event_type, tags.join(", ")))
}
