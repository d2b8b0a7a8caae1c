//! Hosts answer before a program runs as them: the first packet to a host's address gives the host its network.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Instant;

use weft_fabric::PortRef;

use super::Broker;
use crate::host::Host;

/// Receivers that get a network because of a packet. Each network costs descriptors and memory of the kernel's, and a
/// program may send to every address of a fabric.
const WOKEN_MAX: usize = 1024;

/// Ports that packets were sent to.
#[derive(Debug, Default)]
pub(super) struct Woken(BTreeSet<PortRef>);

impl Woken {
    /// Notes a receiver; returns whether its host is to be given a network. A host whose network cannot be made stays
    /// without one until a program runs as it.
    fn is_new(&mut self, port: PortRef) -> bool {
        !self.0.contains(&port) && self.0.len() < WOKEN_MAX && self.0.insert(port)
    }
}

impl Broker {
    /// Gives the receiver of a kernel's packet a network, if it has an address of the fabric and no network yet.
    pub fn wake_receiver(&mut self, now: Instant, packet: &[u8], outside: &mut impl Host) {
        let Some(to) = destination(packet) else { return };
        let Some(running) = self.shared.fabric.running_mut() else { return };
        let Some(port) = running.addressed().1.port(to).filter(|port| self.networks.woken.is_new(*port)) else {
            return;
        };
        let Some(host) = running.topology().nodes.get(port.node as usize).map(|node| node.host.clone()) else { return };
        // The sender learns of a failure as it would of a host that is off.
        if self.networks.open_host(&mut self.shared, now, outside, host).is_ok() {
            self.take_packets_of_interfaces();
        }
    }
}

/// The destination in an IPv4 header. Names of hosts lead to such addresses alone.
fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let to: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    (packet.first()? >> 4 == 4).then(|| to.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_destination_is_read_from_whole_headers_of_ipv4() {
        let mut packet = [0; 40];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[10, 0, 0, 2]);
        assert_eq!(destination(&packet), Some(Ipv4Addr::new(10, 0, 0, 2)));
        assert_eq!(destination(&packet[..19]), None);
        packet[0] = 0x60;
        assert_eq!(destination(&packet), None);
        assert_eq!(destination(&[]), None);
    }

    #[test]
    fn receivers_are_woken_once_and_not_without_limit() {
        let mut woken = Woken::default();
        assert!(woken.is_new(PortRef::new(1, 1)) && !woken.is_new(PortRef::new(1, 1)));
        let count = (0..2 * WOKEN_MAX as u32).filter(|node| woken.is_new(PortRef::new(*node, 1))).count();
        assert_eq!(count, WOKEN_MAX - 1);
        assert!(!woken.is_new(PortRef::new(u32::MAX, 1)));
    }
}
