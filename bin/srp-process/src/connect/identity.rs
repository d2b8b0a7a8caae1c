//! Identifier of this initiator: the extension that is chosen, and a number made from machine, host name and user.

use std::path::Path;

use weft_rdma_service::identifier;
use weft_srp::wire::PortId;

/// Returns the identifier. Two users, or two hosts on one machine, have different ones: a login with the same identifier ends
/// the other.
pub fn initiator(extension: u64) -> PortId {
    let user = rustix::process::geteuid().as_raw();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    port_id(extension, identifier(Path::new("/"), &format!("srp initiator {user} {host}")))
}

fn port_id(extension: u64, own: [u8; 16]) -> PortId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&extension.to_be_bytes());
    bytes[8..].copy_from_slice(&own[..8]);
    PortId(bytes)
}

/// Returns the identifier of a target port: extension and GUID.
pub fn target(id_ext: u64, ioc_guid: u64) -> PortId {
    PortId((u128::from(id_ext) << 64 | u128::from(ioc_guid)).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_comes_first() {
        assert_eq!(port_id(7, [0x1f; 16]).to_string(), "0x00000000000000071f1f1f1f1f1f1f1f");
        assert_eq!(target(1, 2).to_string(), "0x00000000000000010000000000000002");
        assert_eq!(initiator(1), initiator(1));
        assert_ne!(initiator(1), initiator(2));
    }
}
