//! Disks as a table, and as JSON.

use anyhow::Result;
use serde_json::{Value, json};
use weft_rdma_service::nbd::nbd_uri;
use weft_rdma_service::size_text;

use crate::registry::{DiskState, SessionState};

/// Returns the table.
pub fn text(sessions: &[SessionState]) -> String {
    let mut out = row(&["Device", "Vendor", "Model", "Size", "Block", "State", "NBD"]);
    for session in sessions {
        if session.disks.is_empty() {
            out += &row(&[&session.device, "-", "-", "-", "-", state(session), "-"]);
        }
        for disk in &session.disks {
            out += &row(&[
                &session.disk_device(disk.lun),
                &disk.vendor,
                &disk.model,
                &size_text(disk.bytes),
                &format!("{} B", disk.block_bytes),
                state(session),
                &uri(session, disk),
            ]);
        }
    }
    out
}

fn row([device, vendor, model, size, block, state, nbd]: &[&str; 7]) -> String {
    format!("{device:<10} {vendor:<8} {model:<16} {size:>10} {block:>7} {state:<10} {nbd}\n")
}

fn state(session: &SessionState) -> &'static str {
    if session.is_live { "live" } else { "connecting" }
}

fn uri(session: &SessionState, disk: &DiskState) -> String {
    nbd_uri(&session.socket, &disk.lun.to_string())
}

/// Returns the JSON.
///
/// # Errors
/// It cannot be written.
pub fn json(sessions: &[SessionState]) -> Result<String> {
    let of = |session: &SessionState| session.disks.iter().map(|disk| entry(session, disk)).collect::<Vec<Value>>();
    let disks: Vec<Value> = sessions.iter().flat_map(of).collect();
    Ok(serde_json::to_string_pretty(&json!({ "disks": disks }))? + "\n")
}

fn entry(session: &SessionState, disk: &DiskState) -> Value {
    json!({
        "device": session.disk_device(disk.lun),
        "lun": disk.lun,
        "vendor": disk.vendor,
        "model": disk.model,
        "revision": disk.revision,
        "bytes": disk.bytes,
        "block_bytes": disk.block_bytes,
        "read_only": disk.read_only,
        "nbd_uri": uri(session, disk),
        "target": session.target,
        "initiator": session.initiator,
        "address": session.address,
        "port": session.port,
        "service_id": session.service_id.map(|id| format!("{id:#018x}")),
        "state": state(session),
        "lost_by": session.lost,
        "process": session.pid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionState {
        let disk = |lun, block_bytes| DiskState {
            lun,
            vendor: "Weft".into(),
            model: "Virtual disk".into(),
            revision: "0.1".into(),
            bytes: 32 << 20,
            block_bytes,
            read_only: false,
        };
        SessionState {
            device: "srp0".into(),
            socket: "/run/weft-srp/srp0/nbd.sock".into(),
            disks: vec![disk(0, 512), disk(3, 4096)],
            is_live: true,
            ..SessionState::default()
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_disk() {
        let table = text(&[session()]);
        let lines: Vec<&str> = table.lines().collect();
        let expected = "srp0:3     Weft     Virtual disk       32.0 MiB  4096 B live       nbd+unix:///3?socket=/run/weft-srp/srp0/nbd.sock";
        assert_eq!((lines.len(), lines[2]), (3, expected));
        assert_eq!(text(&[]).lines().count(), 1);
    }

    #[test]
    fn json_has_the_same_disks() {
        let root: Value = serde_json::from_str(&json(&[session()]).expect("JSON")).expect("JSON");
        let second = &root["disks"][1];
        assert_eq!(
            (&second["device"], &second["block_bytes"], &second["state"]),
            (&json!("srp0:3"), &json!(4096), &json!("live"))
        );
    }
}
