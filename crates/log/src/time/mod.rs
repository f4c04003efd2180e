//! Time: the clock component, and the time of a log derived from it.
//!
//! Reading order:
//!
//! - `clock`: the component
//! - `steady`: a clock that never steps back
//! - `paced`: the processor's counter between two readings of the system's clock
//! - `deadline`: the end of a wait

pub(crate) mod clock;
pub(crate) mod deadline;
pub(crate) mod paced;
pub(crate) mod steady;
