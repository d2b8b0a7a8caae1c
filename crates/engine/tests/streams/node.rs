//! One end: a pump with an iWARP device, and one queue pair, which a connection of the loopback interface can serve.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use weft_engine::{Pump, PumpConfig};
use weft_hca::MrKeys;
use weft_ipc::StreamGrant;
use weft_iwarp::StreamParams;
use weft_link::StackConfig;
use weft_verbs::{
    Access, CqId, CqInit, DeviceAttr, DeviceId, Instant, Mtu, PdId, PortAttr, PortState, QpAttr, QpAttrMask as Mask,
    QpCap, QpId, QpInit, QpState, QpType, Qpn, RecvWr, RemoteTarget, SendFlags, SendOp, SendWr, Sge, SrqAttr, SrqId,
    SrqInit, VerbsError, Wc,
};

const DEVICE: DeviceId = DeviceId(1);
pub const ALL: Access =
    Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);
/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Node {
    pub pump: Pump,
    pub pd: PdId,
    pub cq: CqId,
    pub qp: QpId,
    pub qpn: Qpn,
    pub memory: Vec<u8>,
    pub mr: MrKeys,
    /// The shared receive queue of its queue pairs.
    pub srq: Option<SrqId>,
    /// Queue pairs whose streams ended.
    pub ended: Vec<Qpn>,
}

pub fn now() -> Instant {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Makes the two ends of a connection.
pub fn connection() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    [near, listener.accept().unwrap().0]
}

/// Parameters of a connection between Weft's ends.
pub fn weft() -> StreamParams {
    StreamParams { ird: 16, ord: 16, extensions: true, ..StreamParams::default() }
}

/// Parameters of a connection as siw negotiates it, with CRCs.
pub fn siw() -> StreamParams {
    StreamParams { ird: 16, ord: 16, crc: true, ..StreamParams::default() }
}

impl Node {
    /// Makes an end, with a queue pair in INIT.
    pub fn new(slot: u32, bytes: usize) -> Node {
        let mut pump = Pump::new(PumpConfig {
            slot,
            seed: [u64::from(slot), 2, 3, 4],
            privileged: false,
            strict: None,
            stack: StackConfig {
                v4: None,
                v6: None,
                slot,
                entropy: u64::from(slot),
                faults: Vec::new(),
                capture: None,
                hops: None,
                ether: false,
            },
        });
        let port = PortAttr {
            state: PortState::Active,
            active_mtu: Mtu::Mtu4096,
            gids: vec![],
            link_speed_mbps: None,
            infiniband: None,
        };
        let attr = DeviceAttr {
            name: "siw_lo".into(),
            node_guid: 1,
            netdev: "lo".into(),
            ifindex: 1,
            is_iwarp: true,
            ports: vec![port],
        };
        let hca = &mut pump.hca;
        hca.set_device(DEVICE, attr);
        let pd = hca.alloc_pd(DEVICE, 0).unwrap();
        let cq = hca.create_cq(DEVICE, &CqInit { cqe: 1024, cookie: 0, ignore_overrun: false }).unwrap();
        let mut memory = vec![0; bytes];
        let addr = memory.as_mut_ptr().expose_provenance() as u64;
        let mr = hca.reg_mr(pd, addr, bytes as u64, addr, ALL).unwrap();
        let qp = QpId { index: u32::MAX, generation: 0 };
        let mut node = Node { pump, pd, cq, qp, qpn: 0, memory, mr, srq: None, ended: Vec::new() };
        (node.qp, node.qpn) = node.create_qp();
        node
    }

    /// Creates a queue pair and takes it to INIT.
    pub fn create_qp(&mut self) -> (QpId, Qpn) {
        let cap = QpCap { max_send_wr: 128, max_recv_wr: 128, max_send_sge: 4, max_recv_sge: 4, max_inline_data: 64 };
        let init = QpInit {
            qp_type: QpType::Rc,
            pd: Some(self.pd),
            send_cq: Some(self.cq),
            recv_cq: Some(self.cq),
            srq: self.srq,
            xrcd: None,
            cap,
            sq_sig_all: true,
            cookie: 0,
        };
        let (qp, qpn, _) = self.pump.hca.create_qp(DEVICE, &init).unwrap();
        let attr = QpAttr { qp_state: QpState::Init, qp_access: ALL, ..QpAttr::default() };
        self.pump.hca.modify_qp(now(), qp, &attr, Mask::STATE | Mask::ACCESS_FLAGS).unwrap();
        (qp, qpn)
    }

    /// Gives its queue pair a connection.
    pub fn open(&mut self, socket: TcpStream, params: StreamParams) {
        self.pump.open_stream(now(), &StreamGrant { qp_num: self.qpn, params, peer_qp: None }, OwnedFd::from(socket));
    }

    pub fn modify(&mut self, qp_state: QpState) -> Result<(), VerbsError> {
        let attr = QpAttr { qp_state, ..QpAttr::default() };
        let result = self.pump.hca.modify_qp(now(), self.qp, &attr, Mask::STATE);
        self.pump.transmit(now());
        result
    }

    pub fn state(&self) -> QpState {
        self.pump.hca.query_qp(self.qp).unwrap().0.qp_state
    }

    pub fn target(&self, offset: usize) -> RemoteTarget {
        RemoteTarget { addr: self.addr() + offset as u64, rkey: self.mr.rkey }
    }

    pub fn addr(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }

    pub fn sge(&self, offset: usize, length: usize) -> Sge {
        Sge { addr: self.addr() + offset as u64, length: length as u32, lkey: self.mr.lkey }
    }

    pub fn send(&mut self, op: SendOp, offset: usize, length: usize) {
        let sge = self.sge(offset, length);
        let sges: &[Sge] = if length == 0 { &[] } else { std::slice::from_ref(&sge) };
        self.post(op, sges).unwrap();
    }

    pub fn post(&mut self, op: SendOp, sges: &[Sge]) -> Result<(), VerbsError> {
        let wr = SendWr { wr_id: 1, flags: SendFlags::SIGNALED, op, sges, ud: None, xrc_srqn: None };
        let posted = self.pump.hca.post_send(now(), self.qp, &wr);
        self.pump.transmit(now());
        posted
    }

    pub fn recv(&mut self, offset: usize, length: usize) {
        let sge = self.sge(offset, length);
        self.pump.hca.post_recv(self.qp, &RecvWr { wr_id: 2, sges: &[sge] }).unwrap();
    }

    /// Has the queue pairs that it creates from now on share their receives.
    pub fn share_receives(&mut self) -> SrqId {
        let attr = SrqAttr { max_wr: 16, max_sge: 1, srq_limit: 0 };
        let init = SrqInit { pd: self.pd, attr, xrc: None, cookie: 0 };
        let srq = self.pump.hca.create_srq(DEVICE, &init).unwrap();
        self.srq = Some(srq);
        srq
    }

    pub fn recv_shared(&mut self, srq: SrqId, offset: usize, length: usize) {
        let sge = self.sge(offset, length);
        self.pump.hca.post_srq_recv(srq, &RecvWr { wr_id: 3, sges: &[sge] }).unwrap();
    }

    pub fn turn(&mut self) -> Vec<Wc> {
        self.pump.turn(now(), true);
        self.ended.extend(self.pump.streams.take_ended());
        let mut wcs = [Wc::default(); 16];
        let n = self.pump.hca.poll_cq(self.cq, &mut wcs).unwrap();
        wcs[..n].to_vec()
    }
}

/// Makes two ends that are connected.
pub fn pair(bytes: usize, params: StreamParams) -> [Node; 2] {
    let mut nodes = [Node::new(1, bytes), Node::new(2, bytes)];
    for (node, socket) in nodes.iter_mut().zip(connection()) {
        node.open(socket, params);
        assert_eq!(node.state(), QpState::Rts);
    }
    nodes
}

/// Turns nodes until something is true, and returns their completions.
pub fn turn_until<const N: usize>(
    mut nodes: [&mut Node; N],
    mut is_done: impl FnMut(&[&mut Node; N], &[Vec<Wc>; N]) -> bool,
) -> [Vec<Wc>; N] {
    let deadline = std::time::Instant::now() + PATIENCE;
    let mut got = [const { Vec::new() }; N];
    while !is_done(&nodes, &got) {
        assert!(std::time::Instant::now() < deadline, "stuck at {got:?}");
        for (node, got) in nodes.iter_mut().zip(&mut got) {
            got.extend(node.turn());
        }
    }
    got
}
