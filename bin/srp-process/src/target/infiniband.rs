//! The target as a service of an InfiniBand fabric: initiators log in by GID and service identifier, which the device
//! management agent of each port tells them.

use anyhow::Result;
use weft_client::Which;
use weft_client::rdmacm::{CmId, EventChannel};
use weft_client::umad::{CaPort, Library};
use weft_srp::device_management::{Controller, DeviceManager};
use weft_srp::scsi::limits::TRANSFER_BYTES_MAX;
use weft_tool::errln;

use super::agent;
use super::args::TargetArgs;
use crate::limits::READS_IN_PROGRESS;

/// Vendor of the controller, as of Weft's adapters.
const VENDOR_ID: u32 = 0x45_5446;

/// Listens at the target's service identifier, and starts the agents of the ports that it covers: with an address to listen
/// on, that of its port alone. `None`: no such port is InfiniBand's.
///
/// # Errors
/// The service identifier is in use.
pub fn listen(
    which: Which,
    channel: &EventChannel,
    listener: &CmId,
    args: &TargetArgs,
    guid: u64,
) -> Result<Option<CmId>> {
    // Without the library there are no such ports.
    let Ok(library) = Library::load(which) else { return Ok(None) };
    let bound = args.bind.and_then(|_| gid_of(listener));
    let covers = |port: &CaPort| args.bind.is_none() || bound == Some(port.gid());
    let ports: Vec<CaPort> = ports(library).into_iter().filter(covers).collect();
    if ports.is_empty() {
        return Ok(None);
    }
    let service_id = weft_rdma_service::service_id(listener.local_port());
    let service = weft_rdma_service::listen_to_service(channel, bound, service_id)?;
    let manager = DeviceManager::new(&Controller {
        ioc_guid: guid,
        id_ext: guid,
        service_id,
        vendor_id: VENDOR_ID,
        name: format!("Weft SRP target {guid:016x}"),
        rdma_read_depth: READS_IN_PROGRESS,
        transfer_bytes: TRANSFER_BYTES_MAX,
    });
    for port in ports {
        errln!("weft srp target: log in with {}", login(guid, &port, service_id));
        if let Err(error) = agent::start(library, &port, manager.clone()) {
            let at = format!("{} port {}", port.ca_name, port.number);
            errln!("weft srp target: {at}: ibsrpdm and srp_daemon do not find the target here: {error:#}");
        }
    }
    Ok(Some(service))
}

/// Returns the ports whose link layer is InfiniBand.
fn ports(library: Library) -> Vec<CaPort> {
    let names = library.ca_names().unwrap_or_default();
    let ports = names.iter().filter_map(|name| library.ca(name).ok()).flat_map(|ca| ca.ports);
    ports.filter(|port| matches!(port.link_layer.as_str(), "InfiniBand" | "IB") && port.number > 0).collect()
}

/// Returns GID 0 of the port that a listener is bound to.
fn gid_of(listener: &CmId) -> Option<[u8; 16]> {
    listener.context().ok()?.query_gid(listener.port_num(), 0).ok().map(|row| row.gid)
}

/// Returns the login of the target at a port, as `ibsrpdm -c` prints it.
fn login(guid: u64, port: &CaPort, service_id: u64) -> String {
    let pkey = port.pkeys.iter().copied().find(|pkey| *pkey != 0).unwrap_or(0xffff);
    let gid = u128::from_be_bytes(port.gid());
    format!("id_ext={guid:016x},ioc_guid={guid:016x},dgid={gid:032x},pkey={pkey:04x},service_id={service_id:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_is_what_ibsrpdm_prints() {
        let port = CaPort {
            gid_prefix: 0xfe80 << 48,
            port_guid: 0x0257_4501_0000_0601,
            pkeys: vec![0, 0x8001],
            ..CaPort::default()
        };
        let expected = "id_ext=00000000000000aa,ioc_guid=00000000000000aa,dgid=fe800000000000000257450100000601,pkey=8001,\
                        service_id=00000000013f15b3";
        assert_eq!(login(0xaa, &port, 0x013f_15b3), expected);
    }
}
