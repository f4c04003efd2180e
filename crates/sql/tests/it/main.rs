//! Statements over databases: answers, limits, rights, and push-down against copied tables.

mod answers;
mod bounds;
mod copies;
mod fixture;
mod page;
mod rights;
mod search;
