//! Deliveries of named subscriptions: a commit for each subscription with matches, which adds their
//! jobs and advances the subscription.

use quire::{Durability, Duty};

use super::{SimWorld, Violation};
use crate::check;
use crate::naive::{Naive, Part};

impl SimWorld<'_> {
    /// A process delivers pending matches, if it has to look.
    pub(super) fn deliver(&mut self) -> Result<(), Violation> {
        if self.seen() < self.tail() {
            // It would read records that other processes have deleted, which it does not know yet.
            return Ok(());
        }
        let database = self.database();
        let now = database.now().as_micros();
        let due = self.newest().deliveries(database.published().get(), self.plan.durability == Durability::Os);
        let before = database.statistics().commits;
        let done = database.carry_out(Duty::Deliver);
        if !self.process.lives() {
            let row = row(self.newest(), &due, now);
            self.maybes.extend((!row.is_empty()).then_some(row));
            self.say("DELIVER", "and died");
            return Ok(());
        }
        let mut took = database.statistics().commits - before;
        let (mut rest, told) = (Vec::new(), took);
        for part in due {
            let Part::Deliver { name, to, .. } = part else { unreachable!("the part is a delivery") };
            if check::delivered_by(&database, name) == Some(to) && took > 0 {
                let mut after = self.newest().clone();
                if after.commit(&[part], now).is_ok() {
                    self.timeline.push(after);
                    self.maybes.clear();
                    took -= 1;
                }
            } else {
                rest.push(part);
            }
        }
        if took > 0 {
            return Err(format!("{took} of {told} deliveries had no match"));
        }
        if done.is_err() {
            let row = row(self.newest(), &rest, now);
            self.maybes.extend((!row.is_empty()).then_some(row));
        }
        self.concluded(&format!("DELIVER {told}"), done.map(|_| ()), |_| ())
    }

    /// A process that has just opened the database and delivered has no pending deliveries.
    pub(super) fn deliver_all(&mut self) -> Result<(), Violation> {
        self.deliver()?;
        match &self.newest().deliveries(self.database().published().get(), true)[..] {
            [] => Ok(()),
            left => Err(format!("no process delivered {left:?}")),
        }
    }
}

/// The possible next commits, one after the other.
fn row(naive: &Naive, due: &[Part], now: u64) -> Vec<Naive> {
    let mut naive = naive.clone();
    let after = |part: &Part| {
        naive.commit(std::slice::from_ref(part), now).expect("every pending event is delivered");
        naive.clone()
    };
    due.iter().map(after).collect()
}
