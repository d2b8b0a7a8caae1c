//! Two processes in one: each has a `Host`, and they share real memory files.

mod direct;
mod lanes;
mod pair;
