//! Data structures that admin commands return.

mod builder;
mod controller;
mod discovery;
mod log;
mod namespace;

pub use controller::{ControllerPage, IDENTIFY_LEN};
pub use discovery::{Entry, EntryKind, discovery_log};
pub use log::{changed_namespaces, effects, errors, firmware_slots, health};
pub use namespace::{namespace_ids, namespace_page, number_list, unique_ids};
