//! Attributes of queue pairs, queues, devices and ports.

use crate::{Access, AddressVector, Cookie, CqId, Mtu, PdId, QpState, QpType, SrqId, XrcdId};

/// `struct ibv_qp_cap`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // The names are verbs.h's.
pub struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

/// Creation attributes of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpInit {
    /// Type of the queue pair.
    pub qp_type: QpType,
    /// Protection domain (none for an XRC target).
    pub pd: Option<PdId>,
    /// Completion queue of the send queue.
    pub send_cq: Option<CqId>,
    /// Completion queue of the receive queue.
    pub recv_cq: Option<CqId>,
    /// Shared receive queue in place of its own.
    pub srq: Option<SrqId>,
    /// XRC domain (XRC target only).
    pub xrcd: Option<XrcdId>,
    /// Requested sizes; the answer holds the granted ones.
    pub cap: QpCap,
    /// Whether every send work request makes a completion.
    pub sq_sig_all: bool,
    /// The owner's cookie.
    pub cookie: Cookie,
}

bitflags::bitflags! {
    /// `enum ibv_qp_attr_mask`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct QpAttrMask: u32 {
        /// `IBV_QP_STATE`.
        const STATE = 1;
        /// `IBV_QP_CUR_STATE`.
        const CUR_STATE = 1 << 1;
        /// `IBV_QP_EN_SQD_ASYNC_NOTIFY`.
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// `IBV_QP_ACCESS_FLAGS`.
        const ACCESS_FLAGS = 1 << 3;
        /// `IBV_QP_PKEY_INDEX`.
        const PKEY_INDEX = 1 << 4;
        /// `IBV_QP_PORT`.
        const PORT = 1 << 5;
        /// `IBV_QP_QKEY`.
        const QKEY = 1 << 6;
        /// `IBV_QP_AV`.
        const AV = 1 << 7;
        /// `IBV_QP_PATH_MTU`.
        const PATH_MTU = 1 << 8;
        /// `IBV_QP_TIMEOUT`.
        const TIMEOUT = 1 << 9;
        /// `IBV_QP_RETRY_CNT`.
        const RETRY_CNT = 1 << 10;
        /// `IBV_QP_RNR_RETRY`.
        const RNR_RETRY = 1 << 11;
        /// `IBV_QP_RQ_PSN`.
        const RQ_PSN = 1 << 12;
        /// `IBV_QP_MAX_QP_RD_ATOMIC`.
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// `IBV_QP_ALT_PATH`.
        const ALT_PATH = 1 << 14;
        /// `IBV_QP_MIN_RNR_TIMER`.
        const MIN_RNR_TIMER = 1 << 15;
        /// `IBV_QP_SQ_PSN`.
        const SQ_PSN = 1 << 16;
        /// `IBV_QP_MAX_DEST_RD_ATOMIC`.
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// `IBV_QP_PATH_MIG_STATE`.
        const PATH_MIG_STATE = 1 << 18;
        /// `IBV_QP_CAP`.
        const CAP = 1 << 19;
        /// `IBV_QP_DEST_QPN`.
        const DEST_QPN = 1 << 20;
        /// `IBV_QP_RATE_LIMIT`.
        const RATE_LIMIT = 1 << 25;
    }
}

/// `struct ibv_qp_attr` without the alternate path (automatic path migration is not supported).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QpAttr {
    /// Target state, or the current one in a query.
    pub qp_state: QpState,
    /// State the caller believes the queue pair is in.
    pub cur_qp_state: QpState,
    /// Whether the program wants SQ_DRAINED on the transition to SQD.
    pub en_sqd_async_notify: bool,
    /// The peer's access rights.
    pub qp_access: Access,
    /// Row of the P_Key table.
    pub pkey_index: u16,
    /// Port of the device.
    pub port_num: u8,
    /// Q_Key (UD).
    pub qkey: u32,
    /// Primary path.
    pub av: Option<AddressVector>,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Local ACK timeout: 4.096 µs × 2^timeout; 0 means infinite.
    pub timeout: u8,
    /// Retries after a timeout, 0..=7.
    pub retry_cnt: u8,
    /// Retries after an RNR NAK; 7 means unlimited.
    pub rnr_retry: u8,
    /// First PSN expected.
    pub rq_psn: u32,
    /// First PSN sent.
    pub sq_psn: u32,
    /// READs and atomics outstanding as initiator.
    pub max_rd_atomic: u8,
    /// READs and atomics outstanding as target.
    pub max_dest_rd_atomic: u8,
    /// RNR timer code sent in RNR NAKs.
    pub min_rnr_timer: u8,
    /// The peer's queue pair number.
    pub dest_qpn: u32,
    /// Sizes.
    pub cap: QpCap,
    /// Whether the send queue is still draining (query only).
    pub sq_draining: bool,
}

impl Default for QpAttr {
    fn default() -> QpAttr {
        QpAttr {
            qp_state: QpState::Reset,
            cur_qp_state: QpState::Reset,
            en_sqd_async_notify: false,
            qp_access: Access::empty(),
            pkey_index: 0,
            port_num: 1,
            qkey: 0,
            av: None,
            path_mtu: Mtu::Mtu1024,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            rq_psn: 0,
            sq_psn: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            dest_qpn: 0,
            cap: QpCap::default(),
            sq_draining: false,
        }
    }
}

/// Creation attributes of a completion queue.
#[derive(Clone, Copy, Debug)]
pub struct CqInit {
    /// Requested number of entries.
    pub cqe: u32,
    /// The owner's cookie.
    pub cookie: Cookie,
    /// `IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`: the program promises not to overrun.
    pub ignore_overrun: bool,
}

/// `struct ibv_srq_attr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // The names are verbs.h's.
pub struct SrqAttr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

/// Creation attributes of a shared receive queue.
#[derive(Clone, Copy, Debug)]
pub struct SrqInit {
    /// Protection domain.
    pub pd: PdId,
    /// Sizes.
    pub attr: SrqAttr,
    /// XRC: domain and completion queue.
    pub xrc: Option<(XrcdId, CqId)>,
    /// The owner's cookie.
    pub cookie: Cookie,
}

/// Whether a port passes traffic; values of `enum ibv_port_state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum PortState {
    /// The interface is down.
    Down = 1,
    /// The interface is up.
    Active = 4,
}

/// Attributes of a port that can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAttr {
    /// State.
    pub state: PortState,
    /// Largest path MTU that fits the interface.
    pub active_mtu: Mtu,
    /// GID table, valid rows only.
    pub gids: Vec<crate::GidEntry>,
    /// Link speed of the interface in Mbit/s, if the interface reports one.
    pub link_speed_mbps: Option<u32>,
    /// Attributes of a port on an InfiniBand fabric; `None` for a RoCE port.
    pub infiniband: Option<Box<IbPortAttr>>,
}

/// A port on an InfiniBand fabric, as subnet management configured it, in the specification's encodings (IBA 14.2.5).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct IbPortAttr {
    /// SystemImageGUID of the adapter.
    pub system_image_guid: u64,
    /// VendorID of the adapter.
    pub vendor_id: u32,
    /// DeviceID of the adapter.
    pub device_id: u16,
    /// Hardware revision of the adapter.
    pub revision: u32,
    /// Whether its link layer is Ethernet: the port is not part of the fabric.
    pub is_ethernet: bool,
    /// PortState: 1 down, 2 init, 3 armed, 4 active.
    pub state: u8,
    /// PortPhysicalState.
    pub phys_state: u8,
    /// Base LID; 0 until a subnet manager assigns one.
    pub lid: u16,
    /// LMC: the number of low LID bits that the port ignores.
    pub lmc: u8,
    /// LID of the subnet manager.
    pub sm_lid: u16,
    /// Service level to the subnet manager.
    pub sm_sl: u8,
    /// Times that the subnet manager asked programs to register again (ClientReregister).
    pub reregistrations: u32,
    /// CapabilityMask.
    pub capabilities: u32,
    /// CapabilityMask2.
    pub capabilities2: u16,
    /// Largest MTU in bytes.
    pub max_mtu: u16,
    /// LinkWidthActive.
    pub active_width: u8,
    /// Active speed in the encoding of `ibv_port_attr`.
    pub active_speed: u16,
    /// VLCap.
    pub vl_cap: u8,
    /// SLtoVLMappingTable: four bits for each service level, the highest for level 0.
    pub sl_to_vl: u64,
    /// SubnetTimeOut.
    pub subnet_timeout: u8,
    /// InitTypeReply.
    pub init_type_reply: u8,
    /// P_KeyViolations.
    pub pkey_violations: u16,
    /// Q_KeyViolations.
    pub qkey_violations: u16,
    /// Rows of the GID table, empty ones too.
    pub gid_rows: u32,
    /// The whole P_Key table; 0 is an empty row.
    pub pkeys: Vec<u16>,
}

impl IbPortAttr {
    /// Returns the source LID of packets with these path bits.
    #[inline]
    pub fn source_lid(&self, src_path_bits: u8) -> u16 {
        self.lid | u16::from(src_path_bits) & ((1 << self.lmc.min(7)) - 1)
    }

    /// Returns the virtual lane of packets with this service level.
    #[inline]
    pub fn virtual_lane(&self, sl: u8) -> u8 {
        (self.sl_to_vl >> (60 - 4 * u32::from(sl & 0xf))) as u8 & 0xf
    }
}

/// A device as a process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAttr {
    /// Name, such as `rxe0`.
    pub name: String,
    /// Node GUID, host order.
    pub node_guid: u64,
    /// Its network interface.
    pub netdev: String,
    /// Index of that interface.
    pub ifindex: u32,
    /// Whether it is an RNIC: its transport is iWARP.
    pub is_iwarp: bool,
    /// Its ports, from number 1 on.
    pub ports: Vec<PortAttr>,
}

impl DeviceAttr {
    /// Returns the port with this number.
    #[inline]
    pub fn port(&self, number: u8) -> Option<&PortAttr> {
        self.ports.get(usize::from(number).checked_sub(1)?)
    }

    /// Returns the fabric attributes of the first port if the device is an adapter on an InfiniBand fabric.
    #[inline]
    pub fn fabric(&self) -> Option<&IbPortAttr> {
        self.ports.first()?.infiniband.as_deref()
    }

    /// Returns the rows of all ports' GID tables.
    pub fn gids(&self) -> impl Iterator<Item = &crate::GidEntry> {
        self.ports.iter().flat_map(|port| &port.gids)
    }
}
