//! The text of `ibv_devinfo`, byte for byte the original's, and the same as JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use weft_abi_types::{IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, IBV_LINK_LAYER_ETHERNET};

use super::report::{DeviceReport, PortReport};
use super::{names, verbose};
use weft_client::verbs::GidRow;

/// `ibv_devinfo -l`.
pub fn list_text(device_names: &[String]) -> String {
    let plural = if device_names.len() == 1 { "" } else { "s" };
    let mut out = format!("{} HCA{plural} found:\n", device_names.len());
    for name in device_names {
        let _ = writeln!(out, "\t{name}");
    }
    out.push('\n');
    out
}

/// Everything about a device and its ports.
pub fn text(report: &DeviceReport, verbose: bool) -> String {
    let attr = &report.attr.orig_attr;
    let mut out = String::new();
    let _ = write!(
        out,
        "hca_id:\t{}\n\ttransport:\t\t\t{} ({})\n",
        report.name,
        names::transport(report.transport),
        report.transport
    );
    let fw_ver = fw_ver(report);
    if !fw_ver.is_empty() {
        let _ = writeln!(out, "\tfw_ver:\t\t\t\t{fw_ver}");
    }
    let _ = write!(
        out,
        "\tnode_guid:\t\t\t{}\n\tsys_image_guid:\t\t\t{}\n\tvendor_id:\t\t\t{:#06x}\n\
         \tvendor_part_id:\t\t\t{}\n\thw_ver:\t\t\t\t0x{:X}\n",
        guid(attr.node_guid),
        guid(attr.sys_image_guid),
        attr.vendor_id,
        attr.vendor_part_id as i32,
        attr.hw_ver,
    );
    if let Some(board) = &report.board_id {
        let _ = writeln!(out, "\tboard_id:\t\t\t{board}");
    }
    let _ = writeln!(out, "\tphys_port_cnt:\t\t\t{}", attr.phys_port_cnt);
    if verbose {
        verbose::device(&mut out, report);
    }
    for port in &report.ports {
        port_text(&mut out, port, verbose);
    }
    out.push('\n');
    out
}

fn port_text(out: &mut String, port: &PortReport, verbose: bool) {
    let attr = &port.attr;
    let _ = write!(
        out,
        "\t\tport:\t{}\n\t\t\tstate:\t\t\t{} ({})\n\t\t\tmax_mtu:\t\t{} ({})\n\
         \t\t\tactive_mtu:\t\t{} ({})\n\t\t\tsm_lid:\t\t\t{}\n\t\t\tport_lid:\t\t{}\n\
         \t\t\tport_lmc:\t\t{:#04x}\n\t\t\tlink_layer:\t\t{}\n",
        port.number,
        names::port_state(attr.state),
        attr.state,
        names::mtu(attr.max_mtu),
        attr.max_mtu,
        names::mtu(attr.active_mtu),
        attr.active_mtu,
        attr.sm_lid,
        attr.lid,
        attr.lmc,
        names::link_layer(attr.link_layer),
    );
    if verbose {
        verbose::port(out, attr);
        for row in &port.gids {
            gid_line(out, row, attr.link_layer);
        }
    }
}

fn gid_line(out: &mut String, row: &GidRow, link_layer: u8) {
    let kind = row.gid_type.unwrap_or(IBV_GID_TYPE_ROCE_V1);
    let ethernet = u32::from(link_layer) == IBV_LINK_LAYER_ETHERNET;
    let suffix = match kind {
        IBV_GID_TYPE_ROCE_V2 if ethernet => ", RoCE v2",
        IBV_GID_TYPE_ROCE_V1 | weft_abi_types::IBV_GID_TYPE_IB if ethernet => ", RoCE v1",
        _ => "",
    };
    let gid = if kind == IBV_GID_TYPE_ROCE_V2 { names::gid(&row.gid) } else { names::gid_long(&row.gid) };
    let _ = writeln!(out, "\t\t\tGID[{:>3}]:\t\t{gid}{suffix}", row.index);
}

/// `5054:00ff:fe77:0001`, from a number in network order.
fn guid(be: u64) -> String {
    let hex = format!("{:016x}", u64::from_be(be));
    [&hex[..4], &hex[4..8], &hex[8..12], &hex[12..]].join(":")
}

fn fw_ver(report: &DeviceReport) -> String {
    let bytes: Vec<u8> = report.attr.orig_attr.fw_ver.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The same as JSON.
pub fn json(report: &DeviceReport, verbose: bool) -> Value {
    let attr = &report.attr.orig_attr;
    let ports: Vec<Value> = report
        .ports
        .iter()
        .map(|port| {
            let mut value = json!({
                "port": port.number,
                "state": names::port_state(port.attr.state),
                "max_mtu": names::mtu(port.attr.max_mtu).parse::<u32>().ok(),
                "active_mtu": names::mtu(port.attr.active_mtu).parse::<u32>().ok(),
                "sm_lid": port.attr.sm_lid,
                "port_lid": port.attr.lid,
                "port_lmc": port.attr.lmc,
                "link_layer": names::link_layer(port.attr.link_layer),
            });
            if verbose {
                value["gids"] = port
                    .gids
                    .iter()
                    .map(|row| {
                        json!({
                            "index": row.index,
                            "gid": names::gid(&row.gid),
                            "type": if row.is_roce_v2() { "RoCE v2" } else { "IB/RoCE v1" },
                        })
                    })
                    .collect();
            }
            value
        })
        .collect();
    let mut value = json!({
        "hca_id": report.name,
        "transport": names::transport(report.transport),
        "fw_ver": fw_ver(report),
        "node_guid": guid(attr.node_guid),
        "sys_image_guid": guid(attr.sys_image_guid),
        "vendor_id": attr.vendor_id,
        "vendor_part_id": attr.vendor_part_id,
        "hw_ver": attr.hw_ver,
        "board_id": report.board_id,
        "phys_port_cnt": attr.phys_port_cnt,
        "ports": ports,
    });
    if verbose {
        value["attributes"] = verbose::json(&report.attr);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devinfo::verbose::tests::rxe_report;

    /// Output of Debian's ibv_devinfo for Linux's rxe.
    const GOLDEN: &str = include_str!("../../testdata/ibv_devinfo.txt");
    const GOLDEN_VERBOSE: &str = include_str!("../../testdata/ibv_devinfo-v.txt");

    #[test]
    fn the_short_form_is_the_originals() {
        assert_eq!(text(&rxe_report(), false), GOLDEN);
    }

    #[test]
    fn the_long_form_is_the_originals() {
        assert_eq!(text(&rxe_report(), true), GOLDEN_VERBOSE);
    }

    #[test]
    fn the_list_is_the_originals() {
        assert_eq!(list_text(&["rxe0".to_owned()]), "1 HCA found:\n\trxe0\n\n");
        assert_eq!(list_text(&[]), "0 HCAs found:\n\n");
    }

    #[test]
    fn a_roce_v1_gid_is_written_in_full() {
        let mut out = String::new();
        let row = GidRow {
            index: 12,
            gid: "fe80::1".parse::<std::net::Ipv6Addr>().unwrap().octets(),
            gid_type: Some(IBV_GID_TYPE_ROCE_V1),
        };
        gid_line(&mut out, &row, 2);
        assert_eq!(out, "\t\t\tGID[ 12]:\t\tfe80:0000:0000:0000:0000:0000:0000:0001, RoCE v1\n");
    }
}
