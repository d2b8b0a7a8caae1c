//! The device on an interface, as `ibv_devinfo -v` shows it.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Properties of a device that command lines need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name, for `-d`.
    pub name: String,
    /// The index of the IPv4-mapped RoCE v2 GID.
    pub gid_v4: usize,
    /// The index of the routable IPv6 RoCE v2 GID.
    pub gid_v6: usize,
    /// The port's active MTU in bytes.
    pub active_mtu: u32,
}

/// Finds the device that has both addresses among its GIDs.
pub fn find(devinfo: &str, v4: &str, v6: &str) -> Option<Device> {
    let v4 = v4.parse::<Ipv4Addr>().ok()?.to_ipv6_mapped();
    let v6 = v6.parse::<Ipv6Addr>().ok()?;
    devinfo.split("hca_id:").skip(1).find_map(|text| {
        let name = text.split_whitespace().next()?.to_owned();
        let gids: Vec<_> = text.lines().filter_map(gid).collect();
        let index = |wanted| gids.iter().find(|(_, gid)| *gid == wanted).map(|(index, _)| *index);
        let active_mtu = active_mtu(text)?;
        // A loopback without ::1 still has its IPv4 GID.
        let gid_v4 = index(v4)?;
        Some(Device { name, gid_v4, gid_v6: index(v6).unwrap_or(gid_v4), active_mtu })
    })
}

/// Finds a device by its name. An iWARP device has no GIDs to choose from.
pub fn named(devinfo: &str, name: &str) -> Option<Device> {
    let text = devinfo.split("hca_id:").skip(1).find(|text| text.split_whitespace().next() == Some(name))?;
    Some(Device { name: name.to_owned(), gid_v4: 0, gid_v6: 0, active_mtu: active_mtu(text)? })
}

fn active_mtu(text: &str) -> Option<u32> {
    let mtu = text.lines().find_map(|line| line.trim().strip_prefix("active_mtu:"))?;
    mtu.split_whitespace().next()?.parse().ok()
}

/// Parses `GID[  2]:  fd77::1, RoCE v2`, if the version is RoCE v2.
fn gid(line: &str) -> Option<(usize, Ipv6Addr)> {
    let (index, rest) = line.trim().strip_prefix("GID[")?.split_once("]:")?;
    let (address, kind) = rest.trim().split_once(',')?;
    (kind.trim() == "RoCE v2").then_some(())?;
    Some((index.trim().parse().ok()?, address.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_device_by_its_addresses() {
        let text = "hca_id:\tweft_lo\n\tactive_mtu:\t\t4096 (5)\n\t\tGID[  0]:\t\t::ffff:127.0.0.1, RoCE v2\n\
                    hca_id:\tweft_eth0\n\tactive_mtu:\t\t1024 (3)\n\t\tGID[  0]:\t\t::ffff:10.77.0.1, RoCE v2\n\
                    \t\tGID[  1]:\t\tfe80::1, RoCE v2\n\t\tGID[  2]:\t\tfd77::1, RoCE v2\n";
        let device = find(text, "10.77.0.1", "fd77::1").expect("the second device");
        assert_eq!(device, Device { name: "weft_eth0".into(), gid_v4: 0, gid_v6: 2, active_mtu: 1024 });
        assert!(find(text, "10.77.0.9", "fd77::9").is_none());
        assert_eq!(named(text, "weft_eth0").map(|device| device.active_mtu), Some(1024));
        assert!(named(text, "weft").is_none());
    }
}
