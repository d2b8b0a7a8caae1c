//! What the diagnostic tools of an InfiniBand subnet share: options, addresses, requests by class, and how attributes
//! are printed. A tool's text is infiniband-diags'; `--json` says the same for programs.
//!
//! - [`options::Spec`] reads a command line, [`options::Common`] keeps what all tools understand;
//! - [`port::Port`] is an open port: `smp_get`, `pma_get`, `sa_query`, `vendor_call`, each by a file; `ask_all` has many
//!   requests under way at once;
//! - [`address::PortId`] says where to, [`resolve`] makes it from what was typed;
//! - [`field::Field`] is a field of an attribute, [`fields`] has the tables;
//! - [`report`] warns and ends.

pub mod address;
pub mod batch;
pub mod config;
pub mod field;
pub mod fields;
pub mod format;
pub mod host;
pub mod mad;
pub mod names;
pub mod number;
pub mod options;
pub mod pma;
pub mod port;
pub mod port_info;
mod prompt;
pub mod report;
mod resolve;
pub mod sa;
pub mod smp;
pub mod sysfs;
mod usage;
pub mod vendor;
pub mod view;
