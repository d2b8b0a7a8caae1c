//! The daemon's report about the machine.

use std::collections::BTreeMap;

use weft_ipc::DeviceInfo;
use weft_ipc::stat::{QpPage, StatReport};

/// A report of the daemon at one time.
#[derive(Clone, Debug, Default)]
pub struct MachineReport {
    /// Time in milliseconds since 1970.
    pub at_ms: u64,
    /// Devices of the machine, and adapters of hosts that are in use, each with its host; empty for the machine.
    pub devices: Vec<(DeviceInfo, String)>,
    /// Counters of devices.
    pub stat: StatReport,
    /// Queue pairs.
    pub pages: Vec<QpPage>,
    /// Faults that processes ask for, by process ID.
    pub faults: BTreeMap<u32, String>,
}

#[cfg(test)]
pub mod testing {
    use super::*;
    use weft_ipc::stat::{QpCounters, QpInfo};

    /// A report of one program with one queue pair that sent this many bytes.
    pub fn report(at_ms: u64, bytes: u64, state: u8) -> MachineReport {
        let counters = QpCounters { wire_bytes_sent: bytes, sent_pkts: bytes / 1000, ..QpCounters::default() };
        let peer = Some("::ffff:10.77.0.2".parse::<std::net::Ipv6Addr>().unwrap().octets());
        let qp = QpInfo {
            qpn: 17,
            dest_qpn: Some(18),
            qp_type: 2,
            state,
            peer,
            path: "wire".into(),
            counters,
            ..QpInfo::default()
        };
        let page = QpPage { client: 9, pid: 4242, comm: "ib_write_bw".to_owned(), qps: vec![qp], ..QpPage::default() };
        MachineReport { at_ms, pages: vec![page], ..MachineReport::default() }
    }
}
