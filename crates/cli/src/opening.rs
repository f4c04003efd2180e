//! Opening the directory of a database, for all commands.
//!
//! Invariant: a torn tail that was cut and damage are reported on standard error, whatever the
//! command prints.

use quire::{Builder, Damage, Database, OpenedDatabase};

use crate::failure::aside;

/// Opens a database. Warns of a torn tail that was cut, and of damage.
///
/// # Errors
/// As [`Builder::open`].
pub fn open(builder: Builder) -> quire::Result<OpenedDatabase> {
    let opening = builder.open_and_report()?;
    if let Some(cut) = &opening.recovery.cut {
        aside(format_args!("quire: warning: {cut}"));
    }
    opening.recovery.damage.iter().for_each(tell_damage);
    Ok(opening)
}

/// Reports damage that is found while the database is open, each place once.
#[derive(Debug, Default)]
pub struct DamageReports {
    told: usize,
}

impl DamageReports {
    /// Reports the damage since the last call.
    pub fn tell_new(&mut self, database: &Database) {
        let damage = database.damage();
        damage.iter().skip(self.told).for_each(tell_damage);
        self.told = damage.len();
    }
}

/// Reports damage, and what to do about it.
fn tell_damage(found: &Damage) {
    aside(format_args!("quire: damage: {found}; `quire verify` says what else is, and a backup has what is lost"));
}
