//! Two hosts with communication managers under the seeded clock. Their messages are packets with an ICRC, and cross the
//! simulated network: lost, repeated, reordered, delayed and damaged. Their owners ([`app`]) accept, reject, delay, ask
//! for more time, disconnect, and lose power; a ledger ([`side`]) keeps the events of each, and the [`judge`] compares
//! the two at the end. Strangers ([`hostile`]) may send messages in between and must have no effect.

pub mod app;
mod check;
pub mod hostile;
pub mod judge;
pub mod plan;
pub mod run;
pub mod side;
pub mod world;

pub use plan::Plan;
pub use run::{Outcome, run};
pub use world::CmWorld;
