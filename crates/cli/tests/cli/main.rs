//! The binary as a user sees it: its output, its files, its exit status. The tests call only the
//! command.

mod bench;
mod consume;
mod demo;
mod events;
mod help;
mod kafka;
mod produce;
mod readme;
mod serve;
mod support;
mod tools;
mod verbs;
