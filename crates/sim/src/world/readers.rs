//! Readers see a prefix of the timeline, and all of it after waiting.

use quire::Durability;

use super::{SimWorld, Violation};
use crate::check::{self, CheckError};

impl SimWorld<'_> {
    /// Published records are visible, so no crash may undo them; and they are a prefix of the
    /// timeline.
    pub(super) fn peek(&mut self) -> Result<(), Violation> {
        let database = self.database();
        // Reads wait until deletions are durable.
        match database.read_published(|_| ()) {
            Err(error) if self.process.lives() && !self.excused(&error) => {
                return Err(format!("the database can't be read: {error}"));
            }
            Err(_) => {
                self.say("PEEK", "not told");
                return Ok(());
            }
            Ok(()) => {}
        }
        let published = usize::try_from(database.published().get()).expect("small");
        if self.plan.durability == Durability::Os && published != self.tail() && !self.disk.is_broken() {
            return Err(format!("{published} records are published of {}", self.tail()));
        }
        if published < self.safe && self.process.lives() && !self.disk.is_broken() {
            return Err(format!("{published} records are published, and {} were acknowledged", self.safe));
        }
        let Some(naive) = self.timeline.get(published) else {
            return Err(format!("{published} records are published, and {} were appended", self.tail()));
        };
        let found = check::published(&database, naive, &self.timeline[self.seen()]);
        match found {
            _ if !self.process.lives() => {
                self.say("PEEK", "and died");
                Ok(())
            }
            Ok(()) => {
                self.acknowledged(published);
                self.say("PEEK", "ok");
                Ok(())
            }
            Err(CheckError::Error(error)) if self.excused(&error) => {
                self.say("PEEK", &format!("{:?}", error.kind()));
                Ok(())
            }
            Err(found) => Err(format!("at the published position {published}: {found}")),
        }
    }

    pub(super) fn check(&mut self) -> Result<(), Violation> {
        let seen = self.seen();
        let found = check::everything(&self.database(), &self.timeline[seen]);
        if !self.process.lives() {
            self.say("CHECK", "and died");
            return Ok(());
        }
        match found {
            Ok(()) => {
                self.acknowledged(seen);
                self.say("CHECK", "ok");
                Ok(())
            }
            Err(CheckError::Error(error)) if self.excused(&error) => {
                self.say("CHECK", &format!("{:?}", error.kind()));
                self.reopen("FAILED")
            }
            Err(found) => Err(format!("at position {seen}: {found}")),
        }
    }
}
