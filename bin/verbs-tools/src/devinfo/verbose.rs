//! The additional output of `ibv_devinfo -v`.

use std::fmt::Write;

use serde_json::{Value, json};
use weft_abi_types::{
    IBV_DEVICE_PCI_WRITE_END_PADDING, IBV_DEVICE_RAW_SCATTER_FCS, IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_IMPLICIT,
    IBV_QPT_RAW_PACKET, IBV_QPT_UD, IBV_TM_CAP_RC, ibv_device_attr_ex, ibv_port_attr,
};

use super::names;
use super::report::DeviceReport;

/// Lists a flag, indented by five tabs.
macro_rules! flag_line {
    ($out:expr, $($arg:tt)*) => {{
        $out.push_str("\t\t\t\t\t");
        let _ = writeln!($out, $($arg)*);
    }};
}

fn flags(out: &mut String, value: u32, table: &[(u32, &str)]) {
    let mut unknown = value;
    for (bit, name) in table {
        if value & bit != 0 {
            flag_line!(out, "{name}");
        }
        unknown &= !bit;
    }
    if unknown != 0 {
        flag_line!(out, "Unknown flags: 0x{unknown:X}");
    }
}

/// Device attributes.
pub fn device(out: &mut String, report: &DeviceReport) {
    limits(out, &report.attr);
    odp(out, &report.attr);
    clocks(out, &report.attr);
    offloads(out, &report.attr);
    let _ = writeln!(out, "\tnum_comp_vectors:\t\t{}", report.num_comp_vectors);
}

fn limits(out: &mut String, attr: &ibv_device_attr_ex) {
    let a = &attr.orig_attr;
    let _ = write!(
        out,
        "\tmax_mr_size:\t\t\t{:#x}\n\tpage_size_cap:\t\t\t{:#x}\n\tmax_qp:\t\t\t\t{}\n\
         \tmax_qp_wr:\t\t\t{}\n\tdevice_cap_flags:\t\t{:#010x}\n",
        a.max_mr_size, a.page_size_cap, a.max_qp, a.max_qp_wr, a.device_cap_flags
    );
    flags(out, a.device_cap_flags, names::DEVICE_CAPS);
    let _ = write!(
        out,
        "\tmax_sge:\t\t\t{}\n\tmax_sge_rd:\t\t\t{}\n\tmax_cq:\t\t\t\t{}\n\tmax_cqe:\t\t\t{}\n\
         \tmax_mr:\t\t\t\t{}\n\tmax_pd:\t\t\t\t{}\n\tmax_qp_rd_atom:\t\t\t{}\n\
         \tmax_ee_rd_atom:\t\t\t{}\n\tmax_res_rd_atom:\t\t{}\n\tmax_qp_init_rd_atom:\t\t{}\n\
         \tmax_ee_init_rd_atom:\t\t{}\n\tatomic_cap:\t\t\t{} ({})\n\tmax_ee:\t\t\t\t{}\n\
         \tmax_rdd:\t\t\t{}\n\tmax_mw:\t\t\t\t{}\n\tmax_raw_ipv6_qp:\t\t{}\n\
         \tmax_raw_ethy_qp:\t\t{}\n\tmax_mcast_grp:\t\t\t{}\n\tmax_mcast_qp_attach:\t\t{}\n\
         \tmax_total_mcast_qp_attach:\t{}\n\tmax_ah:\t\t\t\t{}\n\tmax_fmr:\t\t\t{}\n",
        a.max_sge,
        a.max_sge_rd,
        a.max_cq,
        a.max_cqe,
        a.max_mr,
        a.max_pd,
        a.max_qp_rd_atom,
        a.max_ee_rd_atom,
        a.max_res_rd_atom,
        a.max_qp_init_rd_atom,
        a.max_ee_init_rd_atom,
        names::atomic_cap(a.atomic_cap),
        a.atomic_cap,
        a.max_ee,
        a.max_rdd,
        a.max_mw,
        a.max_raw_ipv6_qp,
        a.max_raw_ethy_qp,
        a.max_mcast_grp,
        a.max_mcast_qp_attach,
        a.max_total_mcast_qp_attach,
        a.max_ah,
        a.max_fmr,
    );
    if a.max_fmr != 0 {
        let _ = writeln!(out, "\tmax_map_per_fmr:\t\t{}", a.max_map_per_fmr);
    }
    let _ = writeln!(out, "\tmax_srq:\t\t\t{}", a.max_srq);
    if a.max_srq != 0 {
        let _ = write!(out, "\tmax_srq_wr:\t\t\t{}\n\tmax_srq_sge:\t\t\t{}\n", a.max_srq_wr, a.max_srq_sge);
    }
    let _ = write!(out, "\tmax_pkeys:\t\t\t{}\n\tlocal_ca_ack_delay:\t\t{}\n", a.max_pkeys, a.local_ca_ack_delay);
}

fn odp(out: &mut String, attr: &ibv_device_attr_ex) {
    let general = attr.odp_caps.general_caps;
    out.push_str("\tgeneral_odp_caps:\n");
    if general & u64::from(IBV_ODP_SUPPORT) != 0 {
        flag_line!(out, "ODP_SUPPORT");
    }
    if general & u64::from(IBV_ODP_SUPPORT_IMPLICIT) != 0 {
        flag_line!(out, "ODP_SUPPORT_IMPLICIT");
    }
    let unknown = general & !u64::from(IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
    if unknown != 0 {
        flag_line!(out, "Unknown flags: 0x{unknown:X}");
    }
    let transports = &attr.odp_caps.per_transport_caps;
    for (name, caps) in [
        ("rc", transports.rc_odp_caps),
        ("uc", transports.uc_odp_caps),
        ("ud", transports.ud_odp_caps),
        ("xrc", attr.xrc_odp_caps),
    ] {
        let _ = writeln!(out, "\t{name}_odp_caps:");
        if caps == 0 {
            flag_line!(out, "NO SUPPORT");
        } else {
            flags(out, caps, names::ODP_CAPS);
        }
    }
}

fn clocks(out: &mut String, attr: &ibv_device_attr_ex) {
    if attr.completion_timestamp_mask != 0 {
        let mask = attr.completion_timestamp_mask;
        let _ = writeln!(out, "\tcompletion timestamp_mask:\t\t\t0x{mask:016x}");
    } else {
        out.push_str("\tcompletion_timestamp_mask not supported\n");
    }
    if attr.hca_core_clock != 0 {
        let _ = writeln!(out, "\thca_core_clock:\t\t\t{}kHZ", attr.hca_core_clock);
    } else {
        out.push_str("\tcore clock not supported\n");
    }
}

fn offloads(out: &mut String, attr: &ibv_device_attr_ex) {
    if attr.raw_packet_caps != 0 {
        out.push_str("\traw packet caps:\n");
        flags(out, attr.raw_packet_caps, names::RAW_PACKET_CAPS);
    }
    let caps = attr.device_cap_flags_ex;
    let _ = writeln!(out, "\tdevice_cap_flags_ex:\t\t0x{caps:X}");
    if caps & IBV_DEVICE_RAW_SCATTER_FCS != 0 {
        flag_line!(out, "RAW_SCATTER_FCS");
    }
    if caps & IBV_DEVICE_PCI_WRITE_END_PADDING != 0 {
        flag_line!(out, "PCI_WRITE_END_PADDING");
    }
    // The lower half repeats device_cap_flags, which are already listed.
    let known = IBV_DEVICE_RAW_SCATTER_FCS | IBV_DEVICE_PCI_WRITE_END_PADDING | 0xffff_ffff;
    if caps & !known != 0 {
        flag_line!(out, "Unknown flags: 0x{:X}", caps & !known);
    }
    let _ = write!(out, "\ttso_caps:\n\t\tmax_tso:\t\t\t{}\n", attr.tso_caps.max_tso);
    supported_qp(out, attr.tso_caps.supported_qpts);
    let rss = &attr.rss_caps;
    let _ = write!(
        out,
        "\trss_caps:\n\t\tmax_rwq_indirection_tables:\t\t\t{}\n\
         \t\tmax_rwq_indirection_table_size:\t\t\t{}\n\t\trx_hash_function:\t\t\t\t{:#x}\n\
         \t\trx_hash_fields_mask:\t\t\t\t0x{:X}\n",
        rss.max_rwq_indirection_tables,
        rss.max_rwq_indirection_table_size,
        rss.rx_hash_function,
        rss.rx_hash_fields_mask
    );
    supported_qp(out, rss.supported_qpts);
    let pacing = &attr.packet_pacing_caps;
    let _ = write!(
        out,
        "\tmax_wq_type_rq:\t\t\t{}\n\tpacket_pacing_caps:\n\t\tqp_rate_limit_min:\t{}kbps\n\
         \t\tqp_rate_limit_max:\t{}kbps\n",
        attr.max_wq_type_rq, pacing.qp_rate_limit_min, pacing.qp_rate_limit_max
    );
    supported_qp(out, pacing.supported_qpts);
    tag_matching(out, attr);
    if attr.cq_mod_caps.max_cq_count != 0 {
        let _ = write!(
            out,
            "\n\tcq moderation caps:\n\t\tmax_cq_count:\t{}\n\t\tmax_cq_period:\t{} us\n\n",
            attr.cq_mod_caps.max_cq_count, attr.cq_mod_caps.max_cq_period
        );
    }
    if attr.max_dm_size != 0 {
        let _ = write!(out, "\tmaximum available device memory:\t{}Bytes\n\n", attr.max_dm_size);
    }
}

fn supported_qp(out: &mut String, qpts: u32) {
    if qpts == 0 {
        return;
    }
    out.push_str("\t\tsupported_qp:\n");
    let table = [(1 << IBV_QPT_RAW_PACKET, "SUPPORT_RAW_PACKET"), (1 << IBV_QPT_UD, "SUPPORT_UD")];
    flags(out, qpts, &table);
}

fn tag_matching(out: &mut String, attr: &ibv_device_attr_ex) {
    let tm = &attr.tm_caps;
    if tm.max_num_tags == 0 {
        out.push_str("\ttag matching not supported\n");
        return;
    }
    let _ = write!(
        out,
        "\tmax_rndv_hdr_size:\t\t{}\n\tmax_num_tags:\t\t\t{}\n\tmax_ops:\t\t\t{}\n\
         \tmax_sge:\t\t\t{}\n\tflags:\n",
        tm.max_rndv_hdr_size, tm.max_num_tags, tm.max_ops, tm.max_sge
    );
    if tm.flags & IBV_TM_CAP_RC != 0 {
        flag_line!(out, "IBV_TM_CAP_RC");
    }
}

/// Port attributes.
pub fn port(out: &mut String, attr: &ibv_port_attr) {
    // A speed that does not fit the old field is in the new one.
    let speed = match attr.active_speed_ex {
        0 => u32::from(attr.active_speed),
        wide => wide,
    };
    let _ = write!(
        out,
        "\t\t\tmax_msg_sz:\t\t{:#x}\n\t\t\tport_cap_flags:\t\t{:#010x}\n\
         \t\t\tport_cap_flags2:\t{:#06x}\n\t\t\tmax_vl_num:\t\t{} ({})\n\
         \t\t\tbad_pkey_cntr:\t\t{:#x}\n\t\t\tqkey_viol_cntr:\t\t{:#x}\n\t\t\tsm_sl:\t\t\t{}\n\
         \t\t\tpkey_tbl_len:\t\t{}\n\t\t\tgid_tbl_len:\t\t{}\n\t\t\tsubnet_timeout:\t\t{}\n\
         \t\t\tinit_type_reply:\t{}\n\t\t\tactive_width:\t\t{}X ({})\n\
         \t\t\tactive_speed:\t\t{} ({})\n",
        attr.max_msg_sz,
        attr.port_cap_flags,
        attr.port_cap_flags2,
        names::virtual_lanes(attr.max_vl_num),
        attr.max_vl_num,
        attr.bad_pkey_cntr,
        attr.qkey_viol_cntr,
        attr.sm_sl,
        attr.pkey_tbl_len,
        attr.gid_tbl_len,
        attr.subnet_timeout,
        attr.init_type_reply,
        names::width(attr.active_width),
        attr.active_width,
        names::speed(speed),
        speed,
    );
    // InfiniBand and Ethernet ports have a physical state; other links leave it 0.
    if attr.phys_state != 0 {
        let _ = writeln!(out, "\t\t\tphys_state:\t\t{} ({})", names::phys_state(attr.phys_state), attr.phys_state);
    }
}

/// The most commonly needed limits, as JSON.
pub fn json(attr: &ibv_device_attr_ex) -> Value {
    let a = &attr.orig_attr;
    let caps: Vec<&str> =
        names::DEVICE_CAPS.iter().filter(|(bit, _)| a.device_cap_flags & bit != 0).map(|(_, name)| *name).collect();
    json!({
        "device_cap_flags": caps,
        "max_mr_size": a.max_mr_size,
        "max_qp": a.max_qp,
        "max_qp_wr": a.max_qp_wr,
        "max_sge": a.max_sge,
        "max_cq": a.max_cq,
        "max_cqe": a.max_cqe,
        "max_mr": a.max_mr,
        "max_pd": a.max_pd,
        "max_mw": a.max_mw,
        "max_ah": a.max_ah,
        "max_srq": a.max_srq,
        "max_srq_wr": a.max_srq_wr,
        "max_srq_sge": a.max_srq_sge,
        "max_qp_rd_atom": a.max_qp_rd_atom,
        "max_qp_init_rd_atom": a.max_qp_init_rd_atom,
        "max_pkeys": a.max_pkeys,
        "atomic_cap": names::atomic_cap(a.atomic_cap),
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::devinfo::PortReport;
    use std::net::Ipv6Addr;
    use weft_abi_types::IBV_GID_TYPE_ROCE_V2;
    use weft_client::verbs::GidRow;

    /// Linux's rxe as in the golden output.
    pub fn rxe_report() -> DeviceReport {
        // SAFETY: both structures consist of integers, for which zero is valid.
        let (mut attr, mut port): (ibv_device_attr_ex, ibv_port_attr) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let a = &mut attr.orig_attr;
        for (place, byte) in a.fw_ver.iter_mut().zip(b"0.0.0") {
            *place = *byte as libc::c_char;
        }
        a.node_guid = 0x5054_00ff_fe77_0001_u64.to_be();
        a.sys_image_guid = a.node_guid;
        a.vendor_id = 0xff_ffff;
        a.phys_port_cnt = 1;
        a.max_mr_size = u64::MAX;
        a.page_size_cap = 0xffff_f000;
        (a.max_qp, a.max_qp_wr) = (1_048_560, 1_048_576);
        a.device_cap_flags = 0x0122_3c76;
        (a.max_sge, a.max_sge_rd) = (32, 32);
        (a.max_cq, a.max_cqe) = (1_048_576, 32_767);
        (a.max_mr, a.max_pd, a.max_mw) = (524_287, 1_048_576, 524_287);
        (a.max_qp_rd_atom, a.max_res_rd_atom) = (128, 258_048);
        a.max_qp_init_rd_atom = 128;
        a.atomic_cap = weft_abi_types::IBV_ATOMIC_HCA;
        (a.max_mcast_grp, a.max_mcast_qp_attach) = (8192, 56);
        a.max_total_mcast_qp_attach = 458_752;
        a.max_ah = 32_767;
        (a.max_srq, a.max_srq_wr, a.max_srq_sge) = (917_503, 1_048_576, 27);
        (a.max_pkeys, a.local_ca_ack_delay) = (64, 15);
        attr.device_cap_flags_ex = 0x0122_3c76;
        port.state = 4;
        (port.max_mtu, port.active_mtu) = (5, 3);
        port.gid_tbl_len = 1024;
        port.port_cap_flags = 0x1_0000;
        port.max_msg_sz = 0x80_0000;
        port.pkey_tbl_len = 1;
        port.max_vl_num = 1;
        (port.active_width, port.active_speed, port.phys_state) = (1, 1, 5);
        port.link_layer = 2;
        let gids = ["fe80::5054:ff:fe77:1", "::ffff:10.77.0.1", "fd77::1"];
        DeviceReport {
            name: "rxe0".to_owned(),
            transport: 0,
            attr,
            board_id: None,
            num_comp_vectors: 2,
            ports: vec![PortReport {
                number: 1,
                attr: port,
                gids: gids
                    .iter()
                    .zip(0..)
                    .map(|(gid, index)| GidRow {
                        index,
                        gid: gid.parse::<Ipv6Addr>().unwrap().octets(),
                        gid_type: Some(IBV_GID_TYPE_ROCE_V2),
                    })
                    .collect(),
            }],
        }
    }
}
