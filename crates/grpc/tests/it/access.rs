//! Access control: the session of each call, and its permissions.

mod fixture;
mod methods;
mod needs;
mod parts;
mod sessions;
mod tenants;
