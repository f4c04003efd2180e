//! What holds of a log one of whose files has any bytes. The bodies of the fuzz targets, and of the tests that replay their corpora.
//!
//! Each takes the bytes as they are, where whatever is not refused has to be true, and once more with the checksums that they should
//! have, where nothing has to be true but that it ends: or else little behind a checksum would ever be looked at.

pub(crate) mod base;
pub(crate) mod checkpoint;
pub(crate) mod control;
pub(crate) mod index;
pub(crate) mod segment;
pub(crate) mod statistics;
