//! What looks after the directory of a database: every tool works beside whoever has it open.

mod page;
mod stat;
mod top;

pub(crate) use stat::Stat;
pub(crate) use top::Top;
