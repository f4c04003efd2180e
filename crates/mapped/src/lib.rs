//! Mapped files and everything else that needs `unsafe` blocks, behind an interface that is safe to
//! use.
//!
//! * [`Appender`] and [`View`]: one mapping that grows a *settled* prefix. The one appender writes
//!   above the settled mark and moves it; any number of views read below it.
//! * [`SharedWords`]: a small mapped file seen as atomic 64-bit words.
//! * [`Slabs`]: memory without a file in large pages, given out in parts.
//! * [`give_back_large`] and [`give_back_unused`]: return freed allocations to the system.
//! * [`ticks`]: the processor's time-stamp counter.
//! * [`write_out`]: writes part of a file to the disk.
//!
//! # Invariants
//! Every `SAFETY` comment in this crate rests on one of these.
//!
//! * **Settled.** Bytes below the settled mark never change while the mapping lives. This crate
//!   never writes there. The file belongs to the processes that have this log open; they hold a
//!   lock on its directory. None of them truncates the file or rewrites bytes below the tail, and
//!   no mark exceeds the tail.
//! * **One appender.** A mapping has one [`Appender`], which is not `Clone` and writes through
//!   `&mut self`. So bytes above the mark are borrowed by one owner at a time. If several processes
//!   map the same file, the one that holds the writer lock writes above the tail. The others read
//!   only below the tail, which they learn by an `Acquire` load.
//! * **Parts.** No two parts of a slab overlap, as whole pages: a part is handed out again only
//!   after it was returned. A part is a `&'static mut`, so it has one owner. Only a whole part can
//!   be returned, and returning it gives up the only reference. A slab is unmapped when all its
//!   parts were returned.
//! * **Bounds.** Every range is checked against the mapping's length before a pointer is made of
//!   it.
//! * **Length.** The file is at least as long as its mapping for as long as the mapping lives. A
//!   process that truncates the file from outside causes a bus error, as with every mapped file.

mod allocator;
mod region;
mod slabs;
mod ticks;
mod words;
mod write_out;

pub use allocator::{give_back_large, give_back_unused};
pub use region::{Appender, View};
pub use slabs::Slabs;
pub use ticks::{has_steady_ticks, ticks};
pub use words::SharedWords;
pub use write_out::write_out;
