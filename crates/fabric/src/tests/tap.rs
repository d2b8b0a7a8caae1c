//! The tap: what hosts send and receive, as packets.

use super::*;
use crate::limits::TAPPED_MAX;
use crate::{Direction, Tapped};
use weft_wire::Packet as IbPacket;
use weft_wire::link_packet::{LinkPacket, vcrc_holds};
use weft_wire::lrh::VL_MANAGEMENT;
use zerocopy::IntoBytes;

fn vendor() -> Mad {
    Mad { header: MadHeader::new(Class(0x32), 1, Method::GET, 5, AttrId(1)), data: [3; 232] }
}

/// Checks a packet's sums and payload; returns its lane, LIDs and destination queue pair.
fn read(tapped: &Tapped, mad: Option<&Mad>) -> (u8, [u16; 2], u32) {
    let link = LinkPacket::parse(&tapped.packet).expect("whole");
    assert!(link.icrc_holds() && vcrc_holds(&tapped.packet));
    let packet = IbPacket::parse(link.ib).expect("whole");
    mad.iter().for_each(|mad| assert_eq!(packet.payload, mad.as_bytes()));
    (link.lrh.vl(), [link.lrh.slid(), link.lrh.dlid()], packet.bth.dest_qp())
}

#[test]
fn both_ends_of_a_datagram_pass_an_open_tap() {
    let mut lab = Lab::up();
    let to = MadAddress::gsi(LIDS[H2 as usize], 0xffff);
    lab.lid(H1, to, vendor());
    assert_eq!(lab.fabric.poll_tapped(), None, "it is closed");
    lab.fabric.set_tapped(true);
    lab.lid(H1, to, vendor());
    let lids = [LIDS[H1 as usize], LIDS[H2 as usize]];
    for (host, direction) in [(H1, Direction::Sent), (H2, Direction::Received)] {
        let tapped = lab.fabric.poll_tapped().expect("a datagram");
        assert_eq!((tapped.port, tapped.direction), (PortRef::new(host, 1), direction));
        assert_eq!(read(&tapped, Some(&vendor())), (0, lids, 1));
    }
    lab.lid(H1, to, vendor());
    lab.fabric.set_tapped(false);
    assert_eq!(lab.fabric.poll_tapped(), None, "a closed tap forgets");
}

#[test]
fn directed_smps_are_on_the_management_lane_without_lids() {
    let mut lab = Lab::up();
    lab.fabric.set_tapped(true);
    let _: PortInfo = lab.get(H2, AttrId::PORT_INFO, 1);
    for direction in [Direction::Sent, Direction::Received] {
        let tapped = lab.fabric.poll_tapped().expect("an SMP");
        assert_eq!((tapped.port, tapped.direction), (PortRef::new(H0, 1), direction));
        assert_eq!(read(&tapped, None), (VL_MANAGEMENT, [LID_PERMISSIVE; 2], 0));
    }
}

#[test]
fn a_tap_that_nobody_empties_is_bounded() {
    let mut lab = Lab::up();
    lab.fabric.set_tapped(true);
    for number in 0..TAPPED_MAX + 3 {
        lab.fabric.tap(lab.now, PortRef::new(H1, 1), Direction::Sent, || vec![number as u8]);
    }
    assert_eq!((lab.fabric.take_tap_dropped(), lab.fabric.take_tap_dropped()), (3, 0));
    assert_eq!(std::iter::from_fn(|| lab.fabric.poll_tapped()).count(), TAPPED_MAX);
}
