//! Retention: expired data is deleted, in a commit for each topic, store and graph.

use quire::Duty;

use super::{SimWorld, Violation};
use crate::check;
use crate::naive::{ExpiredCommit, Naive, Part};

impl SimWorld<'_> {
    /// A process deletes expired data, if it is time to look.
    pub(super) fn retain(&mut self) -> Result<(), Violation> {
        let database = self.database();
        let now = database.now().as_micros();
        let goes = self.timeline[self.seen()].past_its_time(now, database.published().get());
        let before = database.statistics().commits;
        let done = database.carry_out(Duty::Retain);
        if !self.process.lives() {
            self.maybes.extend(rows(self.newest(), &goes.commits, now));
            self.say("RETAIN", "and died");
            return Ok(());
        }
        let mut left = database.statistics().commits - before;
        match &done {
            Ok(true) if !goes.looks => return Err("the database reports a retention, expected none".to_owned()),
            Ok(false) if left > 0 => {
                return Err(format!("the database reports no retention, and took {left} positions"));
            }
            _ => {}
        }
        let mut commits = goes.commits.into_iter().peekable();
        while let Some(ExpiredCommit { part, certain }) = commits.next_if(|_| left > 0) {
            let is_there = match part {
                Part::Trim { store, .. } => certain || check::trim_of(&database, store) > self.newest().trimmed(store),
                _ => true,
            };
            let mut after = self.newest().clone();
            if is_there && takes_position(&mut after, part, now) {
                self.timeline.push(after);
                self.maybes.clear();
                left -= 1;
            }
        }
        let rest: Vec<_> = commits.collect();
        let missing = rest
            .iter()
            .find(|goner| goner.certain && takes_position(&mut self.newest().clone(), goner.part.clone(), now));
        match missing {
            _ if left > 0 => return Err(format!("retention took {left} positions too many")),
            Some(missing) if done.as_ref().is_ok_and(|looked| *looked) => {
                return Err(format!("retention did not remove {missing:?}"));
            }
            _ => {}
        }
        match &done {
            Ok(_) => {
                check::trimmed(&database, self.timeline.last_mut().expect("the timeline begins with an empty model"))
                    .map_err(|found| found.to_string())?
            }
            Err(_) => self.maybes.extend(rows(self.newest(), &rest, now)),
        }
        self.concluded("RETAIN", done.map(|_| ()), |_| ())
    }
}

/// The possible results of these commits, of which the uncertain ones may be missing.
fn rows(naive: &Naive, commits: &[ExpiredCommit], now: u64) -> Vec<Vec<Naive>> {
    let uncertain = commits.iter().filter(|goner| !goner.certain).count();
    let row = |left_out: u32| {
        let (mut naive, mut row, mut number) = (naive.clone(), Vec::new(), 0);
        for ExpiredCommit { part, certain } in commits {
            number += u32::from(!certain);
            if (*certain || left_out >> (number - 1) & 1 == 0) && takes_position(&mut naive, part.clone(), now) {
                row.push(naive.clone());
            }
        }
        row
    };
    (0..1 << uncertain).map(row).filter(|row| !row.is_empty()).collect()
}

fn takes_position(naive: &mut Naive, part: Part, now: u64) -> bool {
    naive.commit(&[part], now).is_ok_and(|(_, took_position)| took_position)
}
