//! Two processes in one: each has a `Host`, and they share real memory files.

mod arena;
mod direct;
mod hostile;
#[cfg(loom)]
mod models;
mod pair;
mod race;
mod rings;
