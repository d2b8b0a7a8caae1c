//! Common part of every queue pair, whatever its service: identity, attributes, counters, and outputs (completions,
//! events, packets). The halves of a service borrow it beside their own state, and report through [`Core::fault`] that
//! the queue pair must leave its state.

use weft_verbs::{
    AsyncEvent, AsyncSubject, CqId, DEFAULT_PKEY, DeviceId, Instant, Mtu, PdId, QpAttr, QpAttrMask, QpId, QpInit,
    QpState, QpType, Qpn, Wc, WcOpcode, WcStatus,
};
use weft_wire::packet::HeaderBuf;
use weft_wire::{Bth, Headers, Kind, Opcode, Psn, Service};

use crate::stats::QpStats;
use crate::{Env, TxBatch};

/// State change of the queue pair that a packet, a timer or a work request requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Go to ERR and flush everything; queued replies may still be sent.
    Error,
    /// Go to SQE and flush the send queue (UC and UD).
    SendError,
}

/// The common part.
#[derive(Debug)]
pub(crate) struct Core {
    pub id: QpId,
    pub qpn: Qpn,
    pub device: DeviceId,
    pub init: QpInit,
    pub attr: QpAttr,
    /// Largest payload of a datagram.
    pub port_mtu: Mtu,
    /// The P_Key that `pkey_index` names in its port's table now; 0 if that row is empty.
    pub pkey: u16,
    pub stats: QpStats,
    pub fault: Option<Fault>,
    /// The latest instant passed in; completions carry it.
    pub now: Instant,
    /// Whether COMM_EST has been raised.
    pub established: bool,
    /// Whether the peer's memory, on this host, may be accessed directly.
    pub direct: bool,
    /// Whether the peer accepts a FLUSH only with the ICRC that Linux's rxe computes.
    pub flush_for_rxe: bool,
    /// The path to the peer over the fabric is closed: frames are lost.
    pub path_closed: bool,
    /// Traffic with the peer, kept if the fabric's ports on the path must count it.
    pub passed: Option<Box<Passed>>,
}

/// Traffic of a queue pair's requests, in packets of its path MTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// Packets to the peer.
    pub packets: u64,
    /// Bytes of payload in them.
    pub bytes: u64,
    /// Packets back, acknowledgements aside.
    pub packets_back: u64,
    /// Bytes of payload in them.
    pub bytes_back: u64,
}

impl Passed {
    /// Counts a completed request of this many bytes; `reads`: they came from the peer.
    pub(crate) fn count(&mut self, bytes: u64, mtu: Mtu, reads: bool) {
        let packets = bytes.div_ceil(mtu.bytes() as u64).max(1);
        if reads {
            self.packets += 1;
            self.packets_back += packets;
            self.bytes_back += bytes;
        } else {
            self.packets += packets;
            self.bytes += bytes;
        }
    }
}

/// A protection domain that owns nothing, for checks of a queue pair without one.
const NO_PD: PdId = PdId { index: u32::MAX, generation: u32::MAX };

impl Core {
    pub fn new(id: QpId, qpn: Qpn, init: &QpInit, device: DeviceId) -> Core {
        Core {
            id,
            qpn,
            device,
            init: *init,
            attr: QpAttr { cap: init.cap, ..QpAttr::default() },
            port_mtu: Mtu::Mtu4096,
            pkey: DEFAULT_PKEY,
            stats: QpStats::default(),
            fault: None,
            now: Instant::default(),
            established: false,
            direct: false,
            flush_for_rxe: false,
            path_closed: false,
            passed: None,
        }
    }

    pub fn state(&self) -> QpState {
        self.attr.qp_state
    }

    pub fn set_state(&mut self, state: QpState) {
        self.attr.qp_state = state;
        self.attr.cur_qp_state = state;
    }

    pub fn qp_type(&self) -> QpType {
        self.init.qp_type
    }

    pub fn service(&self) -> Service {
        match self.init.qp_type {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
            QpType::XrcSend | QpType::XrcRecv => Service::Xrc,
        }
    }

    pub fn pd(&self) -> PdId {
        self.init.pd.unwrap_or(NO_PD)
    }

    pub fn mtu(&self) -> u32 {
        self.attr.path_mtu.bytes() as u32
    }

    /// Takes over the attributes in the mask, except the state.
    pub fn apply(&mut self, from: &QpAttr, mask: QpAttrMask) {
        macro_rules! take {
            ($($bit:ident => $($field:ident),+;)*) => {$(
                if mask.contains(QpAttrMask::$bit) { $(self.attr.$field = from.$field;)+ }
            )*};
        }
        take! {
            EN_SQD_ASYNC_NOTIFY => en_sqd_async_notify;
            ACCESS_FLAGS => qp_access;
            PKEY_INDEX => pkey_index;
            PORT => port_num;
            QKEY => qkey;
            AV => av;
            PATH_MTU => path_mtu;
            TIMEOUT => timeout;
            RETRY_CNT => retry_cnt;
            RNR_RETRY => rnr_retry;
            RQ_PSN => rq_psn;
            MAX_QP_RD_ATOMIC => max_rd_atomic;
            MIN_RNR_TIMER => min_rnr_timer;
            SQ_PSN => sq_psn;
            MAX_DEST_RD_ATOMIC => max_dest_rd_atomic;
            DEST_QPN => dest_qpn;
        }
    }

    /// Builds a completion with the queue pair's constant fields.
    pub fn wc(&self, wr_id: u64, status: WcStatus, opcode: WcOpcode) -> Wc {
        Wc {
            wr_id,
            status,
            opcode,
            qp_num: self.qpn,
            pkey_index: self.attr.pkey_index,
            solicited: status != WcStatus::Success,
            timestamp: self.now.0,
            ..Wc::default()
        }
    }

    pub fn complete_send<E: Env>(&self, env: &mut E, wc: Wc) {
        if let Some(cq) = self.init.send_cq {
            env.complete(cq, wc);
        }
    }

    pub fn complete_recv<E: Env>(&self, env: &mut E, cq: Option<CqId>, wc: Wc) {
        if let Some(cq) = cq.or(self.init.recv_cq) {
            env.complete(cq, wc);
        }
    }

    pub fn event<E: Env>(&self, env: &mut E, event: AsyncEvent) {
        env.event(event, AsyncSubject::Qp(self.id), self.init.cookie);
    }

    /// Raises COMM_EST once, when the first packet arrives before the program enters RTS (IBA 11.6.3.1).
    pub fn note_arrival<E: Env>(&mut self, env: &mut E) {
        if !self.established {
            self.established = true;
            if self.state() == QpState::Rtr {
                self.event(env, AsyncEvent::CommEst);
            }
        }
    }

    /// Begins a packet to the connected peer; payload pieces follow. A queue pair without a path sends nothing.
    pub fn begin(&mut self, tx: &mut TxBatch, kind: Kind, psn: u64, bits: Bits, ext: &Headers, payload_len: u32) {
        let Some(av) = self.attr.av else { return };
        let Some(opcode) = Opcode::of(self.service(), kind) else { return };
        let mut bth = Bth::new(opcode, self.pkey, self.attr.dest_qpn, Psn::new(psn as u32));
        bth.set_ack_req(bits.ack_req);
        bth.set_solicited(bits.solicited);
        let header = HeaderBuf::write(bth, ext, payload_len as usize);
        tx.begin(av, self.attr.dest_qpn, self.qpn, header.as_slice());
        self.stats.tx_packets += 1;
        self.stats.tx_bytes += u64::from(payload_len);
    }
}

/// BTH bits that differ from packet to packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bits {
    pub ack_req: bool,
    pub solicited: bool,
}
