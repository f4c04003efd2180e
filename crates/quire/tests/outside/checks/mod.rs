//! What holds of a database, or of a backup, one of whose files has any bytes. The bodies of the fuzz targets, and of the tests that replay
//! their corpora.

pub(crate) mod base;
pub(crate) mod manifest;
pub(crate) mod meta;
pub(crate) mod state;
