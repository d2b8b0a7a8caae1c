//! Legacy calls without expected users: translations between kernel structures and C structures, which rdma-core's own
//! connection manager used, and address resolution.

use weft_abi_types::{be16, be32, ibv_ah_attr, ibv_gid, ibv_qp_attr, ibv_qp_cap};

use crate::object::zeroed;

/// `struct ib_uverbs_ah_attr`, the global route included.
#[repr(C)]
pub struct KernelAh {
    dgid: [u8; 16],
    flow_label: u32,
    sgid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    reserved: u8,
    dlid: u16,
    sl: u8,
    src_path_bits: u8,
    static_rate: u8,
    is_global: u8,
    port_num: u8,
    reserved2: u8,
}

/// `struct ib_uverbs_qp_attr`.
#[repr(C)]
pub struct KernelQp {
    qp_attr_mask: u32,
    qp_state: u32,
    cur_qp_state: u32,
    path_mtu: u32,
    path_mig_state: u32,
    qkey: u32,
    rq_psn: u32,
    sq_psn: u32,
    dest_qp_num: u32,
    qp_access_flags: u32,
    ah_attr: KernelAh,
    alt_ah_attr: KernelAh,
    max_send_wr: u32,
    max_recv_wr: u32,
    max_send_sge: u32,
    max_recv_sge: u32,
    max_inline_data: u32,
    pkey_index: u16,
    alt_pkey_index: u16,
    en_sqd_async_notify: u8,
    sq_draining: u8,
    max_rd_atomic: u8,
    max_dest_rd_atomic: u8,
    min_rnr_timer: u8,
    port_num: u8,
    timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    alt_port_num: u8,
    alt_timeout: u8,
    reserved: [u8; 5],
}

/// `struct ib_user_path_rec`.
#[repr(C)]
pub struct KernelPath {
    dgid: [u8; 16],
    sgid: [u8; 16],
    dlid: be16,
    slid: be16,
    raw_traffic: u32,
    flow_label: be32,
    reversible: u32,
    mtu: u32,
    pkey: be16,
    hop_limit: u8,
    traffic_class: u8,
    numb_path: u8,
    sl: u8,
    mtu_selector: u8,
    rate_selector: u8,
    rate: u8,
    packet_life_time_selector: u8,
    packet_life_time: u8,
    preference: u8,
}

/// `struct ibv_sa_path_rec`.
#[repr(C)]
pub struct SaPath {
    dgid: ibv_gid,
    sgid: ibv_gid,
    dlid: be16,
    slid: be16,
    raw_traffic: i32,
    flow_label: be32,
    hop_limit: u8,
    traffic_class: u8,
    reversible: i32,
    numb_path: u8,
    pkey: be16,
    sl: u8,
    mtu_selector: u8,
    mtu: u8,
    rate_selector: u8,
    rate: u8,
    packet_life_time_selector: u8,
    packet_life_time: u8,
    preference: u8,
}

fn ah_from(src: &KernelAh) -> ibv_ah_attr {
    let mut dst: ibv_ah_attr = zeroed();
    dst.grh.dgid = ibv_gid { raw: src.dgid };
    dst.grh.flow_label = src.flow_label;
    dst.grh.sgid_index = src.sgid_index;
    dst.grh.hop_limit = src.hop_limit;
    dst.grh.traffic_class = src.traffic_class;
    dst.dlid = src.dlid;
    dst.sl = src.sl;
    dst.src_path_bits = src.src_path_bits;
    dst.static_rate = src.static_rate;
    dst.is_global = src.is_global;
    dst.port_num = src.port_num;
    dst
}

/// Converts an address from the kernel's structure.
pub unsafe extern "C" fn ibv_copy_ah_attr_from_kern(dst: *mut ibv_ah_attr, src: *const KernelAh) {
    // SAFETY: the caller's structures.
    if let Some(src) = unsafe { src.as_ref() } {
        // SAFETY: as above.
        unsafe { dst.write(ah_from(src)) };
    }
}

/// Converts queue pair attributes from the kernel's structure.
pub unsafe extern "C" fn ibv_copy_qp_attr_from_kern(dst: *mut ibv_qp_attr, src: *const KernelQp) {
    // SAFETY: the caller's structures.
    let Some(src) = (unsafe { src.as_ref() }) else { return };
    let mut out: ibv_qp_attr = zeroed();
    macro_rules! copy {
        ($($field:ident)*) => {$(out.$field = src.$field;)*};
    }
    copy! {
        qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num qp_access_flags pkey_index
        alt_pkey_index en_sqd_async_notify sq_draining max_rd_atomic max_dest_rd_atomic min_rnr_timer port_num timeout
        retry_cnt rnr_retry alt_port_num alt_timeout
    }
    out.cap = ibv_qp_cap {
        max_send_wr: src.max_send_wr,
        max_recv_wr: src.max_recv_wr,
        max_send_sge: src.max_send_sge,
        max_recv_sge: src.max_recv_sge,
        max_inline_data: src.max_inline_data,
    };
    out.ah_attr = ah_from(&src.ah_attr);
    out.alt_ah_attr = ah_from(&src.alt_ah_attr);
    // SAFETY: the caller's place for the answer.
    unsafe { dst.write(out) };
}

/// Converts a path record from the kernel's structure.
pub unsafe extern "C" fn ibv_copy_path_rec_from_kern(dst: *mut SaPath, src: *const KernelPath) {
    // SAFETY: the caller's structures.
    let Some(src) = (unsafe { src.as_ref() }) else { return };
    let out = SaPath {
        dgid: ibv_gid { raw: src.dgid },
        sgid: ibv_gid { raw: src.sgid },
        dlid: src.dlid,
        slid: src.slid,
        raw_traffic: src.raw_traffic as i32,
        flow_label: src.flow_label,
        hop_limit: src.hop_limit,
        traffic_class: src.traffic_class,
        reversible: src.reversible as i32,
        numb_path: src.numb_path,
        pkey: src.pkey,
        sl: src.sl,
        mtu_selector: src.mtu_selector,
        mtu: src.mtu as u8,
        rate_selector: src.rate_selector,
        rate: src.rate,
        packet_life_time_selector: src.packet_life_time_selector,
        packet_life_time: src.packet_life_time,
        preference: src.preference,
    };
    // SAFETY: the caller's place for the answer.
    unsafe { dst.write(out) };
}

/// Converts a path record to the kernel's structure.
pub unsafe extern "C" fn ibv_copy_path_rec_to_kern(dst: *mut KernelPath, src: *const SaPath) {
    // SAFETY: the caller's structures.
    let Some(src) = (unsafe { src.as_ref() }) else { return };
    // SAFETY: sixteen bytes each, valid through either member of the union.
    let (dgid, sgid) = unsafe { (src.dgid.raw, src.sgid.raw) };
    let out = KernelPath {
        dgid,
        sgid,
        dlid: src.dlid,
        slid: src.slid,
        raw_traffic: src.raw_traffic as u32,
        flow_label: src.flow_label,
        reversible: src.reversible as u32,
        mtu: u32::from(src.mtu),
        pkey: src.pkey,
        hop_limit: src.hop_limit,
        traffic_class: src.traffic_class,
        numb_path: src.numb_path,
        sl: src.sl,
        mtu_selector: src.mtu_selector,
        rate_selector: src.rate_selector,
        rate: src.rate,
        packet_life_time_selector: src.packet_life_time_selector,
        packet_life_time: src.packet_life_time,
        preference: src.preference,
    };
    // SAFETY: the caller's place for the answer.
    unsafe { dst.write(out) };
}
