//! Tests of the reliable services in a small simulated world: operations, faults of the wire, refusals, and garbage.

mod faults;
mod linux;
mod loss;
mod operations;
mod refusals;
mod rxe;
