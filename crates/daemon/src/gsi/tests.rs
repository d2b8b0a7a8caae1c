//! Which datagrams queue pair 1 accepts.

use weft_ipc::{GidEntry, PhysState, PortState};
use weft_wire::Packet;
use weft_wire::mad::{AttrId, Class, DATA_LEN, MadHeader, Method};

use super::*;

fn device(index: u32, ifindex: u32, addresses: &[&str]) -> DeviceInfo {
    let gid = |(row, text): (u32, &&str)| GidEntry {
        index: row,
        gid: Gid::from(text.parse::<std::net::IpAddr>().unwrap()).0,
        gid_type: weft_ipc::GidType::RoceV2,
        ifindex,
    };
    DeviceInfo {
        index,
        name: format!("rxe_{index}"),
        kind: weft_ipc::DEVICE_KIND_RXE.to_owned(),
        node_guid: 1,
        netdev: "x".to_owned(),
        ifindex,
        mac: [0; 6],
        netdev_mtu: 1500,
        active_mtu: 1024,
        state: PortState::Active,
        phys_state: PhysState::LinkUp,
        gids: (0..).zip(addresses).map(gid).collect(),
        pkeys: vec![0xffff],
        link_speed_mbps: None,
        auto: true,
        infiniband: None,
    }
}

fn directory() -> Directory {
    let (mut a, b) = (device(0, 5, &["10.0.0.1", "fe80::1"]), device(1, 6, &["10.0.1.1", "fe80::1"]));
    a.add_roce_v1();
    Directory::new(&[a, b])
}

fn gmp(pkey: u16) -> Gmp {
    let header = MadHeader::new(Class::CM, 2, Method::SEND, 1, AttrId(0x10));
    Gmp { pkey, psn: Psn::new(1), src_qp: 1, mad: Mad { header, data: [0; DATA_LEN] } }
}

fn admitted(gmp: &Gmp, to: &str, ifindex: u32, spoil: impl Fn(&mut Vec<u8>)) -> Result<GmpAddress, Counts> {
    let mut bytes = [gmp.headers().as_slice(), gmp.payload(), &[0; 4]].concat();
    spoil(&mut bytes);
    let gid = |text: &str| Gid::from(text.parse::<std::net::IpAddr>().unwrap());
    let packet = Packet::parse(&bytes).unwrap();
    let rx = RxPacket {
        packet,
        sgid: gid("10.0.0.9"),
        dgid: gid(to),
        traffic_class: 8,
        hop_limit: 64,
        ifindex,
        gid_type: GidType::RoceV2,
        local: None,
    };
    let (mut counts, mut found) = (Counts::default(), None);
    admit(&mut counts, &directory(), &rx, &mut |from, taken| {
        assert_eq!(taken.mad, gmp.mad);
        found = Some(from);
    });
    found.ok_or(counts)
}

#[test]
fn a_datagram_knows_the_device_it_came_to() {
    let at = |to, ifindex| admitted(&gmp(0xffff), to, ifindex, |_| ()).map(|from| (from.device, from.sgid_index));
    assert_eq!(at("10.0.1.1", 6), Ok((1, 0)));
    // From this host itself.
    assert_eq!(at("10.0.1.1", 1), Ok((1, 0)));
    assert_eq!(at("fe80::1", 6), Ok((1, 1)));
    assert_eq!(at("fe80::1", 5), Ok((0, 1)));
    assert_eq!(at("10.0.2.1", 5), Err(Counts { foreign: 1, ..Counts::default() }));
    let from = admitted(&gmp(0xffff), "10.0.0.1", 5, |_| ()).unwrap();
    assert_eq!((from.dgid.ip().to_string(), from.remote_qpn, from.traffic_class), ("10.0.0.9".to_owned(), 1, 8));
}

#[test]
fn a_frame_of_roce_v1_is_for_the_interface_it_came_by() {
    let gid = Gid::from(std::net::IpAddr::from([10, 0, 0, 1]));
    let find = |ifindex| directory().find(gid, GidType::IbOrRoceV1, ifindex).map(|row| row.device);
    assert_eq!(find(5), Some(0));
    // From this host itself.
    assert_eq!(find(0), Some(0));
    // The host's routing and filters have not seen it.
    assert_eq!(find(6), None);
}

#[test]
fn limited_members_are_of_the_partition_and_others_are_not() {
    assert!(admitted(&gmp(0x7fff), "10.0.0.1", 5, |_| ()).is_ok());
    assert_eq!(admitted(&gmp(0x8001), "10.0.0.1", 5, |_| ()), Err(Counts { foreign: 1, ..Counts::default() }));
}

#[test]
fn what_is_no_datagram_for_queue_pair_1_is_dropped() {
    let not_gmp = Counts { not_gmp: 1, ..Counts::default() };
    // Another queue pair, another Q_Key, another length.
    for (at, byte) in [(7, 2), (12, 0x11)] {
        assert_eq!(admitted(&gmp(0xffff), "10.0.0.1", 5, |bytes| bytes[at] = byte), Err(not_gmp));
    }
    let longer = |bytes: &mut Vec<u8>| bytes.extend([0; 4]);
    assert_eq!(admitted(&gmp(0xffff), "10.0.0.1", 5, longer), Err(not_gmp));
}
