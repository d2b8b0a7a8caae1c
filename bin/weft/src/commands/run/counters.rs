//! The counters of a port, by their sysfs names, and the source of each.

use std::collections::BTreeMap;

use weft_ipc::stat::{DeviceCounters, StatReport};
use weft_ipc::umad::IbCounters;

use crate::commands::stat::{RXE_COUNTERS, value_of};

/// Port counters of a virtual host's adapters, by device index and port number.
pub type PortCounters = BTreeMap<(u32, u8), IbCounters>;

/// Reads a counter's value from the device's counters.
type Source = fn(&DeviceCounters) -> u64;

/// The InfiniBand counters of a port (`ports/1/counters`). Those without a source are always zero: their events do not
/// happen here.
const COUNTERS: [(&str, Option<Source>); 21] = [
    ("VL15_dropped", None),
    ("excessive_buffer_overrun_errors", None),
    ("link_downed", Some(|c| c.link_downed)),
    ("link_error_recovery", None),
    ("local_link_integrity_errors", None),
    ("multicast_rcv_packets", Some(|c| c.multicast_rcvd_pkts)),
    ("multicast_xmit_packets", Some(|c| c.multicast_sent_pkts)),
    ("port_rcv_constraint_errors", Some(|c| c.bad_pkey)),
    // In units of four bytes (IBA 16.1.3.5).
    ("port_rcv_data", Some(|c| c.rcvd_bytes / 4)),
    ("port_rcv_errors", Some(|c| c.bad_qpn.saturating_add(c.bad_pkey).saturating_add(c.bad_address))),
    ("port_rcv_packets", Some(|c| c.rcvd_pkts)),
    ("port_rcv_remote_physical_errors", None),
    ("port_rcv_switch_relay_errors", None),
    ("port_xmit_constraint_errors", None),
    ("port_xmit_data", Some(|c| c.sent_bytes / 4)),
    ("port_xmit_discards", None),
    ("port_xmit_packets", Some(|c| c.sent_pkts)),
    ("port_xmit_wait", None),
    ("symbol_error", None),
    ("unicast_rcv_packets", Some(|c| c.rcvd_pkts.saturating_sub(c.multicast_rcvd_pkts))),
    ("unicast_xmit_packets", Some(|c| c.sent_pkts.saturating_sub(c.multicast_sent_pkts))),
];

/// A counter of a device's port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counter {
    device: u32,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// A counter in `ports/1/counters`, by its index in [`COUNTERS`].
    Port(usize),
    /// A counter in `ports/1/hw_counters`, by its name.
    Rxe(&'static str),
}

/// All counters of a device's port.
pub fn all(device: u32) -> impl Iterator<Item = Counter> {
    let port = (0..COUNTERS.len()).map(Place::Port);
    port.chain(RXE_COUNTERS.into_iter().map(Place::Rxe)).map(move |place| Counter { device, place })
}

impl Counter {
    /// The path below the port's directory.
    pub fn path(&self) -> String {
        match self.place {
            Place::Port(index) => format!("counters/{}", COUNTERS[index].0),
            Place::Rxe(name) => format!("hw_counters/{name}"),
        }
    }

    /// Whether the value can differ from zero.
    pub fn moves(&self) -> bool {
        match self.place {
            Place::Port(index) => COUNTERS[index].1.is_some(),
            Place::Rxe(_) => true,
        }
    }

    /// The value in a report.
    pub fn value(&self, report: &StatReport) -> u64 {
        let Some(stat) = report.devices.iter().find(|stat| stat.device == self.device) else { return 0 };
        match self.place {
            Place::Port(index) => COUNTERS[index].1.map_or(0, |source| source(&stat.counters)),
            Place::Rxe(name) => value_of(&stat.counters, name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_ipc::stat::DeviceStat;

    #[test]
    fn counters_have_values_and_units() {
        let counters = DeviceCounters {
            sent_bytes: 4000,
            sent_pkts: 10,
            multicast_sent_pkts: 3,
            rdma_sends: 7,
            ..DeviceCounters::default()
        };
        let stat = DeviceStat { device: 2, counters, ..DeviceStat::default() };
        let report = StatReport { devices: vec![stat], ..StatReport::default() };
        let of = |path: &str| all(2).find(|counter| counter.path() == path).unwrap().value(&report);
        assert_eq!(of("counters/port_xmit_data"), 1000);
        assert_eq!(of("counters/unicast_xmit_packets"), 7);
        assert_eq!(of("counters/symbol_error"), 0);
        assert_eq!(of("hw_counters/rdma_sends"), 7);
        assert!(all(3).all(|counter| counter.value(&report) == 0), "another device");
    }
}
