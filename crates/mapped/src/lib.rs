//! Mapped files: the project's only `unsafe` code, behind an interface that is safe to use.
//!
//! * [`Appender`] and [`View`]: one mapping that grows a *settled* prefix. The one appender writes above the settled
//!   mark and moves it; any number of views read below it.
//! * [`SharedWords`]: a small mapped file seen as atomic 64-bit words.
//! * [`Slabs`]: memory without a file in large pages, given out in parts.
//! * [`give_back_large`]: what becomes of large pieces of memory.
//! * [`ticks`]: the processor's counter of time.
//! * [`write_out`]: has the disk write part of a file.
//!
//! # Invariants
//! Every `SAFETY` comment in this crate rests on one of these.
//!
//! * **Settled.** Bytes below the settled mark never change while the mapping lives. This crate never writes there; the
//!   file belongs to those who have this log open (they hold a lock on its directory), and is neither truncated nor rewritten below
//!   the tail, which every mark follows, by any of them.
//! * **One appender.** A mapping has one [`Appender`], which is not `Clone` and writes through `&mut self`. So bytes above
//!   the mark are borrowed by one owner at a time. Of several processes that map the same file, the one whose turn it is writes
//!   above the tail, and the others look only at what the tail has passed, which they learn by an `Acquire` load.
//! * **Parts.** No two parts of a slab overlap, as whole pages: what was given out is not given out again. A part is a `&'static mut`, of
//!   which there is one; it is taken back whole only, so who gives it back has no other, and none is left. A slab is unmapped when all its
//!   parts were given back.
//! * **Bounds.** Every range is checked against the mapping's length before a pointer is made of it.
//! * **Length.** The file is at least as long as its mapping for as long as the mapping lives. Who truncates it from
//!   outside gets a bus error, as with every mapped file.

mod allocator;
mod region;
mod slabs;
mod ticks;
mod words;
mod write_out;

pub use allocator::give_back_large;
pub use region::{Appender, View};
pub use slabs::Slabs;
pub use ticks::{has_steady_ticks, ticks};
pub use words::SharedWords;
pub use write_out::write_out;
