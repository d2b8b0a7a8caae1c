//! Paths in `<infiniband/sa.h>`: the record in a connection's route, and the form in which programs pass paths in and
//! out.

use libc::c_int;

use crate::gid::ibv_gid;
use crate::{be16, be32, be64};

#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_sa_path_rec {
    pub dgid: ibv_gid,
    pub sgid: ibv_gid,
    pub dlid: be16,
    pub slid: be16,
    pub raw_traffic: c_int,
    pub flow_label: be32,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub reversible: c_int,
    pub numb_path: u8,
    pub pkey: be16,
    pub sl: u8,
    pub mtu_selector: u8,
    pub mtu: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}

pub const IBV_PATH_RECORD_REVERSIBLE: u8 = 0x80;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_path_record {
    pub service_id: be64,
    pub dgid: ibv_gid,
    pub sgid: ibv_gid,
    pub dlid: be16,
    pub slid: be16,
    pub flowlabel_hoplimit: be32,
    pub tclass: u8,
    pub reversible_numpath: u8,
    pub pkey: be16,
    pub qosclass_sl: be16,
    pub mtu: u8,
    pub rate: u8,
    pub packetlifetime: u8,
    pub preference: u8,
    pub reserved: [u8; 6],
}

pub const IBV_PATH_FLAG_GMP: u32 = 1 << 0;
pub const IBV_PATH_FLAG_PRIMARY: u32 = 1 << 1;
pub const IBV_PATH_FLAG_ALTERNATE: u32 = 1 << 2;
pub const IBV_PATH_FLAG_OUTBOUND: u32 = 1 << 3;
pub const IBV_PATH_FLAG_INBOUND: u32 = 1 << 4;
pub const IBV_PATH_FLAG_INBOUND_REVERSE: u32 = 1 << 5;
pub const IBV_PATH_FLAG_BIDIRECTIONAL: u32 = IBV_PATH_FLAG_OUTBOUND | IBV_PATH_FLAG_INBOUND_REVERSE;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_path_data {
    pub flags: u32,
    pub reserved: u32,
    pub path: ibv_path_record,
}
