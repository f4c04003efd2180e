//! The bodies of the fuzz targets.

pub(crate) mod key;
pub(crate) mod pem;
pub(crate) mod rule;
pub(crate) mod sasl;
