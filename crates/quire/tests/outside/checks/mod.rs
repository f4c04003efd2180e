//! Properties of a database, or of a backup, one of whose files has any bytes. These are the bodies
//! of the fuzz targets, and of the tests that replay their corpora.

pub(crate) mod base;
pub(crate) mod manifest;
pub(crate) mod meta;
pub(crate) mod salvage;
pub(crate) mod state;
