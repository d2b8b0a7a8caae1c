//! `weft nvme discover`: the subsystems that a target offers, in nvme-cli's form.

mod args;
mod connection;
mod print;

use std::time::Instant;

use anyhow::{Context, Result, bail};
use weft_client::Which;
use weft_nvme::{DiscoverySession, HostStep};

pub use args::{DiscoverArgs, OutputFormat};
use connection::Connection;

use crate::identity;
use crate::limits::{DISCOVERS_WITHIN, READY_POLLS_EVERY};

/// Prints the discovery log of a target.
///
/// # Errors
/// The target cannot be reached, or refuses.
pub fn run(args: &DiscoverArgs) -> Result<()> {
    let host = identity::host(args.host_nqn.as_deref(), args.host_id.as_deref())?;
    let which = if args.system { Which::System } else { Which::Ours };
    let until = Instant::now() + DISCOVERS_WITHIN;
    let target = || format!("{}, port {}", args.address, args.service);
    let mut connection = Connection::open(which, &args.address, args.service, until).with_context(target)?;
    let mut session = DiscoverySession::new(host, connection.memory(), connection.entries());
    let mut step = session.begin();
    let log = loop {
        step = match step {
            HostStep::Send { capsule, data } => {
                let (completion, memory) = connection.exchange(capsule, &data, until).with_context(target)?;
                session.handle_completion(&completion, &memory).with_context(target)?
            }
            HostStep::Wait => {
                if Instant::now() > until {
                    bail!("{}: the controller does not become ready", target());
                }
                std::thread::sleep(READY_POLLS_EVERY);
                session.repeat()
            }
            HostStep::Done(log) => break log,
        };
    };
    weft_tool::output::print(&if args.output_format.is_json() { print::json(&log)? } else { print::text(&log) });
    Ok(())
}
