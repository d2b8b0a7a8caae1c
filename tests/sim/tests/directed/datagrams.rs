//! Datagrams: drops, completions, and multicast.

use std::net::IpAddr;

use weft_hca::AhRequest;
use weft_sim::world::DEVICE;
use weft_sim::{End, Faults, QpOptions, World, end};
use weft_verbs::{
    Access, Gid, Mtu, QpType, SendFlags, SendOp, SendWr, Sge, UdTarget, VerbsError, WcFlags, WcOpcode, WcStatus,
};

use super::{look, memory, setup, statuses};

fn options() -> QpOptions {
    QpOptions { kind: QpType::Ud, ..QpOptions::default() }
}

/// Sends a datagram from one end to the other.
pub fn send(
    world: &mut World,
    from: &End,
    to: &End,
    wr_id: u64,
    sge: Sge,
    options: &QpOptions,
) -> Result<(), VerbsError> {
    let av = world.hosts[from.host].path_to(world.hosts[to.host].gid());
    let ud = Some(UdTarget { av, remote_qpn: to.qpn, remote_qkey: options.qkey });
    let flags = SendFlags::SIGNALED | SendFlags::SOLICITED;
    let wr = SendWr { wr_id, flags, op: SendOp::SendImm(0x0102_0304), sges: &[sge], ud, xrc_srqn: None };
    world.hosts[from.host].hca.post_send(world.now, from.qp, &wr)
}

#[test]
fn a_datagram_brings_its_header_and_its_sender() {
    for v6 in [false, true] {
        let mut world = World::with(5, 2, v6, Faults::NONE, super::PATH.ways());
        let [a, b] = weft_sim::pair(&mut world, &options());
        let from = memory(&mut world, &a, 100, Access::LOCAL_WRITE);
        super::fill(&mut world, &a, &from, 0x66);
        let to = memory(&mut world, &b, 140, Access::LOCAL_WRITE);
        b.recv(&mut world, 4, to).unwrap();
        send(&mut world, &a, &b, 1, from, &options()).unwrap();
        world.settle();
        let wcs = b.poll(&mut world);
        assert_eq!(wcs.len(), 1);
        let wc = wcs[0];
        assert_eq!((wc.wr_id, wc.status, wc.byte_len, wc.src_qp), (4, WcStatus::Success, 140, a.qpn));
        assert_eq!((wc.flags, wc.imm_data, wc.opcode), (WcFlags::GRH | WcFlags::WITH_IMM, 0x0102_0304, WcOpcode::Recv));
        assert!(wc.solicited);
        let held = look(&mut world, &b, &to);
        assert_eq!(held[40..], [0x66; 100]);
        // The header contains the address for a reply.
        let source: IpAddr = if v6 {
            IpAddr::from(<[u8; 16]>::try_from(&held[8..24]).unwrap())
        } else {
            IpAddr::from(<[u8; 4]>::try_from(&held[32..36]).unwrap())
        };
        assert_eq!(source, world.hosts[0].ip);
    }
}

#[test]
fn wrong_q_keys_small_buffers_and_empty_queues_lose_datagrams() {
    let (mut world, [a, b]) = setup(&options());
    let from = memory(&mut world, &a, 100, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 140, Access::LOCAL_WRITE);
    // No receive.
    send(&mut world, &a, &b, 1, from, &options()).unwrap();
    world.settle();
    b.recv(&mut world, 4, to).unwrap();
    // A wrong Q_Key.
    send(&mut world, &a, &b, 2, from, &QpOptions { qkey: 5, ..options() }).unwrap();
    world.settle();
    assert!(b.poll(&mut world).is_empty());
    // The sender does not notice the drops.
    assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::Success), (2, WcStatus::Success)]);
    send(&mut world, &a, &b, 3, from, &options()).unwrap();
    world.settle();
    assert_eq!(statuses(&b.poll(&mut world)), [(4, WcStatus::Success)]);
}

#[test]
fn a_datagram_longer_than_the_mtu_is_refused_and_one_as_long_passes() {
    let (mut world, [a, b]) = setup(&options());
    let from = memory(&mut world, &a, 4097, Access::LOCAL_WRITE);
    let to = memory(&mut world, &b, 5000, Access::LOCAL_WRITE);
    b.recv(&mut world, 4, to).unwrap();
    match send(&mut world, &a, &b, 1, from, &options()) {
        Err(VerbsError::Invalid(_)) => {}
        other => panic!("{other:?}"),
    }
    send(&mut world, &a, &b, 2, Sge { length: 4096, ..from }, &options()).unwrap();
    world.settle();
    assert_eq!(b.poll(&mut world)[0].byte_len, 4096 + 40);
    let _ = Mtu::Mtu4096;
}

#[test]
fn only_sends_and_only_with_an_address_are_datagrams() {
    let (mut world, [a, b]) = setup(&options());
    let from = memory(&mut world, &a, 8, Access::LOCAL_WRITE);
    assert!(a.send(&mut world, 1, SendOp::Send, from).is_err());
    let av = world.hosts[0].path_to(world.hosts[1].gid());
    let ud = Some(UdTarget { av, remote_qpn: b.qpn, remote_qkey: 0 });
    for op in [SendOp::Write(super::target(&from)), SendOp::Read(super::target(&from)), SendOp::SendInv(1)] {
        let wr = SendWr { wr_id: 1, flags: SendFlags::SIGNALED, op, sges: &[from], ud, xrc_srqn: None };
        assert!(matches!(world.hosts[0].hca.post_send(world.now, a.qp, &wr), Err(VerbsError::Invalid(_))));
    }
}

#[test]
fn a_group_reaches_its_members_and_nobody_else() {
    let mut world = super::world(3);
    let group = Gid::from("239.7.7.7".parse::<IpAddr>().unwrap());
    let options = options();
    let mut ends = Vec::new();
    for host in 0..3 {
        let parts = end::parts(&mut world, host);
        for _ in 0..2 {
            let end = end::create(&mut world, host, &parts, QpType::Ud, &options);
            for to in [weft_verbs::QpState::Init, weft_verbs::QpState::Rtr, weft_verbs::QpState::Rts] {
                let attr = end::attributes(&world, &end, &end, &options, 0);
                end::go(&mut world, &end, QpType::Ud, to, &attr).unwrap();
            }
            let sge = memory(&mut world, &end, 100, Access::LOCAL_WRITE);
            end.recv(&mut world, u64::from(end.qpn), sge).unwrap();
            ends.push(end);
        }
    }
    // Host 0: the sender and its neighbour; host 1: both; host 2: none.
    let hca = &mut world.hosts[1].hca;
    assert_eq!(hca.attach_mcast(ends[2].qp, group, 0), Ok(true));
    assert_eq!(hca.attach_mcast(ends[3].qp, group, 0), Ok(false));
    assert_eq!(hca.attach_mcast(ends[3].qp, group, 0), Ok(false));
    let one_host = Gid::from("10.0.0.1".parse::<IpAddr>().unwrap());
    assert!(hca.attach_mcast(ends[3].qp, one_host, 0).is_err());
    assert_eq!(world.hosts[0].hca.attach_mcast(ends[0].qp, group, 0), Ok(true));
    assert_eq!(world.hosts[0].hca.attach_mcast(ends[1].qp, group, 0), Ok(false));

    let from = memory(&mut world, &ends[0], 20, Access::LOCAL_WRITE);
    let ah = AhRequest { dgid: group, is_global: true, port_num: 1, hop_limit: 1, ..AhRequest::default() };
    let av = world.hosts[0].hca.resolve_av(DEVICE, &ah).unwrap();
    let ud = Some(UdTarget { av, remote_qpn: 0xff_ffff, remote_qkey: options.qkey });
    let wr = SendWr { wr_id: 1, flags: SendFlags::SIGNALED, op: SendOp::Send, sges: &[from], ud, xrc_srqn: None };
    let now = world.now;
    world.hosts[0].hca.post_send(now, ends[0].qp, &wr).unwrap();
    world.settle();
    let got: Vec<Vec<u64>> = [0, 2, 4]
        .map(|e: usize| {
            let end = ends[e];
            let mut all: Vec<u64> =
                end.poll(&mut world).iter().filter(|wc| wc.opcode == WcOpcode::Recv).map(|wc| wc.wr_id).collect();
            all.sort_unstable();
            all
        })
        .to_vec();
    let mut both = vec![u64::from(ends[2].qpn), u64::from(ends[3].qpn)];
    both.sort_unstable();
    // The sender itself receives nothing, its neighbour does.
    assert_eq!(got, [vec![u64::from(ends[1].qpn)], both, vec![]]);

    let hca = &mut world.hosts[1].hca;
    assert!(matches!(hca.destroy_qp(ends[2].qp), Err(VerbsError::Busy(_))));
    assert_eq!(hca.detach_mcast(ends[2].qp, group, 0), Ok(false));
    assert_eq!(hca.detach_mcast(ends[3].qp, group, 0), Ok(true));
    assert!(hca.detach_mcast(ends[3].qp, group, 0).is_err());
    hca.destroy_qp(ends[2].qp).unwrap();
}

#[test]
fn addresses_that_lead_nowhere_are_refused() {
    let world = super::world(2);
    let good = AhRequest { dgid: world.hosts[1].gid(), is_global: true, port_num: 1, ..AhRequest::default() };
    let hca = &world.hosts[0].hca;
    assert!(hca.resolve_av(DEVICE, &good).is_ok());
    let v6 = Gid::from("fd00::1".parse::<IpAddr>().unwrap());
    for bad in [
        AhRequest { is_global: false, ..good },
        AhRequest { port_num: 2, ..good },
        AhRequest { sgid_index: 3, ..good },
        AhRequest { dgid: Gid::ZERO, ..good },
        AhRequest { dgid: v6, ..good },
    ] {
        assert!(matches!(hca.resolve_av(DEVICE, &bad), Err(VerbsError::Invalid(_))), "{bad:?}");
    }
}
