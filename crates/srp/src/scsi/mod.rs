//! A direct-access SCSI device (SPC-4, SBC-3, SAM-5), apart from any transport: disks as logical units.
//!
//! - `device` takes commands and returns steps: data, work on the medium, or the end;
//! - `command` is the table of commands; `inquiry`, `mode` and `report` return data, `medium` has commands on blocks;
//! - `attention` keeps unit attention conditions, which belong to an initiator and a logical unit.

mod attention;
mod cdb;
mod command;
mod device;
mod inquiry;
pub mod limits;
mod medium;
mod mode;
mod operation;
mod report;
mod sense;
#[cfg(test)]
mod tests;
mod unit;

pub use attention::Attentions;
pub use cdb::{CDB_LEN, Cdb};
pub use device::Device;
pub use operation::{Fault, Operation, Step};
pub use sense::{SENSE_LEN, Sense};
pub use unit::{Identity, LogicalUnit, Lun, lun_bytes, parse_lun};
