//! The tools that look after a directory: on one that is whole, one that is at work, and one that is damaged in every kind of
//! file.

mod backup;
mod made;
mod repair;
mod verify;
