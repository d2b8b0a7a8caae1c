//! Hosts on an Ethernet network: `weft run --host` moves into the host's namespaces first, and everything after that is as
//! on a machine of its own, whose daemon starts on demand.

use anyhow::{Context as _, Result, anyhow};
use weft_ipc::{Client, ConnectError, ConnectOptions, Spawn};
use weft_tool::fabric::machine_socket_name;

use super::network::Network;

/// Moves this process into the namespaces of an Ethernet host; `None` if no Ethernet network is up.
///
/// # Errors
/// The network has no such host, or the system does not let the process enter it.
pub fn enter(host: &str) -> Result<Option<Network>> {
    let options = ConnectOptions {
        program: "weft run".to_owned(),
        spawn: Spawn::Never,
        host: host.to_owned(),
        socket_name: machine_socket_name().to_owned(),
        ..ConnectOptions::default()
    };
    let mut client = match Client::connect(&options) {
        // The caller connects again, and reports the error.
        Err(ConnectError::NotRunning | ConnectError::NoHost(_)) if options.socket_name == weft_ipc::SOCKET_NAME => {
            return Ok(None);
        }
        client => client?,
    };
    if client.ethernet_status()?.is_none() {
        return Ok(None);
    }
    let network = Network::of(&mut client).map_err(|why| anyhow!(why));
    let entered = network.and_then(|network| network.entered().map_err(|why| anyhow!(why)));
    entered.map(Some).with_context(|| format!("cannot enter the network of {host}"))
}
