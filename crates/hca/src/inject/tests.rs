//! Injected failures on an adapter with a device and two queue pairs.

use weft_transport::{Memory, TxBatch};
use weft_verbs::injection::{Call, CmFailure, Injection};
use weft_verbs::{
    Access, AddressVector, AsyncEvent, AsyncSubject, CqId, CqInit, DeviceAttr, DeviceId, Duration, Event, Gid,
    GidEntry, GidType, Instant, Mtu, PdId, PortAttr, PortState, QpAttr, QpAttrMask as Mask, QpCap, QpId, QpInit,
    QpState, QpType, RecvWr, SendFlags, SendOp, SendWr, SrqAttr, SrqId, SrqInit, VerbsError, Wc, WcStatus,
};

use crate::{Hca, HcaConfig, PacketsOnly};

mod events;
mod outages;
mod requests;

struct NoMemory;

impl Memory for NoMemory {
    fn read(&self, _: u64, _: &mut [u8]) {}
    fn write(&mut self, _: u64, _: &[u8]) {}
    fn compare_swap(&mut self, _: u64, _: u64, _: u64) -> u64 {
        0
    }
    fn fetch_add(&mut self, _: u64, _: u64) -> u64 {
        0
    }
    fn store_u64(&mut self, _: u64, _: [u8; 8]) {}
    fn flush(&mut self, _: u64, _: u64, _: bool) {}
}

const DEVICE: DeviceId = DeviceId(1);
const BEGIN: Instant = Instant(1_000_000_000);

fn device(name: &str) -> DeviceAttr {
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    let gid = GidEntry { index: 0, gid: Gid::from(address), gid_type: GidType::RoceV2, ifindex: 1 };
    let port = PortAttr {
        state: PortState::Active,
        active_mtu: Mtu::Mtu1024,
        gids: vec![gid],
        link_speed_mbps: None,
        infiniband: None,
    };
    DeviceAttr { name: name.into(), node_guid: 1, netdev: name.into(), ifindex: 1, is_iwarp: false, ports: vec![port] }
}

struct Bench {
    hca: Hca<PacketsOnly<NoMemory>>,
    pd: PdId,
    cq: CqId,
    qps: Vec<QpId>,
    now: Instant,
}

impl Bench {
    fn new(qp_type: QpType, specs: &[&str]) -> Bench {
        let mut bench = Bench::on(device("rxe0"));
        (0..2).for_each(|_| bench.connect(qp_type));
        bench.inject(specs);
        bench
    }

    /// Makes an adapter with this device, without queue pairs and failures.
    fn on(attr: DeviceAttr) -> Bench {
        let mut hca = Hca::new(HcaConfig::default(), PacketsOnly::parts(NoMemory));
        hca.set_device(DEVICE, attr);
        let pd = hca.alloc_pd(DEVICE, 0).unwrap();
        let cq = hca.create_cq(DEVICE, &CqInit { cqe: 64, cookie: 7, ignore_overrun: false }).unwrap();
        Bench { hca, pd, cq, qps: Vec::new(), now: BEGIN }
    }

    /// Injects failures, which get the numbers from 1 on.
    fn inject(&mut self, specs: &[&str]) {
        for (number, spec) in (1..).zip(specs) {
            self.hca.inject(BEGIN, number, Injection::parse(spec).unwrap());
        }
    }

    fn shared_queue(&mut self) -> SrqId {
        let attr = SrqAttr { max_wr: 16, max_sge: 1, srq_limit: 0 };
        self.hca.create_srq(DEVICE, &SrqInit { pd: self.pd, attr, xrc: None, cookie: 5 }).unwrap()
    }

    /// Creates a queue pair in RESET.
    fn create(&mut self, qp_type: QpType) -> QpId {
        self.create_with(qp_type, None)
    }

    /// As [`Bench::create`], with a shared receive queue.
    fn create_with(&mut self, qp_type: QpType, srq: Option<SrqId>) -> QpId {
        let cap = QpCap { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
        let (pd, cq) = (Some(self.pd), Some(self.cq));
        let init = QpInit { qp_type, pd, send_cq: cq, recv_cq: cq, srq, xrcd: None, cap, sq_sig_all: true, cookie: 9 };
        let (id, ..) = self.hca.create_qp(DEVICE, &init).unwrap();
        self.qps.push(id);
        id
    }

    /// Creates a queue pair, and takes it to RTS.
    fn connect(&mut self, qp_type: QpType) {
        let id = self.create(qp_type);
        let av = AddressVector {
            sgid: Gid::from(std::net::IpAddr::from([10, 0, 0, 1])),
            dgid: Gid::from(std::net::IpAddr::from([10, 0, 0, 2])),
            sgid_index: 0,
            flow_label: 0,
            hop_limit: 64,
            traffic_class: 0,
            sl: 0,
            port_num: 1,
            dlid: 0,
            src_path_bits: 0,
            static_rate: 0,
            is_global: true,
            ifindex: 1,
            gid_type: GidType::RoceV2,
        };
        let attr = QpAttr {
            av: Some(av),
            port_num: 1,
            path_mtu: Mtu::Mtu1024,
            dest_qpn: 0x11,
            timeout: 14,
            retry_cnt: 1,
            rnr_retry: 1,
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 1,
            qp_access: Access::empty(),
            ..QpAttr::default()
        };
        let init = Mask::PKEY_INDEX | Mask::PORT | Mask::ACCESS_FLAGS;
        let (mut rtr, mut rts) = (Mask::AV | Mask::PATH_MTU | Mask::DEST_QPN | Mask::RQ_PSN, Mask::SQ_PSN);
        if qp_type.is_reliable() {
            // An XRC initiator passes over those of them that it has no use for.
            rtr |= Mask::MAX_DEST_RD_ATOMIC | Mask::MIN_RNR_TIMER;
            rts |= Mask::TIMEOUT | Mask::RETRY_CNT | Mask::RNR_RETRY | Mask::MAX_QP_RD_ATOMIC;
        }
        for (qp_state, mask) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
            self.hca.modify_qp(self.now, id, &QpAttr { qp_state, ..attr }, mask | Mask::STATE).unwrap();
        }
    }

    /// Takes a queue pair back to INIT.
    fn bring_to_init(&mut self, qp: QpId) {
        let init = Mask::PKEY_INDEX | Mask::PORT | Mask::ACCESS_FLAGS;
        for (qp_state, mask) in [(QpState::Reset, Mask::empty()), (QpState::Init, init)] {
            let attr = QpAttr { qp_state, port_num: 1, ..QpAttr::default() };
            self.hca.modify_qp(self.now, qp, &attr, mask | Mask::STATE).unwrap();
        }
    }

    /// Posts an empty WRITE with this number.
    fn post(&mut self, qp: usize, wr_id: u64) -> Result<(), VerbsError> {
        let target = weft_verbs::RemoteTarget { addr: 0, rkey: 0 };
        let wr = SendWr {
            wr_id,
            flags: SendFlags::empty(),
            op: SendOp::Write(target),
            sges: &[],
            ud: None,
            xrc_srqn: Some(1),
        };
        let posted = self.hca.post_send(self.now, self.qps[qp], &wr);
        let mut batch = TxBatch::default();
        while self.hca.wants_transmit() {
            batch.clear();
            self.hca.poll_transmit(self.now, &mut batch);
        }
        posted
    }

    fn completions(&mut self) -> Vec<(u64, WcStatus)> {
        let mut wcs = [Wc::default(); 64];
        let count = self.hca.poll_cq(self.cq, &mut wcs).unwrap();
        wcs[..count].iter().map(|wc| (wc.wr_id, wc.status)).collect()
    }

    /// Lets time pass, to these milliseconds after the begin; returns the events.
    fn at(&mut self, milliseconds: u64) -> Vec<(AsyncEvent, AsyncSubject)> {
        self.now = BEGIN + Duration::from_millis(milliseconds);
        if self.hca.may_be_due(self.now) {
            self.hca.handle_timeout(self.now);
        }
        let mut events = Vec::new();
        while let Some(event) = self.hca.poll_event() {
            if let Event::Async { event, subject, .. } = event {
                events.push((event, subject));
            }
        }
        events
    }

    fn state(&self, qp: usize) -> QpState {
        self.hca.query_qp(self.qps[qp]).unwrap().0.qp_state
    }

    fn reports(&mut self) -> Vec<String> {
        self.hca.take_injected().into_iter().map(|report| report.text).collect()
    }
}
