//! Quality of service: lanes and arbitration of ports ([`Setup`]), and the policy that gives paths their service level.

mod lists;
mod setup;

pub use lists::{DROP, List, SERVICE_LEVELS, arbitration, lanes};
pub use setup::{InSwitch, Kind, KindSetup, Setup};
