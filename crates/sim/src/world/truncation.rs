//! Truncation: unpublished records are removed, as a cluster does after a change of leader.

use fastrand::Rng;
use quire::{ErrorKind, Position};

use super::{SimWorld, Violation};

impl SimWorld<'_> {
    /// Truncates the log after one of the records from the last published one on. Each client that
    /// waits for a later record must get the error Unsettled, and no other answer.
    pub(super) fn truncate(&mut self, random: &mut Rng) -> Result<(), Violation> {
        let published = usize::try_from(self.database().published().get()).expect("small");
        // A log that others have open is not truncated, and what may be in it is unknown after a
        // commit that failed.
        if !self.others.is_empty() || !self.maybes.is_empty() || published == self.tail() {
            return Ok(());
        }
        let kept = random.usize(published..=self.tail());
        let position = Position::new(u64::try_from(kept).expect("small"));
        let truncated = self.database().truncate_after(position);
        let is_begun = match &truncated {
            Ok(()) => true,
            Err(error) => error.kind() == ErrorKind::Failed,
        };
        if is_begun || !self.process.lives() {
            // An interrupted truncation leaves some of the records, from the first one on.
            let gone = self.timeline.split_off(kept + 1);
            let is_done = truncated.is_ok() && self.process.lives();
            self.maybes.extend((!is_done && !gone.is_empty()).then_some(gone));
            let naive = self.newest().clone();
            self.book.roll_back(&naive);
        }
        if !self.process.lives() {
            self.say("TRUNC", "and died");
            return Ok(());
        }
        match truncated {
            Ok(()) => {
                self.say("TRUNC", "ok");
                self.unsettle(kept)?;
                if random.bool() { self.check() } else { Ok(()) }
            }
            // A process that died counts as open until the next opening.
            Err(error) if error.kind() == ErrorKind::InUse => {
                self.say("TRUNC", "refused");
                Ok(())
            }
            Err(error) if self.excused(&error) => {
                self.say("TRUNC", &format!("{:?}", error.kind()));
                if error.kind() == ErrorKind::Failed { self.reopen("FAILED") } else { Ok(()) }
            }
            Err(error) => Err(format!("a truncation failed without a cause: {:?}: {error}", error.kind())),
        }
    }

    /// Every client whose answer rests on a record above `kept` gets the error Unsettled.
    fn unsettle(&mut self, kept: usize) -> Result<(), Violation> {
        let (gone, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.clients).into_iter().partition(|client| client.position > kept);
        self.clients = left;
        for client in gone {
            match client.ticket.wait() {
                Err(error) if error.kind() == ErrorKind::Unsettled => {}
                told => return Err(format!("{:?} was truncated, but its client got {told:?}", client.parts)),
            }
        }
        Ok(())
    }
}
