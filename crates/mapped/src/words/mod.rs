//! Words that several processes share: a mapped file, or what stands for it where a model checker explores who does what when.

#[cfg(loom)]
mod explored;
#[cfg(not(loom))]
mod mapped;

#[cfg(loom)]
pub use explored::SharedWords;
#[cfg(not(loom))]
pub use mapped::SharedWords;
