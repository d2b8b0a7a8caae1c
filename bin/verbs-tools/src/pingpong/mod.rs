//! Code shared by the five pingpong tools: options, the exchange of addresses over TCP, device setup, the loop that
//! returns each message, and the report. They interoperate with rdma-core's tools of the same names in both directions.

mod connected;
mod device_choice;
mod exchange;
mod memory;
mod options;
mod report;
mod setup;
mod traffic;

pub use connected::{connected, meet_client, meet_server};
pub use device_choice::DeviceChoice;
pub use exchange::{Acceptor, Dest, Link, Message, XrcDest, connect_to};
pub use memory::Memory;
pub use options::{Options, Spec, read};
pub use setup::{Setup, random_psn};
pub use traffic::{Completions, Endpoint, Rally};

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs a pingpong: parses its options, calls `work` and prints its error.
pub fn main(spec: &Spec, args: &[OsString], work: fn(&Options) -> Result<(), String>) -> ExitCode {
    let options = match read(spec, args) {
        Ok(options) => options,
        Err(usage) => {
            if let Some(mistake) = usage {
                crate::errln!("{}: {mistake}", spec.name);
            }
            crate::output::print(&options::usage(spec));
            return ExitCode::FAILURE;
        }
    };
    match work(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            crate::errln!("{message}");
            ExitCode::FAILURE
        }
    }
}
