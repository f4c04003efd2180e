//! Atomics whose sequentially consistent accesses are truly sequentially consistent: a fence
//! precedes each.

use loom::sync::atomic as checked;
use loom::sync::atomic::{Ordering, fence};

/// The fence before an access.
fn before(ordering: Ordering) {
    if ordering == Ordering::SeqCst {
        fence(Ordering::SeqCst);
    }
}

macro_rules! atomic {
    ($name:ident, $of:ty) => {
        /// Like the standard library's type of this name, with loom's memory model.
        #[derive(Debug, Default)]
        pub struct $name(checked::$name);

        impl $name {
            #[expect(missing_docs, reason = "the standard library documents the method")]
            pub fn new(value: $of) -> Self {
                $name(checked::$name::new(value))
            }

            #[expect(missing_docs, reason = "the standard library documents the method")]
            pub fn load(&self, ordering: Ordering) -> $of {
                before(ordering);
                self.0.load(ordering)
            }

            #[expect(missing_docs, reason = "the standard library documents the method")]
            pub fn store(&self, value: $of, ordering: Ordering) {
                before(ordering);
                self.0.store(value, ordering);
            }

            #[expect(missing_docs, reason = "the standard library documents the method")]
            pub fn swap(&self, value: $of, ordering: Ordering) -> $of {
                before(ordering);
                self.0.swap(value, ordering)
            }

            #[expect(missing_docs, reason = "the standard library documents the method")]
            pub fn compare_exchange(&self, from: $of, to: $of, met: Ordering, not: Ordering) -> Result<$of, $of> {
                before(met);
                self.0.compare_exchange(from, to, met, not)
            }

            #[expect(missing_docs, reason = "the standard library documents the method")]
            pub fn fetch_update(
                &self,
                met: Ordering,
                not: Ordering,
                mut change: impl FnMut($of) -> Option<$of>,
            ) -> Result<$of, $of> {
                let mut seen = self.load(not);
                while let Some(to) = change(seen) {
                    match self.compare_exchange(seen, to, met, not) {
                        Ok(seen) => return Ok(seen),
                        Err(other) => seen = other,
                    }
                }
                Err(seen)
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $of:ty, $($operation:ident)*) => {
        atomic!($name, $of);

        impl $name {
            $(
                #[expect(missing_docs, reason = "the standard library documents the method")]
                pub fn $operation(&self, by: $of, ordering: Ordering) -> $of {
                    before(ordering);
                    self.0.$operation(by, ordering)
                }
            )*
        }
    };
}

atomic!(AtomicBool, bool);
number!(AtomicU32, u32, fetch_add);
number!(AtomicU64, u64, fetch_add fetch_sub fetch_and fetch_or fetch_max);
number!(AtomicUsize, usize, fetch_add fetch_sub fetch_max);
