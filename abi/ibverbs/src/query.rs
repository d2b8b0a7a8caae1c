//! Device capabilities and the device clock.

use libc::{c_char, c_int};
use weft_abi_types::{
    IBV_ATOMIC_HCA, IBV_ATOMIC_NONE, IBV_DEVICE_CURR_QP_STATE_MOD, IBV_DEVICE_MEM_MGT_EXTENSIONS,
    IBV_DEVICE_MEM_WINDOW, IBV_DEVICE_MEM_WINDOW_TYPE_2B, IBV_DEVICE_PORT_ACTIVE_EVENT, IBV_DEVICE_RC_RNR_NAK_GEN,
    IBV_DEVICE_SRQ_RESIZE, IBV_DEVICE_SYS_IMAGE_GUID, IBV_DEVICE_XRC, IBV_ODP_SUPPORT, IBV_VALUES_MASK_RAW_CLOCK,
    ibv_context, ibv_device_attr, ibv_device_attr_ex, ibv_query_device_ex_input, ibv_values_ex,
};
use weft_verbs::{
    AH_MAX, CQ_MAX, CQE_MAX, DeviceAttr, MCAST_GRP_MAX, MCAST_QP_ATTACH_MAX, MR_MAX, MW_MAX, PD_MAX, PKEY_TABLE_LEN,
    QP_MAX, QP_WR_MAX, RD_ATOMIC_MAX, SGE_MAX, SRQ_MAX, SRQ_WR_MAX,
};

use crate::context::Context;
use crate::dm::DM_SIZE_MAX;
use crate::errors::code;
use crate::object::zeroed;
use crate::operations;
use crate::process;

/// An unassigned IEEE number: programs enable quirks by vendor, and Weft needs none.
const VENDOR_ID: u32 = 0x45_5446;

/// VendorID and part of Linux's siw, by which programs know a software RNIC.
const SIW_VENDOR_ID: u32 = 0x62_6d74;
const SIW_PART_ID: u32 = 1;
/// Firmware version of Linux's siw, which has none.
const SIW_FW_VERSION: [u8; 5] = *b"0.0.0";

/// Page sizes of regions: every power of two from 4 KiB on.
const PAGE_SIZE_CAP: u64 = 0xffff_f000;

/// Time to answer a packet, as an exponent like a queue pair's timeout: 4.096 us x 2^15.
const LOCAL_CA_ACK_DELAY: u8 = 15;

/// The clock of completions counts nanoseconds: 10^6 kHz.
const CORE_CLOCK_KHZ: u64 = 1_000_000;

const CAP_FLAGS: u32 = IBV_DEVICE_CURR_QP_STATE_MOD
    | IBV_DEVICE_PORT_ACTIVE_EVENT
    | IBV_DEVICE_SYS_IMAGE_GUID
    | IBV_DEVICE_RC_RNR_NAK_GEN
    | IBV_DEVICE_SRQ_RESIZE
    | IBV_DEVICE_MEM_WINDOW
    | IBV_DEVICE_XRC
    | IBV_DEVICE_MEM_MGT_EXTENSIONS
    | IBV_DEVICE_MEM_WINDOW_TYPE_2B;

fn describe(device: &DeviceAttr) -> ibv_device_attr {
    let mut attr: ibv_device_attr = zeroed();
    for (to, from) in attr.fw_ver.iter_mut().zip(env!("CARGO_PKG_VERSION").bytes()) {
        *to = from as c_char;
    }
    attr.node_guid = device.node_guid.to_be();
    attr.sys_image_guid = device.node_guid.to_be();
    attr.max_mr_size = u64::MAX;
    attr.page_size_cap = PAGE_SIZE_CAP;
    attr.vendor_id = VENDOR_ID;
    attr.max_qp = QP_MAX as c_int;
    attr.max_qp_wr = QP_WR_MAX as c_int;
    attr.device_cap_flags = CAP_FLAGS;
    attr.max_sge = SGE_MAX as c_int;
    attr.max_sge_rd = SGE_MAX as c_int;
    attr.max_cq = CQ_MAX as c_int;
    attr.max_cqe = CQE_MAX as c_int;
    attr.max_mr = MR_MAX as c_int;
    attr.max_pd = PD_MAX as c_int;
    attr.max_qp_rd_atom = c_int::from(RD_ATOMIC_MAX);
    attr.max_res_rd_atom = c_int::from(RD_ATOMIC_MAX) * QP_MAX as c_int;
    attr.max_qp_init_rd_atom = c_int::from(RD_ATOMIC_MAX);
    // They are atomic for processors too (IBV_ATOMIC_GLOB), but hardly any adapter reports that, and programs compare
    // with this value: UCX before 1.16 would otherwise not use atomics.
    attr.atomic_cap = IBV_ATOMIC_HCA;
    attr.max_mw = MW_MAX as c_int;
    attr.max_mcast_grp = MCAST_GRP_MAX as c_int;
    attr.max_mcast_qp_attach = MCAST_QP_ATTACH_MAX as c_int;
    attr.max_total_mcast_qp_attach = (MCAST_GRP_MAX * MCAST_QP_ATTACH_MAX) as c_int;
    attr.max_ah = AH_MAX as c_int;
    attr.max_srq = SRQ_MAX as c_int;
    attr.max_srq_wr = SRQ_WR_MAX as c_int;
    attr.max_srq_sge = SGE_MAX as c_int;
    attr.max_pkeys = PKEY_TABLE_LEN;
    attr.local_ca_ack_delay = LOCAL_CA_ACK_DELAY;
    attr.phys_port_cnt = device.ports.len() as u8;
    if device.is_iwarp {
        describe_rnic(&mut attr);
    }
    if let Some(fabric) = device.fabric() {
        attr.sys_image_guid = fabric.system_image_guid.to_be();
        attr.vendor_part_id = u32::from(fabric.device_id);
        attr.hw_ver = fabric.revision;
        attr.max_pkeys = fabric.pkeys.len() as u16;
    }
    attr
}

/// Changes the capabilities that iWARP lacks, or that are another protocol's.
fn describe_rnic(attr: &mut ibv_device_attr) {
    attr.fw_ver = [0; 64];
    for (to, from) in attr.fw_ver.iter_mut().zip(SIW_FW_VERSION) {
        *to = from as c_char;
    }
    attr.vendor_id = SIW_VENDOR_ID;
    attr.vendor_part_id = SIW_PART_ID;
    attr.device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS;
    // The sink of an RDMA READ is one STag (RFC 5040, 4.4).
    attr.max_sge_rd = 1;
    attr.atomic_cap = IBV_ATOMIC_NONE;
    (attr.max_mw, attr.max_ah, attr.max_pkeys, attr.local_ca_ack_delay) = (0, 0, 0, 0);
    (attr.max_mcast_grp, attr.max_mcast_qp_attach, attr.max_total_mcast_qp_attach) = (0, 0, 0);
}

fn describe_ex(device: &DeviceAttr) -> ibv_device_attr_ex {
    let mut attr: ibv_device_attr_ex = zeroed();
    attr.orig_attr = describe(device);
    attr.odp_caps.general_caps = u64::from(IBV_ODP_SUPPORT);
    attr.odp_caps.per_transport_caps.rc_odp_caps = operations::ODP_RC;
    attr.odp_caps.per_transport_caps.uc_odp_caps = operations::ODP_UC;
    attr.odp_caps.per_transport_caps.ud_odp_caps = operations::ODP_UD;
    attr.xrc_odp_caps = operations::ODP_RC;
    attr.completion_timestamp_mask = u64::MAX;
    attr.hca_core_clock = CORE_CLOCK_KHZ;
    attr.device_cap_flags_ex = u64::from(attr.orig_attr.device_cap_flags);
    if !device.is_iwarp {
        attr.device_cap_flags_ex |= operations::DEVICE_CAPS;
    }
    attr.max_dm_size = DM_SIZE_MAX as u64;
    attr.phys_port_cnt_ex = device.ports.len() as u32;
    attr
}

fn device_of(context: *mut ibv_context) -> Result<DeviceAttr, c_int> {
    if context.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: a context of ours.
    unsafe { Context::of(context) }.device_attr()
}

/// Returns the capabilities of the device.
pub unsafe extern "C" fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    if attr.is_null() {
        return code(Err(libc::EINVAL));
    }
    // SAFETY: the caller's place for the answer.
    code(device_of(context).map(|device| unsafe { attr.write(describe(&device)) }))
}

pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
) -> c_int {
    // SAFETY: the caller's input, or null.
    let mask = unsafe { input.as_ref().map_or(0, |input| input.comp_mask) };
    if mask != 0 || attr.is_null() || attr_size < size_of::<ibv_device_attr>() {
        return code(Err(libc::EINVAL));
    }
    let answer = match device_of(context) {
        Ok(device) => describe_ex(&device),
        Err(errno) => return code(Err(errno)),
    };
    let known = size_of::<ibv_device_attr_ex>().min(attr_size);
    // SAFETY: the caller has room for attr_size bytes; fields that only the caller knows are zero.
    unsafe {
        let to = attr.cast::<u8>();
        to.write_bytes(0, attr_size);
        to.copy_from_nonoverlapping((&raw const answer).cast(), known);
    }
    0
}

pub(crate) unsafe extern "C" fn query_rt_values(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int {
    if context.is_null() || values.is_null() {
        return code(Err(libc::EINVAL));
    }
    // SAFETY: the caller's request and place for the answer.
    let values = unsafe { &mut *values };
    let asked = values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK;
    if values.comp_mask & !IBV_VALUES_MASK_RAW_CLOCK != 0 {
        return code(Err(libc::EINVAL));
    }
    values.comp_mask = asked;
    if asked != 0 {
        // The raw clock counts cycles, all of them in tv_nsec.
        values.raw_clock.tv_sec = 0;
        values.raw_clock.tv_nsec = process::now_ns() as _;
    }
    0
}
