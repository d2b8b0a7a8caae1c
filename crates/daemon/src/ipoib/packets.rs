//! Packets of IPoIB interfaces as they are on the links, LRH to VCRC: for fabrics in which every packet travels hop by
//! hop, for cables with latency, and for captures.

use weft_ipoib::{Destination, Port};
use weft_wire::link_packet::{Datagram, DatagramRoute, LinkPacket, UD_SEND_ONLY};
use weft_wire::{Packet, Psn};

/// Hop limit of a packet to a group: it stays in its subnet (RFC 4391 §4).
const HOP_LIMIT: u8 = 0;

/// Writes a datagram from a port to its destination.
pub fn encode(from: &Port, pkey: u16, psn: Psn, to: &Destination, frame: &[u8]) -> Vec<u8> {
    let route =
        to.group.map(|mgid| DatagramRoute { class: 0, flow_label: 0, hop_limit: HOP_LIMIT, gids: [from.gid, mgid] });
    let (lids, qps) = ([from.lid, to.dlid], [from.qpn, to.qpn]);
    Datagram { vl: 0, sl: to.sl, lids, route, pkey, psn, qps, qkey: to.qkey }.write(frame)
}

/// A datagram that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived<'a> {
    /// LID of the sender's port.
    pub slid: u16,
    /// Queue pair of the sender.
    pub src_qp: u32,
    /// Queue pair that it is for.
    pub dest_qp: u32,
    /// Q_Key.
    pub qkey: u32,
    /// P_Key.
    pub pkey: u16,
    /// GID of the group that it is for, if it is for one.
    pub group: Option<[u8; 16]>,
    /// Encapsulation header and packet.
    pub frame: &'a [u8],
}

/// Reads a packet; `None` if it is no datagram, or a damaged one.
pub fn decode(bytes: &[u8]) -> Option<Arrived<'_>> {
    let link = LinkPacket::parse(bytes).ok()?;
    let packet = Packet::parse(link.ib).ok().filter(|packet| packet.bth.opcode() == UD_SEND_ONLY)?;
    let deth = packet.ext.deth.filter(|_| link.icrc_holds())?;
    let (dest_qp, pkey) = (packet.bth.dest_qp(), packet.bth.pkey());
    Some(Arrived {
        slid: link.lrh.slid(),
        src_qp: deth.src_qp(),
        dest_qp,
        qkey: deth.qkey(),
        pkey,
        group: link.grh.map(|grh| grh.dgid()).filter(|gid| gid[0] == 0xff),
        frame: packet.payload,
    })
}

#[cfg(test)]
mod tests {
    use weft_wire::link_packet;

    use super::*;

    #[test]
    fn a_datagram_is_read_as_it_was_written_and_damage_is_seen() {
        let from = Port { gid: [7; 16], lid: 3, qpn: 0x48 };
        let to = Destination { dlid: 9, sl: 2, group: None, qpn: 0x49, qkey: 0xb1b };
        let group = Destination { dlid: 0xc000, group: Some([0xff; 16]), qpn: weft_wire::MULTICAST_QPN, ..to };
        for (to, headers) in [(to, 8 + 12 + 8), (group, 8 + 40 + 12 + 8)] {
            let mut bytes = encode(&from, 0xffff, Psn::new(5), &to, b"seven b");
            assert_eq!(bytes.len(), headers + 8 + 4 + 2);
            let (qkey, pkey) = (to.qkey, 0xffff);
            let expected =
                Arrived { slid: 3, src_qp: 0x48, dest_qp: to.qpn, qkey, pkey, group: to.group, frame: b"seven b" };
            assert_eq!(decode(&bytes), Some(expected));
            assert!(link_packet::vcrc_holds(&bytes));
            bytes[headers] ^= 1;
            assert_eq!(decode(&bytes), None);
        }
        assert_eq!(decode(b"no packet"), None);
    }
}
