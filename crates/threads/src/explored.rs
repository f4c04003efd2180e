//! The primitives of the model checker, with the functions that it lacks.

pub use loom::hint::spin_loop;
pub use loom::sync::atomic::{Ordering, fence};
pub use loom::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use loom::thread::yield_now;

mod atomics;
mod condition;
#[cfg(test)]
mod litmus;
mod queue;

pub use atomics::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
pub use condition::Condvar;
pub use queue::{Futex, Sleepers};
