//! One end: a pump with a device on the loopback interface, and one connected queue pair.

use std::net::IpAddr;

use weft_engine::{Pump, PumpConfig};
use weft_hca::{AhRequest, MrKeys};
use weft_link::{FaultPlan, StackConfig};
use weft_sys::roce_port::{self, Family};
use weft_verbs::{
    Access, CqId, CqInit, DeviceAttr, DeviceId, Gid, GidEntry, GidType, Instant, Mtu, PortAttr, PortState, QpAttr,
    QpAttrMask as Mask, QpCap, QpId, QpInit, QpState, QpType, Qpn, RecvWr, SendFlags, SendOp, SendWr, Sge, Wc,
};

pub const DEVICE: DeviceId = DeviceId(1);
const ALL: Access =
    Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

pub struct Node {
    pub pump: Pump,
    pub cq: CqId,
    pub qp: QpId,
    pub qpn: Qpn,
    pub memory: Vec<u8>,
    pub mr: MrKeys,
    _daemons_socket: Option<std::os::fd::OwnedFd>,
}

pub fn now() -> Instant {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Makes two nodes, in slots 1 and 2 of a socket pool made here.
pub fn pair(addresses: [IpAddr; 2], fault: &str, bytes: usize) -> [Node; 2] {
    let family = if addresses[0].is_ipv4() { Family::V4 } else { Family::V6 };
    let mut sockets: Vec<_> = (0..3).map(|i| roce_port::join_group(family, i == 0).unwrap()).collect();
    sockets.iter().for_each(|s| roce_port::open(s).unwrap());
    let mut slot = 0;
    // A socket that leaves the group lets another take its number: the daemon's stays, here as in production.
    let mut daemons = Some(sockets.remove(0));
    addresses.map(|address| {
        slot += 1;
        let socket = sockets.remove(0);
        Node { _daemons_socket: daemons.take(), ..Node::new(slot, socket, address, fault, bytes) }
    })
}

/// Makes one node alone, in this slot of a socket pool made here.
#[allow(dead_code)] // The bench uses it.
pub fn one(slot: u32, address: IpAddr, fault: &str, bytes: usize) -> Node {
    let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
    let mut mine = None;
    for i in 0..=slot {
        let socket = roce_port::join_group(family, i == 0).unwrap();
        roce_port::open(&socket).unwrap();
        if let Some(other) = mine.replace(socket) {
            std::mem::forget(other);
        }
    }
    Node::new(slot, mine.unwrap(), address, fault, bytes)
}

impl Node {
    fn new(slot: u32, socket: std::os::fd::OwnedFd, address: IpAddr, fault: &str, bytes: usize) -> Node {
        let (v4, v6) = if address.is_ipv4() { (Some(socket), None) } else { (None, Some(socket)) };
        let mut pump = Pump::new(PumpConfig {
            slot,
            seed: [u64::from(slot), 2, 3, 4],
            privileged: false,
            strict: None,
            stack: StackConfig {
                v4,
                v6,
                slot,
                entropy: u64::from(slot),
                faults: FaultPlan::parse(fault).unwrap().packets,
                capture: None,
                hops: None,
                ether: false,
            },
        });
        let gid = GidEntry { index: 0, gid: Gid::from(address), gid_type: GidType::RoceV2, ifindex: 1 };
        let attr = DeviceAttr {
            name: "lo".into(),
            node_guid: 1,
            netdev: "lo".into(),
            ifindex: 1,
            is_iwarp: false,
            ports: vec![PortAttr {
                state: PortState::Active,
                active_mtu: Mtu::Mtu4096,
                gids: vec![gid],
                link_speed_mbps: None,
                infiniband: None,
            }],
        };
        let hca = &mut pump.hca;
        hca.set_device(DEVICE, attr);
        let pd = hca.alloc_pd(DEVICE, 0).unwrap();
        let cq = hca.create_cq(DEVICE, &CqInit { cqe: 1024, cookie: 0, ignore_overrun: false }).unwrap();
        let cap = QpCap { max_send_wr: 128, max_recv_wr: 128, max_send_sge: 4, max_recv_sge: 4, max_inline_data: 64 };
        let init = QpInit {
            qp_type: QpType::Rc,
            pd: Some(pd),
            send_cq: Some(cq),
            recv_cq: Some(cq),
            srq: None,
            xrcd: None,
            cap,
            sq_sig_all: true,
            cookie: 0,
        };
        let (qp, qpn, _) = hca.create_qp(DEVICE, &init).unwrap();
        let mut memory = vec![0; bytes];
        let addr = memory.as_mut_ptr().expose_provenance() as u64;
        let mr = hca.reg_mr(pd, addr, bytes as u64, addr, ALL).unwrap();
        Node { pump, cq, qp, qpn, memory, mr, _daemons_socket: None }
    }

    pub fn addr(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }

    pub fn sge(&self, offset: usize, length: usize) -> Sge {
        Sge { addr: self.addr() + offset as u64, length: length as u32, lkey: self.mr.lkey }
    }

    pub fn connect(&mut self, peer: Qpn, to: IpAddr, mtu: Mtu) {
        let hca = &mut self.pump.hca;
        let ah = AhRequest {
            dgid: Gid::from(to),
            sgid_index: 0,
            hop_limit: 64,
            is_global: true,
            port_num: 1,
            ..AhRequest::default()
        };
        let attr = QpAttr {
            qp_access: ALL,
            av: Some(hca.resolve_av(DEVICE, &ah).unwrap()),
            path_mtu: mtu,
            timeout: 8,
            retry_cnt: 7,
            rnr_retry: 7,
            rq_psn: 100,
            sq_psn: 100,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            min_rnr_timer: 1,
            dest_qpn: peer,
            ..QpAttr::default()
        };
        let steps = [
            (QpState::Init, Mask::PKEY_INDEX | Mask::PORT | Mask::ACCESS_FLAGS),
            (
                QpState::Rtr,
                Mask::AV
                    | Mask::PATH_MTU
                    | Mask::DEST_QPN
                    | Mask::RQ_PSN
                    | Mask::MAX_DEST_RD_ATOMIC
                    | Mask::MIN_RNR_TIMER,
            ),
            (QpState::Rts, Mask::SQ_PSN | Mask::TIMEOUT | Mask::RETRY_CNT | Mask::RNR_RETRY | Mask::MAX_QP_RD_ATOMIC),
        ];
        for (qp_state, mask) in steps {
            let attr = QpAttr { qp_state, ..attr };
            hca.modify_qp(now(), self.qp, &attr, mask | Mask::STATE).unwrap();
        }
    }

    pub fn send(&mut self, op: SendOp, offset: usize, length: usize) {
        let sge = self.sge(offset, length);
        let wr = SendWr {
            wr_id: 1,
            flags: SendFlags::SIGNALED,
            op,
            sges: if length == 0 { &[] } else { std::slice::from_ref(&sge) },
            ud: None,
            xrc_srqn: None,
        };
        self.pump.hca.post_send(now(), self.qp, &wr).unwrap();
        self.pump.transmit(now());
    }

    pub fn recv(&mut self, offset: usize, length: usize) {
        let sge = self.sge(offset, length);
        self.pump.hca.post_recv(self.qp, &RecvWr { wr_id: 2, sges: &[sge] }).unwrap();
    }

    pub fn turn(&mut self) -> Vec<Wc> {
        self.pump.turn(now(), true);
        let mut wcs = [Wc::default(); 16];
        let n = self.pump.hca.poll_cq(self.cq, &mut wcs).unwrap();
        wcs[..n].to_vec()
    }
}
