//! Opening the folder of a database: the one way in which every command does it.
//!
//! Invariant: what opening cut off the log, and what of it is damaged, is told on standard error, whatever the command prints.

use quire::{Builder, Damage, Opening};

use crate::failure::aside;

/// Opens a database, and warns of a torn tail that was cut, and of damage.
///
/// # Errors
/// As [`Builder::open`].
pub(crate) fn open(builder: Builder) -> quire::Result<Opening> {
    let opening = builder.open_and_report()?;
    if let Some(cut) = &opening.recovery.cut {
        aside(format_args!("quire: warning: {cut}"));
    }
    opening.recovery.damage.iter().for_each(tell_damage);
    Ok(opening)
}

/// Says what was found damaged, and what to do.
pub(crate) fn tell_damage(found: &Damage) {
    aside(format_args!("quire: damage: {found}; `quire verify` says what else is, and a backup has what is lost"));
}
