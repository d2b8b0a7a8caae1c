//! Messages survive malformed bytes, and round trips.

use proptest::prelude::*;
use weft_ipc::stat::QpCursor;
use weft_ipc::{
    ClientFrame, DaemonFrame, DecodeError, DeviceInfo, Event, GID_TABLE_ROWS_MAX, GidEntry, GidType, MESSAGE_BYTES_MAX,
    McastGroup, PeerGrant, PhysState, PortState, Publication, Refusal, Request, Response, Usage, decode, encode,
};

fn device(index: u32, rows: usize) -> DeviceInfo {
    DeviceInfo {
        index,
        name: "x".repeat(63),
        kind: "rxe".into(),
        node_guid: u64::MAX,
        netdev: "y".repeat(15),
        ifindex: u32::MAX,
        mac: [0xff; 6],
        netdev_mtu: u32::MAX,
        active_mtu: 4096,
        state: PortState::Active,
        phys_state: PhysState::LinkUp,
        gids: (0..rows as u32)
            .map(|index| GidEntry { index, gid: [0xff; 16], gid_type: GidType::RoceV2, ifindex: u32::MAX })
            .collect(),
        pkeys: vec![0xffff],
        link_speed_mbps: Some(u32::MAX),
        auto: true,
        infiniband: None,
    }
}

#[test]
fn the_fullest_page_fits_a_message() {
    let devices = (0..weft_ipc::DEVICES_PER_PAGE as u32).map(|n| device(u32::MAX - n, GID_TABLE_ROWS_MAX)).collect();
    let reply = DaemonFrame::Reply { id: u32::MAX, result: Ok(Response::Devices { devices, more: true }) };
    let bytes = encode(&reply).unwrap();
    assert_eq!(decode::<DaemonFrame>(&bytes), Ok(reply));
}

#[test]
fn a_claimed_length_reserves_nothing() {
    // Reattach { slot: 0, groups: 2^32 - 1 of them }, with none following.
    let bytes = [5, 3, 0, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(decode::<ClientFrame>(&bytes), Err(DecodeError::Malformed));
    assert_eq!(decode::<ClientFrame>(&vec![0; MESSAGE_BYTES_MAX + 1]), Err(DecodeError::TooLong));
}

#[test]
fn what_follows_a_message_is_an_error() {
    let mut bytes = encode(&ClientFrame { id: 1, request: Request::Subscribe }).unwrap();
    bytes.push(0);
    assert_eq!(decode::<ClientFrame>(&bytes), Err(DecodeError::Malformed));
}

fn requests() -> impl Strategy<Value = Request> {
    let group = (any::<std::net::IpAddr>(), any::<u32>()).prop_map(|(group, ifindex)| McastGroup { group, ifindex });
    prop_oneof![
        any::<u32>().prop_map(|offset| Request::ListDevices { offset }),
        Just(Request::Subscribe),
        Just(Request::AllocateSlot),
        (any::<u32>(), proptest::collection::vec(group.clone(), 0..9))
            .prop_map(|(slot, groups)| Request::Reattach { slot, groups }),
        group.clone().prop_map(Request::JoinMulticast),
        group.prop_map(Request::LeaveMulticast),
        (".{0,9}", ".{0,9}", ".{0,9}").prop_map(|(name, kind, netdev)| Request::LinkAdd { name, kind, netdev }),
        ".{0,9}".prop_map(|name| Request::LinkDel { name }),
        (".{0,9}", ".{0,9}").prop_map(|(old, new)| Request::DevRename { old, new }),
        any::<u32>().prop_map(|offset| Request::Status { offset }),
        Just(Request::OpenLedger),
        Just(Request::RefreshLedgers),
        any::<u32>().prop_map(|offset| Request::Stat { offset }),
        any::<u32>().prop_map(|offset| Request::ListAdapters { offset }),
        any::<(u64, u32)>().prop_map(|(client, skip)| Request::ListQps(QpCursor { client, skip })),
        (any::<u64>(), any::<bool>(), any::<bool>())
            .prop_map(|(generation, shares, brings)| Request::Publish(Publication { generation, shares, brings })),
        any::<u32>().prop_map(|slot| Request::MeetPeer { slot }),
        any::<[u32; 5]>().prop_map(|[pd, cq, qp, mr, srq]| Request::ReportUsage(Usage { pd, cq, qp, mr, srq })),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), low: bool) {
        // Small numbers are more often valid variants and lengths.
        let bytes: Vec<u8> = if low { bytes.iter().map(|byte| byte % 14).collect() } else { bytes };
        let _ = decode::<ClientFrame>(&bytes);
        let _ = decode::<DaemonFrame>(&bytes);
    }

    #[test]
    fn requests_round_trip(id: u32, request in requests(), flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4)) {
        let frame = ClientFrame { id, request };
        let mut bytes = encode(&frame).unwrap();
        prop_assert_eq!(decode::<ClientFrame>(&bytes), Ok(frame));
        for (at, with) in flips {
            let length = bytes.len();
            bytes[at % length] ^= with;
        }
        let _ = decode::<ClientFrame>(&bytes);
    }

    #[test]
    fn answers_round_trip(id: u32, errno: i32, text in ".{0,99}", rows in 0usize..20) {
        for frame in [
            DaemonFrame::Reply { id, result: Err(Refusal { errno, text }) },
            DaemonFrame::Event(Event::DeviceChanged(device(id, rows))),
            DaemonFrame::Event(Event::DeviceRemoved { index: id }),
            DaemonFrame::Event(Event::PeerGone { slot: id, generation: u64::MAX }),
            DaemonFrame::Reply { id, result: Ok(Response::Peer(Some(PeerGrant { generation: 1, has_bell: true, has_process: false, shares: true }))) },
        ] {
            prop_assert_eq!(decode::<DaemonFrame>(&encode(&frame).unwrap()), Ok(frame));
        }
    }
}
