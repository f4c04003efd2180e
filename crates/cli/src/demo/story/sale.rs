//! Part 4: a sale. Eight clients place orders at a server, and the server is killed by SIGKILL. A
//! new server shows that every acknowledged order is there. Any other order is there whole or not
//! at all.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path as Directory;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use quire::Durability;
use serde_json::{Value, json};

use super::server::ServerProcess;
use super::{check, go_on};
use crate::failure::{CommandError, Result};
use crate::stop::StopSignal;
use crate::stopwatch::Stopwatch;
use crate::text::grouped;
use crate::verbs::{HttpClient, Path};

const STORE: &str = "sale/orders";
const QUEUE: &str = "sale/payments";
const TOPIC: &str = "sale";
/// How many clients write at the same time.
const WRITERS: u32 = 8;
/// After how many acknowledged orders the server is killed.
const ACKNOWLEDGED: usize = 1_000;
/// After what time it is killed at the latest.
const SALE_TIME_MAX: Duration = Duration::from_secs(3);
/// Longest time between two checks of the stop signal.
const WAIT: Duration = Duration::from_millis(50);
/// How many things are read with one request.
const PAGE: u64 = 1_000;

/// Runs the sale, kills the server, starts a new one, reads everything back from it and prints the
/// counts.
///
/// # Errors
/// When a server can't be started, a writer fails before the kill, or an acknowledged order is
/// lost.
pub(super) fn with_the_server_killed(
    data: &Directory,
    durability: Durability,
    stop: &StopSignal,
    out: &mut dyn Write,
) -> Result {
    writeln!(out, "\n4. The server is killed under {WRITERS} writers")?;
    let server = ServerProcess::start(data, durability)?;
    writeln!(
        out,
        "   server {} takes orders over HTTP from {WRITERS} clients; an order is one commit: event, job, message",
        server.id()
    )?;
    out.flush()?;
    let sale = sell_until_killed(server, stop)?;
    writeln!(out, "   after {} acknowledged orders it was killed (SIGKILL)", grouped(sale.acknowledged.len() as u64))?;
    go_on(stop, out)?;

    let server = ServerProcess::start(data, durability)?;
    let started_ms = server.started_in.as_millis();
    writeln!(
        out,
        "   server {} started on the same files in {started_ms} ms: {} recovered",
        server.id(),
        server.recovered
    )?;
    let found = SaleContents::read(&HttpClient::new(&server.http.into())?)?;
    server.stop()?;

    let SaleTotals { lost, kept } = found.compare(&sale)?;
    let [events, jobs, messages] = found.totals();
    let (acknowledged, unanswered) = (grouped(sale.acknowledged.len() as u64), sale.unanswered.len());
    writeln!(out, "   read back: {} events, {} jobs, {} messages", grouped(events), grouped(jobs), grouped(messages))?;
    writeln!(out, "   acknowledged orders lost: {lost} of {acknowledged}")?;
    Ok(writeln!(
        out,
        "   orders without an answer: {unanswered}; {kept} of them are there whole, the others not at all"
    )?)
}

/// What the clients know after the kill.
struct Sale {
    acknowledged: BTreeSet<String>,
    /// Sent, and not answered before the server was killed.
    unanswered: BTreeSet<String>,
}

/// What became of the orders of a sale.
#[derive(Debug, PartialEq, Eq)]
struct SaleTotals {
    /// Acknowledged orders that are not there.
    lost: usize,
    /// Unanswered orders that are there.
    kept: usize,
}

/// Lets the writers place orders, and kills the server while they do.
fn sell_until_killed(server: ServerProcess, stop: &StopSignal) -> Result<Sale> {
    let client = HttpClient::new(&server.http.into())?;
    let is_killed = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let writers: Vec<_> = (1..=WRITERS)
            .map(|writer| {
                let (client, sender, is_killed) = (client.clone(), sender.clone(), &is_killed);
                scope.spawn(move || place_orders(client, writer, &sender, is_killed))
            })
            .collect();
        drop(sender);
        let watch = Stopwatch::start();
        let mut acknowledged = BTreeSet::new();
        while acknowledged.len() < ACKNOWLEDGED && watch.elapsed() < SALE_TIME_MAX && !stop.is_asked() {
            match receiver.recv_timeout(WAIT) {
                Ok(order) => drop(acknowledged.insert(order)),
                Err(RecvTimeoutError::Timeout) => {}
                // Every writer has failed.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        is_killed.store(true, Ordering::SeqCst);
        let killed = server.kill();
        let ended = writers.into_iter().map(|writer| writer.join().expect("a writer does not panic"));
        let unanswered = ended.collect::<Result<BTreeSet<String>>>()?;
        killed?;
        acknowledged.extend(receiver);
        check(!acknowledged.is_empty(), || "the server acknowledged no order".to_owned())?;
        Ok(Sale { acknowledged, unanswered })
    })
}

/// Places one order after the other, and reports each acknowledged one. Returns the order that got
/// no answer.
///
/// # Errors
/// When an order is refused, or not answered before `is_killed`.
fn place_orders(
    client: HttpClient,
    writer: u32,
    acknowledged: &Sender<String>,
    is_killed: &AtomicBool,
) -> Result<String> {
    let path = Path::new(&["commit"]);
    for number in 1_u64.. {
        let order = format!("{writer}-{number}");
        let tag = format!("order:{order}");
        let parts = json!({ "parts": [
            { "append": { "store": STORE, "events": [{ "type": "OrderPlaced", "tags": [tag] }] } },
            { "enqueue": { "queue": QUEUE, "kind": "take-payment", "tags": [tag] } },
            { "produce": { "topic": TOPIC, "key": tag, "value_text": order } },
        ] });
        match client.post(&path, &parts) {
            Ok(_) => acknowledged.send(tag).map_err(|error| CommandError::at("report an order", error))?,
            Err(_) if is_killed.load(Ordering::SeqCst) => return Ok(tag),
            Err(failure) => return Err(failure),
        }
    }
    unreachable!("the server is killed before the numbers end")
}

/// How often each order is there, as event, job and message.
#[derive(Debug, Default)]
struct SaleContents {
    orders: BTreeMap<String, [u64; 3]>,
}

impl SaleContents {
    /// Reads all events, jobs and messages of the sale from a server.
    ///
    /// # Errors
    /// When the server can't be read from.
    fn read(client: &HttpClient) -> Result<Self> {
        let mut found = SaleContents::default();
        let events = Path::new(&["events", STORE]).with("limit", PAGE);
        let mut after = Some(json!(0));
        while let Some(position) = after {
            let page = client.get(&events.clone().with("after", &position))?;
            let last = found.add(0, &page["data"], |event| &event["tags"][0], "position");
            after = last.filter(|_| page["has_more"] == true);
        }
        let jobs = Path::new(&["queues", QUEUE, "jobs"]).with("limit", PAGE);
        let mut page = client.get(&jobs)?;
        loop {
            found.add(1, &page["data"], |job| &job["tags"][0], "job");
            let Some(next) = page["next_cursor"].as_str() else { break };
            page = client.get(&jobs.clone().with("cursor", next))?;
        }
        let records = Path::new(&["topics", TOPIC, "partitions", "0", "records"]).with("limit", PAGE);
        let mut offset = json!(0);
        loop {
            let page = client.get(&records.clone().with("offset", &offset))?;
            if found.add(2, &page["data"], |record| &record["key"], "offset").is_none() {
                return Ok(found);
            }
            offset = page["next_offset"].clone();
        }
    }

    /// Counts what a page shows of one kind. Returns the number of the last one on it.
    fn add(&mut self, kind: usize, page: &Value, order: fn(&Value) -> &Value, number: &str) -> Option<Value> {
        let page = page.as_array()?;
        for one in page {
            let name = order(one).as_str().unwrap_or("without a name");
            self.orders.entry(name.to_owned()).or_default()[kind] += 1;
        }
        page.last().map(|last| last[number].clone())
    }

    /// How many events, jobs and messages there are.
    fn totals(&self) -> [u64; 3] {
        self.orders.values().fold([0; 3], |sums, counts| std::array::from_fn(|kind| sums[kind] + counts[kind]))
    }

    /// Compares what is there with what the clients know.
    ///
    /// # Errors
    /// When an acknowledged order is lost, an order is there in part or twice, or an order is there
    /// that was not sent.
    fn compare(&self, sale: &Sale) -> Result<SaleTotals> {
        let torn: Vec<_> = self.orders.iter().filter(|(_, counts)| **counts != [1; 3]).collect();
        check(torn.is_empty(), || format!("orders are there in part or twice: {torn:?}"))?;
        let is_there = |order: &&String| self.orders.contains_key(*order);
        let lost = sale.acknowledged.len() - sale.acknowledged.iter().filter(is_there).count();
        check(lost == 0, || format!("{lost} acknowledged orders are lost"))?;
        let kept = sale.unanswered.iter().filter(is_there).count();
        let (found, sent) = (self.orders.len(), sale.acknowledged.len() + kept);
        check(found == sent, || format!("{found} orders are there, but only {sent} of them were sent"))?;
        Ok(SaleTotals { lost, kept })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sale(acknowledged: &[&str], unanswered: &[&str]) -> Sale {
        let set = |orders: &[&str]| orders.iter().map(|order| (*order).to_owned()).collect();
        Sale { acknowledged: set(acknowledged), unanswered: set(unanswered) }
    }

    fn found(orders: &[(&str, [u64; 3])]) -> SaleContents {
        SaleContents { orders: orders.iter().map(|(order, counts)| ((*order).to_owned(), *counts)).collect() }
    }

    #[test]
    fn an_unanswered_order_may_be_there_or_not() {
        let sale = sale(&["a", "b"], &["c", "d"]);
        let found = found(&[("a", [1; 3]), ("b", [1; 3]), ("d", [1; 3])]);
        assert_eq!(found.compare(&sale).expect("nothing is wrong"), SaleTotals { lost: 0, kept: 1 });
    }

    #[test]
    fn a_lost_torn_doubled_or_unknown_order_is_an_error() {
        let sale = sale(&["a"], &["b"]);
        for (orders, message) in [
            (&[("b", [1; 3])][..], "1 acknowledged orders are lost"),
            (&[("a", [1; 3]), ("b", [1, 1, 0])], "in part or twice"),
            (&[("a", [1, 2, 1])], "in part or twice"),
            (&[("a", [1; 3]), ("z", [1; 3])], "only 1 of them were sent"),
        ] {
            let Err(CommandError::Message(told)) = found(orders).compare(&sale) else {
                panic!("{orders:?} is an error")
            };
            assert!(told.contains(message), "{told}");
        }
    }
}
