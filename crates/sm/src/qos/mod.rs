//! Quality of service: lanes and arbitration of ports ([`Setup`]), and the policy that gives paths their service level.

mod lists;
pub mod policy;
mod setup;

pub use lists::{DROP, List, SERVICE_LEVELS, arbitration, lanes};
pub use policy::{Policy, QosLevel};
pub use setup::{InSwitch, Kind, KindSetup, Setup};
