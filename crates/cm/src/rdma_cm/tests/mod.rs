//! Two services wired back to back, as their programs see them.

mod addresses;
mod connections;
mod datagrams;
mod groups;
mod hostile;
mod infiniband;
mod lab;
mod limits;
mod listeners;
mod lives;
mod streams;
mod wire;
