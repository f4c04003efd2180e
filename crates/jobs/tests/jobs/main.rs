//! The job queues as their users see them: each test commits commands in a world that restarts
//! after every commit.

mod leases;
mod life;
mod limits;
mod model;
mod naive;
mod order;
mod overload;
mod queues;
mod reads;
mod retention;
mod saved;
mod search;
mod transitions;
mod yard;
