//! Packets between Ethernet ports: they arrive while both nodes have power.

use crate::{Delivery, EthernetPorts, Fabric, MadOut, PKEY_DEFAULT, PortRef};
use weft_wire::mad::GSI_QPN;

impl Fabric {
    /// Returns the Ethernet ports.
    pub fn ethernet(&self) -> &EthernetPorts {
        &self.ethernet
    }

    /// Returns the port where RoCE packets from an Ethernet port to a GID arrive.
    pub fn ethernet_destination(&self, from: PortRef, dgid: [u8; 16]) -> Option<PortRef> {
        let is_up = |port: &PortRef| self.place(*port).is_some_and(|at| self.ports[at as usize].is_up_on_ethernet());
        let to = self.ethernet.by_gid(dgid);
        to.filter(|to| is_up(to) && is_up(&from))
    }

    /// Carries a general management datagram of an Ethernet port; one without a destination is lost.
    pub(crate) fn send_over_ethernet(&mut self, from: PortRef, out: &MadOut) {
        let to = &out.to;
        let arrives =
            to.grh.filter(|_| to.dest_qp == GSI_QPN).and_then(|grh| self.ethernet_destination(from, grh.dgid));
        if let Some(port) = arrives {
            self.deliver(Delivery {
                port,
                slid: 0,
                path_bits: 0,
                sl: to.sl,
                src_qp: to.src_qp,
                dest_qp: to.dest_qp,
                pkey_index: 0,
                pkey: PKEY_DEFAULT,
                grh: to.grh,
                mad: out.mad,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;
    use crate::{GlobalRoute, MadAddress};
    use std::net::Ipv4Addr;
    use weft_verbs::Instant;
    use weft_wire::mad::Mad;

    const TEXT: &str = r#"
        cables = ["node1:1 - node2:1"]
        [[host]]
        name = "node1"
        ports = 2
        links = ["4xFDR", "40GbE"]
        port-guids = ["0xf4521403007be131", "0xf65214fffe7be132"]
        [[host]]
        name = "node2"
        ports = 3
        links = ["4xFDR", "Ethernet", "100GbE"]
    "#;
    const FIRST: PortRef = PortRef { node: 0, port: 2 };
    const SECOND: PortRef = PortRef { node: 1, port: 3 };

    fn fabric() -> Fabric {
        Fabric::new(&topology::file::read("two", TEXT).unwrap(), 1)
    }

    #[test]
    fn addresses_follow_from_guids_and_order() {
        let fabric = fabric();
        let ports = fabric.ethernet();
        assert_eq!(ports.iter().collect::<Vec<_>>(), [FIRST, SECOND], "a port without a cable has no address");
        assert_eq!(ports.mac(FIRST), Some([0xf4, 0x52, 0x14, 0x7b, 0xe1, 0x32]), "the GUID's own");
        assert_eq!(ports.mac(SECOND), Some([2, b'w', b'e', b'f', 0, 2]));
        assert_eq!(ports.ip(SECOND), Some(Ipv4Addr::new(192, 168, 1, 2)));
        assert_eq!(ports.by_ip(Ipv4Addr::new(192, 168, 1, 2)), Some(SECOND));
        assert_eq!([[192, 168, 1, 0], [192, 168, 1, 3], [10, 0, 1, 1]].map(|ip| ports.by_ip(ip.into())), [None; 3]);
        let rows = ports.gids(FIRST);
        assert_eq!(rows.iter().map(|row| row.is_v2).collect::<Vec<_>>(), [false, true, false, true]);
        assert_eq!(rows[0].gid[8..], [0xf6, 0x52, 0x14, 0xff, 0xfe, 0x7b, 0xe1, 0x32]);
        assert_eq!(rows[3].gid[10..], [0xff, 0xff, 192, 168, 1, 1]);
    }

    #[test]
    fn datagrams_arrive_by_gid_while_both_ends_have_power() {
        let mut fabric = fabric();
        let now = Instant::default();
        let dgid = fabric.ethernet().gids(SECOND)[2].gid;
        let mut to = MadAddress::gsi(0, PKEY_DEFAULT);
        to.grh = Some(GlobalRoute { dgid, ..GlobalRoute::default() });
        let out = MadOut { to, mad: Mad::parse(&[0; 256]).unwrap() };
        fabric.send(now, FIRST, &out).unwrap();
        let delivery = fabric.poll_delivery().unwrap();
        assert_eq!((delivery.port, delivery.slid, delivery.grh), (SECOND, 0, to.grh));
        let strange = MadOut { to: MadAddress { grh: None, ..to }, ..out };
        fabric.send(now, FIRST, &strange).unwrap();
        fabric.power_off(now, SECOND.node).unwrap();
        assert_eq!(fabric.ethernet_destination(FIRST, dgid), None);
        fabric.send(now, FIRST, &out).unwrap();
        assert_eq!(fabric.poll_delivery(), None);
        fabric.power_on(now, SECOND.node).unwrap();
        assert_eq!(fabric.ethernet_destination(FIRST, dgid), Some(SECOND));
    }
}
