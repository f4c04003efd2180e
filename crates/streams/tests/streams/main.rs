//! The model in small scenarios: the input and the expected output of each are texts.

mod generations;
mod members;
mod producers;
mod records;
mod retention;
mod support;
mod topics;
