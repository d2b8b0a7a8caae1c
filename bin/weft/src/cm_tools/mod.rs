//! What the tools of the RDMA connection manager have in common: the forms of their options, and what they say when
//! something fails.

mod datagrams;
mod options;

use std::io;
use std::process::ExitCode;

pub use datagrams::{Datagrams, Messages};
pub use options::{Letters, address_format, atoi, octet};

use crate::rdmacm_api::{CmLibrary, EventChannel};
use crate::verbs_api::Which;

/// Text that ends the help of each of these tools: the one option that the originals do not have.
pub const SYSTEM_HELP: &str = "\t[--system - use the system's librdmacm instead of Weft's]\n";

/// What C's `perror` prints.
pub fn perror(what: &str, error: &io::Error) {
    crate::errln!("{what}: {}", crate::errno::text(error));
}

/// The library and a channel of events, or the line that says why there is none.
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

/// The library, or the line that says why there is none.
pub fn load(which: Which) -> Option<CmLibrary> {
    CmLibrary::load(which).inspect_err(|e| crate::errln!("{e:#}")).ok()
}

/// The exit code of a program whose `main` returns `status`.
pub fn exit_code(status: i32) -> ExitCode {
    ExitCode::from(status as u8)
}
