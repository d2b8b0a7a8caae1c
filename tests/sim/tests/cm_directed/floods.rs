//! More than any honest peer sends: endless requests, and messages with arbitrary contents.

use super::*;

/// Endless requests: a bounded number wait, the rest are rejected, and once the waiting ones are destroyed nothing
/// stays.
#[test]
fn a_flood_of_requests_has_a_bound() {
    let mut cm = Cm::new(1);
    let world = CmWorld::new(1, 1, false, Faults::NONE);
    cm.set_device(weft_sim::cm::world::DEVICE, weft_cm::ib::CaInfo { node_guid: node_guid(0), ack_delay: 15 });
    cm.listen(SERVICE, u64::MAX).unwrap();
    let (own, peer) = (world.hosts[0].ip, stranger());
    let path = weft_wire::cm::Path {
        local_lid: LID_PERMISSIVE,
        remote_lid: LID_PERMISSIVE,
        local_gid: gmp_address(peer, own).sgid.0,
        remote_gid: gmp_address(peer, own).dgid.0,
        hop_limit: 64,
        local_ack_timeout: 17,
        ..Default::default()
    };
    let flood = limits::PENDING_REQUESTS_MAX as u32 + 5_000;
    let (mut conns, mut refused) = (Vec::new(), 0);
    for number in 0..flood {
        let req = Req {
            local_comm_id: number + 1,
            service_id: ServiceId(SERVICE),
            local_ca_guid: 0xbad,
            local_qpn: number + 2,
            local_cm_response_timeout: 18,
            pkey: 0xffff,
            path_mtu: 3,
            primary: path,
            ..Req::default()
        };
        let mad = CmMessage::from(req).to_mad(number.into());
        cm.handle_mad(Instant(number.into()), &gmp_address(own, peer), mad.as_bytes().try_into().unwrap());
        while let Some((_, bytes)) = cm.poll_transmit() {
            let CmMessage::Rej(rej) = CmMessage::from_mad(&Mad::parse(&bytes).unwrap()).unwrap() else { panic!() };
            assert_eq!(rej.reason, RejectReason::NO_RESOURCES);
            refused += 1;
        }
        while let Some(event) = cm.poll_event() {
            conns.push(event.conn);
        }
    }
    assert_eq!((conns.len(), refused), (limits::PENDING_REQUESTS_MAX, 5_000));
    assert_eq!(cm.connections(), limits::PENDING_REQUESTS_MAX);
    conns.iter().for_each(|conn| cm.destroy(Instant(1 << 40), *conn));
    while cm.poll_transmit().is_some() {}
    assert!(cm.is_idle());
}

/// Every message type with arbitrary contents, from three addresses, to a listener that sometimes answers: no panic,
/// and the state kept stays within a bound.
#[test]
fn noise_of_all_kinds_is_survived() {
    let mut rng = weft_sim::Rng::new(5);
    let mut cm = Cm::new(1);
    let own: IpAddr = [10, 77, 0, 1].into();
    cm.set_device(weft_sim::cm::world::DEVICE, weft_cm::ib::CaInfo { node_guid: node_guid(0), ack_delay: 15 });
    cm.listen(0, 0).unwrap();
    let (mut known, mut most) = (vec![ConnId(0)], 0);
    for number in 0..200_000 {
        let now = Instant(number * 1_000_000);
        // Few values for each byte, so that ids, GUIDs and queue pairs repeat.
        let mut data: [u8; 232] = std::array::from_fn(|_| rng.pick(&[0, 0, 0, 1, 0x80, 0xff]));
        if rng.chance(1, 2) {
            let id = rng.pick(&known).0.to_be_bytes();
            let at = rng.pick(&[0, 4]);
            data[at..at + 4].copy_from_slice(&id);
        }
        let kind = rng.pick(&CmMessage::ALL.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        let mad = CmMessage::parse(kind, &data).unwrap().to_mad(number);
        let from = gmp_address(own, [10, 77, 0, rng.range(2, 4) as u8].into());
        cm.handle_mad(now, &from, mad.as_bytes().try_into().unwrap());
        if cm.poll_timeout().is_some_and(|at| at <= now) {
            cm.handle_timeout(now);
        }
        while cm.poll_transmit().is_some() {}
        while let Some(event) = cm.poll_event() {
            known.push(event.conn);
        }
        let conn = rng.pick(&known);
        match rng.below(8) {
            0 | 1 => drop(cm.send_rep(now, conn, &rep(rng.below(4) as u32))),
            2 => drop(cm.send_rtu(now, conn, &[])),
            3 => drop(cm.establish(now, conn)),
            4 => drop(cm.send_dreq(now, conn, &[])),
            5 => drop(cm.send_mra(now, conn, rng.bits() as u8 & 31, false, &[])),
            _ => {}
        }
        if known.len() > 50 {
            let at = rng.range(1, 49) as usize;
            cm.destroy(now, known.swap_remove(at));
        }
        most = most.max(cm.connections());
    }
    assert!(most < 5_000, "{most} connections of 50 that anybody holds");
    let mut now = Instant(1 << 50);
    known.iter().for_each(|conn| cm.destroy(now, *conn));
    while let Some(at) = cm.poll_timeout() {
        now = now.max(at);
        cm.handle_timeout(now);
        while cm.poll_transmit().is_some() {}
    }
    while cm.poll_transmit().is_some() {}
    assert!(cm.is_idle(), "{cm:#?}");
}
