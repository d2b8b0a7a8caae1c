//! Two or more adapters under a seeded clock. Packets are really serialised, with their ICRC, and cross a network that
//! loses, reorders, duplicates, delays and damages them as a seed says; then they are parsed and checked as a link
//! would. So a run is a function of its seed, and every failure can be reproduced. [`cm`] does the same to
//! communication managers, [`fabric`] to InfiniBand fabrics.
#![forbid(unsafe_code)]

pub mod cm;
pub mod end;
pub mod fabric;
pub mod hostile;
pub mod hostile_frames;
pub mod iwarp;
pub mod machine;
pub mod memory;
pub mod net;
pub mod peers;
pub mod rng;
pub mod strict;
pub mod subnet;
pub mod workload;
pub mod world;

pub use end::{End, QpOptions, pair};
pub use machine::{Machine, Ways};
pub use memory::SimMemory;
pub use net::Faults;
pub use rng::Rng;
pub use world::{Host, Path, World};
