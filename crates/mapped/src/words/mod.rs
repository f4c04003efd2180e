//! Words that several processes share: a mapped file, or memory in a build for the model checker.

#[cfg(loom)]
mod explored;
#[cfg(not(loom))]
mod mapped;

#[cfg(loom)]
pub use explored::SharedWords;
#[cfg(not(loom))]
pub use mapped::SharedWords;
