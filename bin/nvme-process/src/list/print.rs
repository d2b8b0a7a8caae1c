//! Namespaces in nvme-cli's form.

use std::fmt::Write;

use anyhow::Result;
use serde_json::{Value, json};
use weft_rdma_service::nbd::nbd_uri;

use crate::registry::{ControllerState, NamespaceState};

/// Prefixes of decimal units.
const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];

/// Returns the table. The last column is not nvme-cli's.
pub fn text(controllers: &[ControllerState]) -> String {
    let mut out = row(&["Node", "Generic", "SN", "Model", "Namespace", "Usage", "Format", "FW Rev", "NBD"]);
    let dashes = |count: usize| "-".repeat(count);
    let widths = [21, 21, 20, 40, 9, 26, 16, 8, 3].map(dashes);
    out += &row(&widths.each_ref().map(String::as_str));
    for controller in controllers {
        for namespace in &controller.namespaces {
            let bytes = u64::from(namespace.block_bytes);
            let usage = format!("{} / {}", size(namespace.used_blocks * bytes), size(namespace.blocks * bytes));
            out += &row(&[
                &controller.namespace_device(namespace.id),
                "-",
                &controller.serial,
                &controller.model,
                &namespace.id.to_string(),
                &usage,
                &format(namespace.block_bytes),
                &controller.firmware,
                &nbd_uri(&controller.socket, &namespace.id.to_string()),
            ]);
        }
    }
    out
}

fn row([node, generic, serial, model, namespace, usage, format, firmware, nbd]: &[&str; 9]) -> String {
    format!(
        "{node:<21} {generic:<21} {serial:<20} {model:<40} {namespace:<9} {usage:<26} {format:<16} {firmware:<8} {nbd}\n"
    )
}

/// Returns a size in decimal units.
fn size(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let prefix = UNITS.get(unit).copied().unwrap_or_default();
    let mut text = String::new();
    let _ = write!(text, "{value:6.2} {prefix:>2}B");
    text
}

/// Returns the format of a namespace: data and metadata of a block.
fn format(block_bytes: u32) -> String {
    let (value, prefix) = if block_bytes >= 1024 { (block_bytes / 1024, "Ki") } else { (block_bytes, "") };
    format!("{value:3} {prefix:>2}B + {:2} B", 0)
}

/// Returns the JSON.
///
/// # Errors
/// It cannot be written.
pub fn json(controllers: &[ControllerState]) -> Result<String> {
    let of = |controller: &ControllerState| {
        controller.namespaces.iter().map(|namespace| device(controller, namespace)).collect::<Vec<Value>>()
    };
    let devices: Vec<Value> = controllers.iter().flat_map(of).collect();
    Ok(serde_json::to_string_pretty(&json!({ "Devices": devices }))? + "\n")
}

/// The last entries are not nvme-cli's.
fn device(controller: &ControllerState, namespace: &NamespaceState) -> Value {
    let bytes = u64::from(namespace.block_bytes);
    json!({
        "NameSpace": namespace.id,
        "DevicePath": controller.namespace_device(namespace.id),
        "Firmware": controller.firmware,
        "ModelNumber": controller.model,
        "SerialNumber": controller.serial,
        "UsedBytes": namespace.used_blocks * bytes,
        "MaximumLBA": namespace.blocks,
        "PhysicalSize": namespace.blocks * bytes,
        "SectorSize": namespace.block_bytes,
        "ReadOnly": namespace.read_only,
        "NbdUri": nbd_uri(&controller.socket, &namespace.id.to_string()),
        "SubsystemNQN": controller.subsystem,
        "HostNQN": controller.host_nqn,
        "Transport": "rdma",
        "Address": format!("traddr={},trsvcid={}", controller.address, controller.service),
        "Controller": controller.controller,
        "State": if controller.is_live { "live" } else { "connecting" },
        "LostBy": controller.lost,
        "Process": controller.pid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller() -> ControllerState {
        let namespace =
            |id, block_bytes| NamespaceState { id, blocks: 8192, used_blocks: 4096, block_bytes, read_only: false };
        ControllerState {
            device: "nvme0".into(),
            model: "Weft".into(),
            serial: "123".into(),
            firmware: "0.1.0".into(),
            socket: "/run/weft-nvme/nvme0/nbd.sock".into(),
            namespaces: vec![namespace(1, 512), namespace(2, 4096)],
            ..ControllerState::default()
        }
    }

    #[test]
    fn the_table_has_nvme_clis_columns() {
        let table = text(&[controller()]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0].find("Namespace "), Some(106));
        let expected = "nvme0n1               -                     123                  Weft                                     \
                        1           2.10  MB /   4.19  MB    512   B +  0 B   0.1.0    nbd+unix:///1?socket=/run/weft-nvme/nvme0/nbd.sock";
        assert_eq!(lines[2], expected);
        assert!(lines[3].contains(" 16.78  MB /  33.55  MB      4 KiB +  0 B   0.1.0"), "{}", lines[3]);
        assert_eq!(text(&[]).lines().count(), 2);
    }

    #[test]
    fn json_has_nvme_clis_names() {
        let text = json(&[controller()]).expect("JSON");
        let root: Value = serde_json::from_str(&text).expect("JSON");
        let second = &root["Devices"][1];
        assert_eq!(
            (&second["NameSpace"], &second["SectorSize"], &second["PhysicalSize"]),
            (&json!(2), &json!(4096), &json!(33_554_432))
        );
        assert_eq!(second["NbdUri"], "nbd+unix:///2?socket=/run/weft-nvme/nvme0/nbd.sock");
    }
}
