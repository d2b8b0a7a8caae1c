//! The subcommands of `weft` that are Weft's own.

pub mod cable;
pub mod capture;
pub mod cdi;
pub mod check;
pub mod cm;
pub mod daemon;
pub mod demo;
pub mod dev;
mod devices;
pub mod diagnose;
pub mod doctor;
mod drop_in;
pub mod env;
pub mod environment;
mod ethernet;
pub mod explain;
mod fabric_manager;
mod fabric_summary;
pub mod fault;
pub mod host_apply;
pub mod hosts;
pub mod ip;
mod iproute;
pub mod kmod;
pub mod link;
pub mod manual;
pub mod metrics;
mod modules;
pub mod monitor;
pub mod mount;
pub mod mount_nfs;
pub mod nmcli;
pub mod node;
mod own_file;
mod own_view;
pub mod pingall;
mod profiles;
pub mod qp;
pub mod record;
mod report;
pub mod resource;
pub mod run;
mod stand_in;
pub mod stat;
pub mod status;
pub mod system;
pub mod systemctl;
pub mod top;
pub mod topology;
pub mod up;

use weft_ipc::{Client, ConnectError, RequestError};
pub use weft_sm_process as sm;

/// Opens a session with the daemon; starts the daemon if none runs.
fn connect() -> Result<Client, ConnectError> {
    devices::connect(None)
}

/// The two lines for a refused request: the system's error text, as iproute2 has it, and the daemon's explanation.
fn refusal_lines(error: &RequestError) -> (String, Option<String>) {
    match error {
        RequestError::Refused(refusal) => {
            let errno = std::io::Error::from_raw_os_error(refusal.errno);
            let text = refusal.text.trim();
            (crate::errno::text(&errno), (!text.is_empty()).then(|| text.to_owned()))
        }
        other => (other.to_string(), None),
    }
}
