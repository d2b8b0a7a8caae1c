//! Code shared by the InfiniBand diagnostic tools: options, addresses, requests by management class, and the printing
//! of attributes. A tool's text output is that of infiniband-diags; `--json` prints the same as JSON.
//!
//! - [`options::Spec`] parses a command line, [`options::Common`] holds the options common to all tools;
//! - [`port::Port`] is an open port: `smp_get`, `pma_get`, `sa_query` and `vendor_call`, each in its own file;
//!   `ask_all` keeps many requests outstanding;
//! - [`address::PortId`] is a destination, `resolve` makes it from user input;
//! - [`field::Field`] is a field of an attribute, [`fields`] has the tables;
//! - [`report`] prints warnings and ends the tool.

pub mod address;
pub mod batch;
mod common;
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
mod spec;
pub mod sysfs;
mod usage;
pub mod vendor;
pub mod view;
