//! The remote end of a datagram: as the fabric addresses it, and as the head of a program's buffer does.

use weft_fabric::{Delivery, Fabric, GlobalRoute, MadAddress, PortRef};
use weft_ipc::umad::UmadHead;
use weft_wire::lrh::LID_PERMISSIVE;
use weft_wire::mad::GSI_QKEY;

/// Destination of a datagram, or of the answer to one, with further fields of a program's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostPeer {
    /// Address on the fabric.
    pub to: MadAddress,
    /// Row of the port's P_Key table.
    pub pkey_index: u16,
    /// Timeout of each try, in milliseconds.
    pub timeout_ms: u32,
    /// Number of retries.
    pub retries: u32,
}

impl weft_mad::Peer for HostPeer {
    fn same_end(&self, other: &HostPeer) -> bool {
        let (ours, theirs) = (self.to.dlid, other.to.dlid);
        ours == theirs || ours == LID_PERMISSIVE || theirs == LID_PERMISSIVE
    }
}

impl HostPeer {
    /// Returns the destination in a program's head, for a queue pair of this port.
    pub fn of_head(fabric: &Fabric, port: PortRef, src_qp: u32, head: &UmadHead) -> HostPeer {
        let grh = (head.grh_present != 0).then(|| GlobalRoute {
            sgid: fabric.gid(port, head.gid_index).unwrap_or_default(),
            dgid: head.gid,
            flow_label: u32::from_be_bytes(head.flow_label) & 0xf_ffff,
            traffic_class: head.traffic_class,
            hop_limit: head.hop_limit,
        });
        let pkey = fabric.pkeys(port).get(usize::from(head.pkey_index)).copied().unwrap_or_default();
        let to = MadAddress {
            dlid: u16::from_be_bytes(head.lid),
            path_bits: head.path_bits,
            sl: head.sl & 0xf,
            src_qp,
            dest_qp: u32::from_be_bytes(head.qpn),
            qkey: u32::from_be_bytes(head.qkey),
            pkey,
            grh,
        };
        HostPeer { to, pkey_index: head.pkey_index, timeout_ms: head.timeout_ms, retries: head.retries }
    }

    /// Returns the address for the answer to a datagram.
    pub fn of_delivery(delivery: &Delivery) -> HostPeer {
        let turned = |grh: GlobalRoute| GlobalRoute { sgid: grh.dgid, dgid: grh.sgid, ..grh };
        let to = MadAddress {
            dlid: delivery.slid,
            path_bits: delivery.path_bits,
            sl: delivery.sl,
            src_qp: delivery.dest_qp,
            dest_qp: delivery.src_qp,
            qkey: GSI_QKEY,
            pkey: delivery.pkey,
            grh: delivery.grh.map(turned),
        };
        HostPeer { to, pkey_index: delivery.pkey_index, timeout_ms: 0, retries: 0 }
    }

    /// Makes the head of a received datagram; or, with its status, of the program's own datagram that went unanswered.
    pub fn head(&self, agent: u32, status: u32) -> UmadHead {
        let to = &self.to;
        let mut head = UmadHead {
            agent,
            status,
            timeout_ms: self.timeout_ms,
            retries: self.retries,
            qpn: to.dest_qp.to_be_bytes(),
            // Unset in received datagrams.
            qkey: if status == 0 { [0; 4] } else { to.qkey.to_be_bytes() },
            lid: to.dlid.to_be_bytes(),
            sl: to.sl,
            path_bits: to.path_bits,
            pkey_index: self.pkey_index,
            ..UmadHead::default()
        };
        if let Some(grh) = &to.grh {
            head.grh_present = 1;
            head.gid = grh.dgid;
            head.hop_limit = grh.hop_limit;
            head.traffic_class = grh.traffic_class;
            head.flow_label = grh.flow_label.to_be_bytes();
        }
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::mad::Mad;
    use zerocopy::FromZeros;

    #[test]
    fn a_datagram_with_a_grh_shows_its_sender_and_finds_back() {
        let delivery = Delivery {
            port: PortRef::new(1, 1),
            slid: 7,
            path_bits: 1,
            sl: 3,
            src_qp: 1,
            dest_qp: 1,
            pkey_index: 2,
            pkey: 0x8001,
            grh: Some(GlobalRoute { sgid: [1; 16], dgid: [2; 16], flow_label: 5, traffic_class: 6, hop_limit: 64 }),
            mad: Mad::new_zeroed(),
        };
        let peer = HostPeer::of_delivery(&delivery);
        let head = peer.head(4, 0);
        assert_eq!((head.agent, head.lid, head.qpn, head.qkey), (4, [0, 7], [0, 0, 0, 1], [0; 4]));
        assert_eq!((head.grh_present, head.gid, head.flow_label), (1, [1; 16], [0, 0, 0, 5]));
        assert_eq!((head.sl, head.path_bits, head.pkey_index), (3, 1, 2));
        assert_eq!((peer.to.dlid, peer.to.pkey, peer.to.qkey), (7, 0x8001, GSI_QKEY));
    }
}
