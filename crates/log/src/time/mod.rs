//! Time: the clock that is passed in, and what the log makes of it.
//!
//! Reading order: `clock` (the component), `steady` (a clock that never steps back), `paced` (the processor's counter between two
//! readings of the system's clock), `deadline` (the end of a wait).

pub(crate) mod clock;
pub(crate) mod deadline;
pub(crate) mod paced;
pub(crate) mod steady;
