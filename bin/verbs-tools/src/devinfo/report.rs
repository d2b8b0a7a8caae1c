//! The attributes of a device and its ports.

use weft_abi_types::{ibv_device_attr_ex, ibv_port_attr, ibv_transport_type};

use weft_client::verbs::{Device, GidRow};

/// Everything printed about a device.
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// InfiniBand (and RoCE), iWARP ...
    pub transport: ibv_transport_type,
    /// Its attributes.
    pub attr: ibv_device_attr_ex,
    /// Its board ID, if sysfs has one.
    pub board_id: Option<String>,
    /// Completion vectors.
    pub num_comp_vectors: i32,
    /// The requested ports.
    pub ports: Vec<PortReport>,
}

/// Everything printed about a port.
pub struct PortReport {
    /// Its number, from 1.
    pub number: u8,
    /// Its attributes.
    pub attr: ibv_port_attr,
    /// GID table entries that hold an address.
    pub gids: Vec<GidRow>,
}

impl DeviceReport {
    /// Queries `device` and its `port`, or all its ports.
    ///
    /// # Errors
    /// The line that the original prints.
    pub fn of(device: &Device<'_>, port: Option<u8>) -> Result<DeviceReport, String> {
        let context = device.open().map_err(|_| "Failed to open device".to_owned())?;
        let attr = context.query_device().map_err(|_| "Failed to query device props".to_owned())?;
        let count = attr.orig_attr.phys_port_cnt;
        let numbers = match port {
            Some(port) if port > count => {
                return Err("Invalid port requested for device".to_owned());
            }
            Some(port) => port..=port,
            None => 1..=count,
        };
        let mut ports = Vec::new();
        for number in numbers {
            let attr = context.query_port(number).map_err(|_| format!("Failed to query port {number} props"))?;
            let mut gids = Vec::new();
            for index in 0..u32::try_from(attr.gid_tbl_len).unwrap_or(0) {
                let row = context
                    .query_gid(number, index)
                    .map_err(|_| format!("Failed to query gid to port {number}, index {index}"))?;
                if !row.is_empty() {
                    gids.push(row);
                }
            }
            ports.push(PortReport { number, attr, gids });
        }
        Ok(DeviceReport {
            name: device.name(),
            transport: device.transport_type(),
            attr,
            board_id: board_id(device),
            num_comp_vectors: context.num_comp_vectors(),
            ports,
        })
    }
}

fn board_id(device: &Device<'_>) -> Option<String> {
    let text = std::fs::read_to_string(device.sysfs_path().join("board_id")).ok()?;
    let text = text.trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}
