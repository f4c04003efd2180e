//! The tools for a directory: on a database that is intact, in use, or damaged in every kind of
//! file.

mod backup;
mod files;
mod made;
mod repair;
mod salvage;
mod stream;
mod verify;
