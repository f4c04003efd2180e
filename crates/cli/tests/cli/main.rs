//! The binary as a user sees it: its output, its files, its exit status. The tests call only the
//! command.

mod access;
#[cfg(target_os = "linux")]
mod attacks;
#[cfg(target_os = "linux")]
mod chart;
#[cfg(target_os = "linux")]
mod cluster;
mod consume;
mod demo;
mod events;
#[cfg(feature = "parquet")]
mod export;
mod help;
mod kafka;
mod logs;
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(target_os = "linux")]
mod owner;
#[cfg(target_os = "linux")]
mod packages;
#[cfg(target_os = "linux")]
mod pages;
mod produce;
mod readme;
mod secrets;
mod serve;
mod server_reads;
mod settings;
mod sql;
#[cfg(target_os = "linux")]
mod sql_shell;
mod support;
#[cfg(target_os = "linux")]
mod terminal;
mod tls;
mod tools;
#[cfg(target_os = "linux")]
mod top;
mod verbs;
