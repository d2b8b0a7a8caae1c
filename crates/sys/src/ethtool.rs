//! The only ethtool query in use: the link speed of an interface.

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GSET: u32 = 1;
const SPEED_UNKNOWN: u32 = u32::MAX;

/// `struct ethtool_cmd`: the legacy query, which every kernel and driver answers.
#[repr(C)]
#[derive(Default)]
struct EthtoolCmd {
    cmd: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    duplex: u8,
    port: u8,
    phy_address: u8,
    transceiver: u8,
    autoneg: u8,
    mdio_support: u8,
    maxtxpkt: u32,
    maxrxpkt: u32,
    speed_hi: u16,
    eth_tp_mdix: u8,
    eth_tp_mdix_ctrl: u8,
    lp_advertising: u32,
    reserved: [u32; 2],
}

#[repr(C)]
struct IfReq {
    name: [u8; libc::IFNAMSIZ],
    data: *mut EthtoolCmd,
    // `struct ifreq` is 40 bytes on 64-bit machines; the kernel copies all of it.
    rest: [u64; 2],
}

/// Returns the speed in Mbit/s, if the driver knows it.
pub fn link_speed_mbps(interface: &str) -> Option<u32> {
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    speed_of(&socket, interface).ok().filter(|&speed| speed != 0 && speed != SPEED_UNKNOWN && speed != 0xffff)
}

fn speed_of(socket: &impl AsRawFd, interface: &str) -> io::Result<u32> {
    let mut command = EthtoolCmd { cmd: ETHTOOL_GSET, ..EthtoolCmd::default() };
    let mut request = IfReq { name: [0; libc::IFNAMSIZ], data: &raw mut command, rest: [0; 2] };
    // The last byte stays zero: the kernel expects a C string.
    for (to, from) in request.name.iter_mut().take(libc::IFNAMSIZ - 1).zip(interface.bytes()) {
        *to = from;
    }
    // SAFETY: `request` has the layout and size of `struct ifreq` and its pointer names `command`, which has those of
    // `struct ethtool_cmd`; both live across the call.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u32::from(command.speed_hi) << 16 | u32::from(command.speed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_the_kernels() {
        assert_eq!(size_of::<EthtoolCmd>(), 44);
        assert_eq!(size_of::<IfReq>(), 40);
        assert_eq!(link_speed_mbps("no such interface at all"), None);
    }
}
