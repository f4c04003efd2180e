//! The behaviour of event stores that users can observe, over a log in memory.

mod support;
mod upstream;

mod conditions;
mod gone;
mod limits;
mod named;
mod query;
mod repetition;

mod cost;
mod model;
