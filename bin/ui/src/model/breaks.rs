//! Connections that broke, and why: what the counters of a device and of its queue pairs say about it.

use std::collections::VecDeque;

use serde::Serialize;
use weft_ipc::stat::{DeviceCounters, QpInfo, QpPage};
use weft_tool::queue_pair::address;

use super::report::MachineReport;
use crate::limits::BREAKS_MAX;

/// `enum ibv_qp_state`: error.
const STATE_ERROR: u8 = 6;

/// A connection that broke.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Break {
    /// Time in milliseconds since 1970.
    pub at: u64,
    /// Name of the device.
    pub device: String,
    /// Virtual host; empty for the machine.
    pub host: String,
    /// Process ID; 0 if it is not known.
    pub pid: u32,
    /// Name of the program.
    pub comm: String,
    /// Queue pair, if one in the error state was there.
    pub qpn: Option<u32>,
    /// Address of the peer.
    pub peer: String,
    /// Reason.
    pub why: String,
}

impl Break {
    /// Returns a sentence about it.
    pub fn text(&self) -> String {
        let program = if self.comm.is_empty() {
            "a program that ended".to_owned()
        } else {
            format!("{} ({})", self.comm, self.pid)
        };
        let peer = if self.peer.is_empty() { String::new() } else { format!(" to {}", self.peer) };
        let host = if self.host.is_empty() { String::new() } else { format!("{}: ", self.host) };
        format!("{host}{program} lost a connection{peer} on {}: {}", self.device, self.why)
    }
}

/// Counters of failed requests, each with the reason that it stands for. The first that rose is the reason.
type Reason = (fn(&DeviceCounters) -> u64, &'static str);
const REASONS: [Reason; 6] = [
    (|c| c.retry_exceeded_err, "the peer did not answer, and every retry was used (transport retry counter exceeded)"),
    (|c| c.retry_rnr_exceeded_err, "the peer had no receive posted, and every RNR retry was used"),
    (|c| c.bad_pkey, "packets came with the wrong partition key"),
    (|c| c.qkey_violations, "datagrams came with the wrong Q_Key"),
    (
        |c| c.send_err,
        "the peer refused a request (wrong key, address, length or operation), or the local memory was wrong",
    ),
    (|c| c.cqe_errors, "a request completed with an error"),
];

/// The last breaks.
#[derive(Debug, Default)]
pub struct Breaks {
    list: VecDeque<Break>,
}

impl Breaks {
    /// Finds the connections that broke between two reports.
    pub fn between(&mut self, last: &MachineReport, now: &MachineReport) -> Vec<Break> {
        let mut found = Vec::new();
        for (device, host) in &now.devices {
            let counters = |report: &MachineReport| {
                report.stat.devices.iter().find(|row| row.device == device.index).map(|row| row.counters)
            };
            let (Some(after), before) = (counters(now), counters(last).unwrap_or_default()) else { continue };
            let Some((_, why)) = REASONS.iter().find(|(field, _)| field(&after) > field(&before)) else { continue };
            let culprit = culprit(last, now, device.index);
            let qp = culprit.and_then(|page| failed(page, device.index));
            found.push(Break {
                at: now.at_ms,
                device: device.name.clone(),
                host: host.clone(),
                pid: culprit.map_or(0, |page| page.pid),
                comm: culprit.map(|page| page.comm.clone()).unwrap_or_default(),
                qpn: qp.map(|qp| qp.qpn),
                peer: qp.and_then(|qp| qp.peer).map(address).unwrap_or_default(),
                why: (*why).to_owned(),
            });
        }
        for new in &found {
            if self.list.len() == BREAKS_MAX {
                self.list.pop_back();
            }
            self.list.push_front(new.clone());
        }
        found
    }

    /// Returns the last ones, the newest first.
    pub fn list(&self) -> &VecDeque<Break> {
        &self.list
    }
}

/// Returns the process whose requests failed: its own counters rose, or it ended since the last report.
fn culprit<'a>(last: &'a MachineReport, now: &'a MachineReport, device: u32) -> Option<&'a QpPage> {
    let before =
        |client| last.pages.iter().find(|page| page.client == client).map(|page| page.totals).unwrap_or_default();
    let rose = |page: &&QpPage| {
        let before = before(page.client);
        page.client != 0 && REASONS.iter().any(|(field, _)| field(&page.totals) > field(&before))
    };
    let ended = |page: &&QpPage| {
        page.qps.iter().any(|qp| qp.device == device) && now.pages.iter().all(|other| other.client != page.client)
    };
    now.pages.iter().find(rose).or_else(|| last.pages.iter().find(ended))
}

/// Returns a queue pair of the process in the error state, else its first connected one.
fn failed(page: &QpPage, device: u32) -> Option<&QpInfo> {
    let own = || page.qps.iter().filter(move |qp| qp.device == device);
    own().find(|qp| qp.state == STATE_ERROR).or_else(|| own().find(|qp| qp.peer.is_some()))
}

#[cfg(test)]
mod tests {
    use super::super::report::testing::report;
    use super::*;
    use weft_ipc::stat::DeviceStat;
    use weft_ipc::{DeviceInfo, PhysState, PortState};

    fn device() -> DeviceInfo {
        DeviceInfo {
            index: 0,
            name: "rxe0".to_owned(),
            kind: "rxe".to_owned(),
            node_guid: 1,
            netdev: "eth0".to_owned(),
            ifindex: 2,
            mac: [0; 6],
            netdev_mtu: 1500,
            active_mtu: 1024,
            state: PortState::Active,
            phys_state: PhysState::LinkUp,
            gids: Vec::new(),
            pkeys: vec![0xffff],
            link_speed_mbps: None,
            auto: true,
            infiniband: None,
        }
    }

    fn with(at_ms: u64, state: u8, counters: DeviceCounters, alive: bool) -> MachineReport {
        let mut report = report(at_ms, 0, state);
        report.devices = vec![(device(), String::new())];
        report.stat.devices = vec![DeviceStat { device: 0, counters, ..DeviceStat::default() }];
        if alive {
            report.pages[0].totals = counters
        } else {
            report.pages.clear()
        }
        report
    }

    #[test]
    fn the_counter_that_rose_is_the_reason() {
        let none = DeviceCounters::default();
        let retries = DeviceCounters { retry_exceeded_err: 1, cqe_errors: 1, ..none };
        let mut breaks = Breaks::default();
        assert!(breaks.between(&with(1, 3, none, true), &with(2, 3, none, true)).is_empty());
        let found = breaks.between(&with(1, 3, none, true), &with(2, 6, retries, true));
        assert_eq!((found[0].pid, found[0].qpn, found[0].peer.as_str()), (4242, Some(17), "10.77.0.2"));
        assert!(
            found[0]
                .text()
                .starts_with("ib_write_bw (4242) lost a connection to 10.77.0.2 on rxe0: the peer did not answer")
        );
        let rnr = DeviceCounters { retry_rnr_exceeded_err: 1, ..retries };
        let found = breaks.between(&with(2, 6, retries, true), &with(3, 6, rnr, false));
        assert!(
            found[0].text().contains("ib_write_bw (4242)") && found[0].why.contains("no receive posted"),
            "{found:?}"
        );
        assert_eq!(breaks.list().len(), 2);
        for number in 1..100 {
            let more = |count| DeviceCounters { send_err: count, ..none };
            breaks.between(&with(1, 3, more(number), true), &with(2, 6, more(number + 1), true));
        }
        assert_eq!(breaks.list().len(), BREAKS_MAX);
    }
}
