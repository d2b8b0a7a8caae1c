//! Code shared by the RDMA connection manager's tools: option parsing and error messages.

mod datagrams;
mod options;

use std::io;
use std::process::ExitCode;

pub use datagrams::{Datagrams, Messages};
pub use options::{Letters, address_format, atoi, octet};

use weft_client::Which;
use weft_client::rdmacm::{CmLibrary, EventChannel};

/// Help text of the one option that the originals lack; each of these tools ends its help with it.
pub const SYSTEM_HELP: &str = "\t[--system - use the system's librdmacm instead of Weft's]\n";

/// Prints what C's `perror` prints.
pub fn perror(what: &str, error: &io::Error) {
    crate::errln!("{what}: {}", crate::errno::text(error));
}

/// Loads the library and creates an event channel; prints the error line and returns `None` on failure.
pub fn open_channel(which: Which) -> Option<EventChannel> {
    let library = load(which)?;
    match EventChannel::new(library) {
        Ok(channel) => Some(channel),
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => {
            crate::errln!("No RDMA devices were detected");
            None
        }
        Err(e) => {
            perror("failed to create RDMA CM event channel", &e);
            None
        }
    }
}

/// Loads the library; prints the error line and returns `None` on failure.
pub fn load(which: Which) -> Option<CmLibrary> {
    CmLibrary::load(which).inspect_err(|e| crate::errln!("{e:#}")).ok()
}

/// The exit code of a program whose `main` returns `status`.
pub fn exit_code(status: i32) -> ExitCode {
    ExitCode::from(status as u8)
}
