//! Tests of the reliable services over a small world: plain operations, faults of the wire, refusals, and garbage.

mod faults;
mod linux;
mod loss;
mod operations;
mod refusals;
mod rxe;
