//! Three servers of one cluster on loopback, under load, while one after the other is killed,
//! stopped, restarted or replaced.
//!
//! ```text
//! clients ──▶ the same commit again, at each node, until one acknowledges it ──▶ acknowledged ids
//! attacks ──▶ SIGKILL, SIGSTOP and SIGCONT of the leader, a replaced directory, an orderly stop
//! at the end: all nodes are level, and each has each acknowledged id once, in the same order
//! ```

mod clients;
mod gaps;
mod nodes;

use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use clients::LoadClients;
use gaps::GapReport;
use nodes::ServedCluster;

use crate::round::now;

/// Runs attacks until the time is up, and compares the nodes.
///
/// # Errors
/// The inconsistency found.
pub(crate) fn run(seconds: u64, server: &Path, seed: u64, figures: bool) -> Result<(), String> {
    let (begun, limit) = (now(), Duration::from_secs(seconds));
    let mut random = Rng::with_seed(seed);
    let mut cluster = ServedCluster::start(server)?;
    let outcome = attack(&mut cluster, &mut random, || begun.elapsed() < limit, figures);
    outcome.map_err(|message| {
        let logs = cluster.end_in_error();
        format!("{message}\n{logs}")
    })
}

fn attack(
    cluster: &mut ServedCluster,
    random: &mut Rng,
    goes_on: impl Fn() -> bool,
    figures: bool,
) -> Result<(), String> {
    cluster.wait_until_level()?;
    let clients = LoadClients::start(cluster.http());
    let mut gaps = GapReport::default();
    clients.wait_for_progress()?;
    for number in 0.. {
        if number > 3 && !goes_on() {
            break;
        }
        let leader = cluster.leader()?;
        match if figures { 0 } else { number % 4 } {
            0 => {
                let from = now();
                cluster.kill(leader)?;
                gaps.killed(clients.gap_since(from)?);
                cluster.restart(leader)?;
            }
            1 => {
                let from = now();
                cluster.signal(leader, Signal::STOP)?;
                gaps.stopped(clients.gap_since(from)?);
                cluster.signal(leader, Signal::CONT)?;
            }
            2 => {
                let from = now();
                cluster.stop(leader)?;
                gaps.handed_over(clients.gap_since(from)?);
                cluster.restart(leader)?;
            }
            _ => {
                let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
                let wiped = *random.choice(&others).expect("two nodes");
                cluster.refuse_replaced(wiped)?;
            }
        }
        cluster.wait_until_level()?;
        clients.wait_for_progress()?;
    }
    let ledger = clients.stop()?;
    cluster.wait_until_level()?;
    let positions = cluster.stop_all()?;
    cluster.compare(&ledger)?;
    println!("{} commits acknowledged, {} retries, {positions} records", ledger.acknowledged(), ledger.retries);
    println!("{gaps}");
    Ok(())
}
