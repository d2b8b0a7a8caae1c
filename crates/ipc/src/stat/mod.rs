//! Counters and objects of processes: a process writes them to its ledger (`ledger.rs`), and the daemon reads them
//! there and adds them up. Counters have Linux's names (rxe, iproute2's `rdma statistic`) where it has one.

mod counters;
mod ledger;

use serde::{Deserialize, Serialize};

pub use counters::{DeviceCounters, PortCounters, ProcessCounters, QpCounters};
pub use ledger::{LEDGER_BYTES, Ledger, Page, read_page};

use crate::limits::{PATH_NAME_BYTES_MAX, PATHS_MAX};

/// Counters of a process: the ledger's first page.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CountersPage {
    /// Counters by device; devices that counted nothing are left out.
    pub devices: Vec<(u32, DeviceCounters)>,
    /// Counters that belong to no device.
    pub process: ProcessCounters,
}

/// Objects of a process: the ledger's second page.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ObjectsPage {
    /// Objects by device; devices without objects are left out.
    pub devices: Vec<DeviceObjects>,
    /// Queue pairs, as many as fit.
    pub qps: Vec<QpInfo>,
}

/// Objects on a device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are those of `rdma resource show`.
pub struct DeviceObjects {
    /// The device.
    pub device: u32,
    pub pd: u32,
    pub cq: u32,
    pub qp: u32,
    pub mr: u32,
    pub ctx: u32,
    pub srq: u32,
    /// How many of its connected queue pairs use each path.
    pub paths: Vec<(PathName, u32)>,
}

impl DeviceObjects {
    /// Adds another process's objects.
    pub fn add(&mut self, other: &DeviceObjects) {
        for (mine, theirs) in [
            (&mut self.pd, other.pd),
            (&mut self.cq, other.cq),
            (&mut self.qp, other.qp),
            (&mut self.mr, other.mr),
            (&mut self.ctx, other.ctx),
            (&mut self.srq, other.srq),
        ] {
            *mine = mine.saturating_add(theirs);
        }
        for (path, count) in &other.paths {
            if let Some((_, sum)) = self.paths.iter_mut().find(|(known, _)| known == path) {
                *sum = sum.saturating_add(*count);
            } else if self.paths.len() < PATHS_MAX {
                self.paths.push((path.clone(), *count));
            }
        }
    }
}

/// A queue pair as `weft qp` shows it, with libibverbs's numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct QpInfo {
    /// Device.
    pub device: u32,
    /// QP number.
    pub qpn: u32,
    /// QP number of the peer, for connected types.
    pub dest_qpn: Option<u32>,
    /// `enum ib_qp_type`.
    pub qp_type: u8,
    /// `enum ibv_qp_state`.
    pub state: u8,
    /// First PSN expected, for connected types.
    pub rq_psn: u32,
    /// First PSN sent.
    pub sq_psn: u32,
    /// Address of the peer, for connected types.
    pub peer: Option<[u8; 16]>,
    /// Path to the peer.
    pub path: PathName,
    /// Work requests posted to the send queue.
    pub posted_sends: u64,
    /// Work requests posted to its own receive queue.
    pub posted_recvs: u64,
    /// Smoothed round trip to the peer in nanoseconds, 0 if its transport measures none.
    pub round_trip_ns: u64,
    /// Counters.
    pub counters: QpCounters,
}

/// The name of a path, `wire` or `same-host(memcpy)`. Restricted to letters, digits and some punctuation, since
/// untrusted processes write it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(from = "String")]
pub struct PathName(String);

impl From<String> for PathName {
    fn from(text: String) -> PathName {
        let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '(' | ')');
        PathName(text.chars().filter(fits).take(PATH_NAME_BYTES_MAX).collect())
    }
}

impl From<&str> for PathName {
    fn from(text: &str) -> PathName {
        text.to_owned().into()
    }
}

impl std::fmt::Display for PathName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

/// Totals of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceStat {
    /// Device.
    pub device: u32,
    /// Counters of all processes, dead ones included.
    pub counters: DeviceCounters,
    /// Objects of living processes.
    pub objects: DeviceObjects,
}

/// A page of the daemon's totals.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StatReport {
    /// Devices in the order of enumeration, a page of them.
    pub devices: Vec<DeviceStat>,
    /// Whether more follow.
    pub more: bool,
    /// Counters of all processes, dead ones included.
    pub process: ProcessCounters,
    /// Processes that have a device open.
    pub processes: u32,
}

/// Position in a list of queue pairs: the daemon's number of the process, and how many of its queue pairs to skip.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct QpCursor {
    /// Process.
    pub client: u64,
    /// Queue pairs to skip.
    pub skip: u32,
}

/// Queue pairs of one process, a page of them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct QpPage {
    /// The daemon's number of the process, unique while the daemon lives; 0 if the page has no process.
    pub client: u64,
    /// Virtual host that the process runs as; empty for the machine.
    pub host: String,
    /// Counters of the process over all devices.
    pub totals: DeviceCounters,
    /// Process ID, 0 if the process is in a PID namespace that the daemon cannot see.
    pub pid: u32,
    /// Name that the process gave.
    pub comm: String,
    /// The queue pairs.
    pub qps: Vec<QpInfo>,
    /// Queue pairs of this process that its ledger has no room for; reported with its last page.
    pub untold: u32,
    /// Cursor of the next page.
    pub next: Option<QpCursor>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{FabricPort, FabricReply, PortCursor, PortName};
    use crate::limits::*;

    #[test]
    fn a_path_has_a_harmless_name_whoever_gave_it() {
        let bytes = crate::encode(&"\u{1b}[31m same-host(memcpy)\n".repeat(9)).unwrap();
        let name: PathName = crate::decode(&bytes).unwrap();
        assert_eq!(name.to_string(), "31msame-host(memcpy)31msame-host");
        let name: PathName = crate::decode(&crate::encode(&PathName::from("wire")).unwrap()).unwrap();
        assert_eq!(name, "wire".into());
    }

    /// Counters of the maximum length.
    fn most<T: serde::de::DeserializeOwned>(fields: usize) -> T {
        let field = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        crate::decode(&field.repeat(fields)).unwrap()
    }

    /// Pages of the maximum length.
    fn full() -> (CountersPage, ObjectsPage) {
        let device: DeviceCounters = most(DeviceCounters::default().values().count());
        let path = PathName::from("p".repeat(PATH_NAME_BYTES_MAX).as_str());
        let qp = QpInfo {
            device: u32::MAX,
            qpn: u32::MAX,
            dest_qpn: Some(u32::MAX),
            qp_type: 255,
            state: 255,
            rq_psn: u32::MAX,
            sq_psn: u32::MAX,
            peer: Some([255; 16]),
            path: path.clone(),
            posted_sends: u64::MAX,
            posted_recvs: u64::MAX,
            round_trip_ns: u64::MAX,
            counters: most(QpCounters::default().values().count()),
        };
        let objects =
            DeviceObjects { device: u32::MAX, paths: vec![(path, u32::MAX); PATHS_MAX], ..DeviceObjects::default() };
        (
            CountersPage {
                devices: vec![(u32::MAX, device); LEDGER_DEVICES_MAX],
                process: most(ProcessCounters::default().values().count()),
            },
            ObjectsPage { devices: vec![objects; LEDGER_DEVICES_MAX], qps: vec![qp; LEDGER_QPS_MAX] },
        )
    }

    #[test]
    fn the_fullest_pages_fit() {
        let (counters, objects) = full();
        let file = weft_sys::memory::sealed_file("test", LEDGER_BYTES).unwrap();
        let mut ledger = Ledger::new(&file).unwrap();
        ledger.write(Page::Counters, &counters).unwrap();
        ledger.write(Page::Objects, &objects).unwrap();
        assert_eq!(read_page::<CountersPage>(&file, Page::Counters), Some(counters.clone()));
        assert_eq!(read_page::<ObjectsPage>(&file, Page::Objects), Some(objects.clone()));
        let stat =
            DeviceStat { device: u32::MAX, counters: counters.devices[0].1, objects: objects.devices[0].clone() };
        let report = StatReport {
            devices: vec![stat; STAT_DEVICES_PER_PAGE],
            more: true,
            process: counters.process,
            processes: u32::MAX,
        };
        assert!(crate::encode(&crate::Response::Stat(report)).is_ok());
        let page = QpPage {
            client: u64::MAX,
            host: "h".repeat(HOST_NAME_BYTES_MAX),
            totals: counters.devices[0].1,
            pid: u32::MAX,
            comm: "c".repeat(PROGRAM_NAME_BYTES_MAX),
            qps: vec![objects.qps[0].clone(); QPS_PER_PAGE],
            untold: u32::MAX,
            next: Some(QpCursor { client: u64::MAX, skip: u32::MAX }),
        };
        assert!(crate::encode(&crate::Response::Qps(Box::new(page))).is_ok());
        let node = "n".repeat(HOST_NAME_BYTES_MAX);
        let port = FabricPort {
            node: node.clone(),
            port: u8::MAX,
            peer: Some(PortName { node, port: u8::MAX }),
            state: u8::MAX,
            lid: u16::MAX,
            rate_tenths: u32::MAX,
            counters: most(PortCounters::default().values().count()),
        };
        let next = Some(PortCursor { node: u32::MAX, port: u8::MAX });
        let ports = FabricReply::Ports { ports: vec![port; FABRIC_PORTS_PER_PAGE], next };
        assert!(crate::encode(&crate::Response::Fabric(ports)).is_ok());
    }
}
