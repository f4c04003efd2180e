//! The model, told in small scenarios: each is a text, and so is what it says.

mod generations;
mod members;
mod producers;
mod records;
mod retention;
mod support;
mod topics;
