//! The binary as a user meets it: what it prints, what it leaves on the disk, how it ends. Nothing is called but the command.

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
