//! Parameters besides addresses: connection parameters, address handles, path records, and queue pair attributes. All
//! of them pass between a program and the daemon.

use serde::{Deserialize, Serialize};

/// Parameters of a connection: `struct rdma_conn_param` and the values that `rdma_connect` takes from the queue pair.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ConnParam {
    /// Number of the queue pair.
    pub qp_num: u32,
    /// Q_Key (datagrams; 0 for the default).
    pub qkey: u32,
    /// Private data, [`super::limits::PRIVATE_DATA_BYTES_MAX`] at most; the message type may allow less.
    pub private_data: Vec<u8>,
    /// Whether the queue pair uses a shared receive queue.
    pub srq: bool,
    /// READs and atomics that this side accepts at once.
    pub responder_resources: u8,
    /// READs and atomics that this side has outstanding at most.
    pub initiator_depth: u8,
    /// Whether end-to-end flow control is supported.
    pub flow_control: u8,
    /// Retries after a missing acknowledgement.
    pub retry_count: u8,
    /// Retries after RNR.
    pub rnr_retry_count: u8,
}

/// Parameters of a datagram event: `struct rdma_ud_param`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UdParam {
    /// Number of the peer's queue pair, 0xFFFFFF for a group.
    pub qp_num: u32,
    /// Q_Key to send with.
    pub qkey: u32,
    /// Attributes for an address handle.
    pub ah_attr: AhAttr,
    /// Private data.
    pub private_data: Vec<u8>,
}

/// Enhanced connection establishment: `struct ibv_ece`. Vendor 0 offers nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ece {
    /// Vendor.
    pub vendor_id: u32,
    /// Vendor-defined options.
    pub attr_mod: u32,
}

/// `struct ibv_ah_attr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are verbs.h's.
pub struct AhAttr {
    pub dgid: [u8; 16],
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: bool,
    pub port_num: u8,
}

/// `struct ibv_sa_path_rec`, in host byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are sa.h's.
pub struct PathRecord {
    pub service_id: u64,
    pub dgid: [u8; 16],
    pub sgid: [u8; 16],
    pub dlid: u16,
    pub slid: u16,
    pub raw_traffic: bool,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub reversible: bool,
    pub numb_path: u8,
    pub pkey: u16,
    pub qos_class: u16,
    pub sl: u8,
    pub mtu_selector: u8,
    pub mtu: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}

/// Result of `rdma_init_qp_attr`: the attributes for one state, and the mask of valid ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are verbs.h's.
pub struct QpAttributes {
    /// Bits of `enum ibv_qp_attr_mask`.
    pub mask: u32,
    /// Value of `enum ibv_qp_state`.
    pub qp_state: u32,
    pub path_mtu: u8,
    pub path_mig_state: u8,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    /// Bits of `enum ibv_access_flags`.
    pub qp_access_flags: u32,
    pub ah_attr: AhAttr,
    pub pkey_index: u16,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
}
