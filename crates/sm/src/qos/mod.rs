//! Quality of service: VLs and arbitration of ports ([`Setup`]), and the policy that sets the service level of paths.

mod lists;
pub mod policy;
mod setup;

pub use lists::{DROP, List, SERVICE_LEVELS, arbitration, lanes};
pub use policy::{Policy, QosLevel};
pub use setup::{InSwitch, Kind, KindSetup, Setup};
