//! Checks of a log in which one file has arbitrary bytes. The fuzz targets and the tests of their
//! corpora run these checks.
//!
//! Each check runs twice. With unchanged bytes, all accepted content must be correct. With
//! corrected checksums, the check only must end; otherwise little code after a checksum would run.

pub(crate) mod base;
pub(crate) mod checkpoint;
pub(crate) mod control;
pub(crate) mod index;
pub(crate) mod segment;
pub(crate) mod statistics;
