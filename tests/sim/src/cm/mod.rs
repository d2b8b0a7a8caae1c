//! Two hosts with communication managers under the seeded clock. Their messages are packets with an ICRC, and cross the
//! same network as everything here: lost, repeated, reordered, delayed and damaged. Their owners ([`app`]) accept,
//! reject, dawdle, ask for patience, hang up, and lose power; a ledger ([`side`]) keeps what each was told, and the
//! [`judge`] compares the two at the end. Strangers ([`hostile`]) may shout in between and must not be heard.

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
