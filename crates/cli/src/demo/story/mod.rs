//! The story of the demo: a small shop, and what happens to its orders when things go wrong.
//!
//! ```text
//! order ─▶ race ─▶ charge (a worker is killed) ─▶ sale (the server is killed)
//! ```
//! Every number printed here was counted by reading the database back. A check that fails ends the
//! demo with an error.

mod charge;
mod order;
mod race;
mod sale;
mod server;
mod shop;
mod worker;

use std::io::Write;
use std::path::Path;

use quire::Database;

use crate::failure::{CommandError, Result};
use crate::stop::StopSignal;
use crate::stopwatch::Stopwatch;

pub(super) use shop::{CATALOGUE, ORDERS_STORE, ORDERS_TOPIC, PAYMENTS};
pub(super) use worker::PaymentWorker;

/// Tells the story on an empty database, which is in `data`.
///
/// # Errors
/// When the database fails, a process can't be started, a check fails, or `stop` is requested.
pub(super) fn tell(database: Database, data: &Path, stop: &StopSignal, out: &mut dyn Write) -> Result {
    let (watch, durability) = (Stopwatch::start(), database.durability());
    shop::furnish(&database)?;
    order::place_one(&database, out)?;
    race::for_the_last_item(&database, out)?;
    go_on(stop, out)?;
    charge::with_a_worker_killed(&database, data, durability, stop, out)?;
    go_on(stop, out)?;
    // The server gets the directory to itself, and recovers from the files alone.
    drop(database);
    sale::with_the_server_killed(data, durability, stop, out)?;
    Ok(writeln!(out, "\nThe story took {:.1} s. Every number above was counted.", watch.elapsed().as_secs_f64())?)
}

/// Shows the output so far.
///
/// # Errors
/// When `stop` is requested.
fn go_on(stop: &StopSignal, out: &mut dyn Write) -> Result {
    out.flush()?;
    if stop.is_asked() { Err(CommandError::Interrupted) } else { Ok(()) }
}

/// Checks a claim of the story.
///
/// # Errors
/// When `holds` is false. The message names the claim.
fn check(holds: bool, claim: impl FnOnce() -> String) -> Result {
    if holds {
        Ok(())
    } else {
        Err(CommandError::new(format!("the demo found an error in Quire: {}; please report it", claim())))
    }
}
