//! What processes count and hold, on its way to whoever asks: a process writes it to its ledger (`ledger.rs`), the daemon reads it
//! there and adds it up. Names of counters are Linux's (rxe, iproute2's `rdma statistic`) where it has one.

mod ledger;

use serde::{Deserialize, Serialize};

pub use ledger::{LEDGER_BYTES, Ledger, Page, read_page};

use crate::limits::{PATH_NAME_BYTES_MAX, PATHS_MAX};

/// A structure of counters: all of them by name, and their sums.
macro_rules! counters {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $field:ident,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$inner])* pub $field: u64,)*
        }

        impl $name {
            /// All of them by name, in the order in which they are shown.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }

            /// Add what a stranger says it counted: a sum that has no room stays at its end.
            pub fn add(&mut self, other: &$name) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }
        }
    };
}

counters! {
    /// Counters of a device, those of its queue pairs included.
    DeviceCounters {
        /// Packets sent.
        sent_pkts,
        /// Packets received.
        rcvd_pkts,
        /// Bytes sent in packets, BTH to ICRC.
        sent_bytes,
        /// Bytes received in packets, BTH to ICRC.
        rcvd_bytes,
        /// Packets sent to multicast groups.
        multicast_sent_pkts,
        /// Packets received that were sent to multicast groups.
        multicast_rcvd_pkts,
        /// Requests that arrived again.
        duplicate_request,
        /// Requests that arrived out of order.
        out_of_seq_request,
        /// RNR NAKs received.
        rcvd_rnr_err,
        /// RNR NAKs sent.
        send_rnr_err,
        /// PSN sequence error NAKs received.
        rcvd_seq_err,
        /// PSN sequence error NAKs sent.
        send_seq_err,
        /// Acknowledgements put off for want of room.
        ack_deferred,
        /// Work requests that failed after every retry.
        retry_exceeded_err,
        /// Work requests that failed after every RNR retry.
        retry_rnr_exceeded_err,
        /// Times that a retry timer ran out.
        completer_retry_err,
        /// Work requests that failed otherwise.
        send_err,
        /// Times that the port went down.
        link_downed,
        /// SENDs completed.
        rdma_sends,
        /// Receives completed.
        rdma_recvs,
        /// Packets sent again.
        retransmitted_pkts,
        /// Tail-loss probes sent.
        probes,
        /// Gaps in responses.
        implied_nak_seq_err,
        /// Packets that made no sense to their queue pair.
        dropped_pkts,
        /// Datagrams with a wrong Q_Key.
        qkey_violations,
        /// Packets for a queue pair that does not exist.
        bad_qpn,
        /// Packets of another partition.
        bad_pkey,
        /// Packets from, or to, an address that is not the one expected.
        bad_address,
        /// Completions.
        cqes,
        /// Completions with an error, the flushed ones aside.
        cqe_errors,
        /// Completions of flushed work.
        cqe_flushes,
        /// Completion events raised.
        cq_events,
        /// Payload bytes sent in packets.
        wire_bytes_sent,
        /// Payload bytes received in packets.
        wire_bytes_rcvd,
        /// Direct copies within the host, on shared pages.
        memcpy_ops,
        /// Their bytes.
        memcpy_bytes,
        /// Direct copies within the host, by the kernel.
        process_vm_ops,
        /// Their bytes.
        process_vm_bytes,
        /// Frames put into lanes to processes of the host.
        lane_frames_sent,
        /// Their payload.
        lane_bytes_sent,
        /// Frames taken out of lanes.
        lane_frames_rcvd,
        /// Their payload.
        lane_bytes_rcvd,
        /// Frames put into lanes again, because the peer had no receive posted for an earlier one.
        lane_frames_resent,
        /// Frames dropped because an earlier one found no receive posted; the peer sends them again.
        lane_frames_skipped,
    }
}

counters! {
    /// Counters of a process, whichever of its devices it was about.
    ProcessCounters {
        /// Packets dropped for a wrong ICRC.
        icrc_errors,
        /// Packets dropped that are no RoCE.
        malformed,
        /// Packets dropped that belong to another process and came merged with ours.
        misrouted,
        /// Packets that the kernel would not send.
        tx_refused,
        /// Packets lost because nobody answered for their destination.
        tx_unresolved,
        /// Packets lost because their payload was no longer mapped.
        tx_unmapped,
        /// Packets that waited because a socket was full.
        tx_delayed,
        /// Packets lost because too many waited.
        tx_overflowed,
        /// Messages that carried the packets sent, one or more in a system call.
        tx_messages,
        /// Messages that brought the packets received.
        rx_messages,
        /// Times that the background thread woke.
        wakeups,
        /// Times that a completion channel was rung.
        channel_wakeups,
        /// Polls of completion queues.
        polls,
        /// Of these, polls that found nothing and turned the pump.
        poll_turns,
        /// Lists of work posted to send queues.
        posts,
    }
}

counters! {
    /// Counters of a queue pair.
    QpCounters {
        /// Packets sent.
        sent_pkts,
        /// Packets received.
        rcvd_pkts,
        /// Payload bytes sent in packets.
        wire_bytes_sent,
        /// Payload bytes received in packets.
        wire_bytes_rcvd,
        /// Packets sent again.
        retransmitted_pkts,
        /// Times that the retry timer ran out.
        completer_retry_err,
        /// RNR NAKs received.
        rcvd_rnr_err,
        /// RNR NAKs sent.
        send_rnr_err,
        /// PSN sequence error NAKs received.
        rcvd_seq_err,
        /// Requests that arrived out of order.
        out_of_seq_request,
        /// Requests that arrived again.
        duplicate_request,
        /// Packets that made no sense.
        dropped_pkts,
        /// Direct copies on shared pages.
        memcpy_ops,
        /// Their bytes.
        memcpy_bytes,
        /// Direct copies by the kernel.
        process_vm_ops,
        /// Their bytes.
        process_vm_bytes,
        /// Frames put into the lane.
        lane_frames_sent,
        /// Their payload.
        lane_bytes_sent,
        /// Frames taken out of the lane.
        lane_frames_rcvd,
        /// Their payload.
        lane_bytes_rcvd,
        /// Frames put into lanes again, because the peer had no receive posted for an earlier one.
        lane_frames_resent,
        /// Frames dropped because an earlier one found no receive posted; the peer sends them again.
        lane_frames_skipped,
    }
}

/// What a process counted: the ledger's first page.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CountersPage {
    /// Device by device; those without a count are left out.
    pub devices: Vec<(u32, DeviceCounters)>,
    /// What belongs to no device.
    pub process: ProcessCounters,
}

/// What a process holds: the ledger's second page.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ObjectsPage {
    /// Device by device; those without an object are left out.
    pub devices: Vec<DeviceObjects>,
    /// Queue pairs, as many as there is room for.
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
    /// How many of its connected queue pairs take which path.
    pub paths: Vec<(PathName, u32)>,
}

impl DeviceObjects {
    /// Add another process's.
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

/// A queue pair as `weft qp` shows it. Numbers are those of libibverbs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct QpInfo {
    /// Its device.
    pub device: u32,
    /// Its number.
    pub qpn: u32,
    /// Its peer's number, for connected kinds.
    pub dest_qpn: Option<u32>,
    /// `enum ib_qp_type`.
    pub qp_type: u8,
    /// `enum ibv_qp_state`.
    pub state: u8,
    /// First PSN that it expects, for connected kinds.
    pub rq_psn: u32,
    /// First PSN that it sends.
    pub sq_psn: u32,
    /// The peer's address, for connected kinds.
    pub peer: Option<[u8; 16]>,
    /// The way to the peer.
    pub path: PathName,
    /// What it counted.
    pub counters: QpCounters,
}

/// The name of a path, `wire` or `same-host(memcpy)`: letters, digits and a little punctuation, whoever wrote it.
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

/// A device as the daemon adds it up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceStat {
    /// The device.
    pub device: u32,
    /// Counters of all processes, the dead ones' included.
    pub counters: DeviceCounters,
    /// Objects of the living.
    pub objects: DeviceObjects,
}

/// A page of what the daemon added up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StatReport {
    /// Devices in the order of enumeration, a page of them.
    pub devices: Vec<DeviceStat>,
    /// Whether more follow.
    pub more: bool,
    /// Counters of all processes, the dead ones' included.
    pub process: ProcessCounters,
    /// Processes that have a device open.
    pub processes: u32,
}

/// Where a list of queue pairs goes on: the process by the daemon's number of it, and how many of its queue pairs to
/// pass over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct QpCursor {
    /// The process.
    pub client: u64,
    /// Queue pairs.
    pub skip: u32,
}

/// Queue pairs of one process, a page of them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct QpPage {
    /// The process, 0 if the daemon cannot see it.
    pub pid: u32,
    /// Its name, as it gave it.
    pub comm: String,
    /// The queue pairs.
    pub qps: Vec<QpInfo>,
    /// Queue pairs of this process that it had no room to tell of; told with the last page of it.
    pub untold: u32,
    /// Where to go on.
    pub next: Option<QpCursor>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::*;

    #[test]
    fn sums_stay_at_their_end() {
        let mut sum = DeviceCounters { sent_pkts: u64::MAX - 1, ..DeviceCounters::default() };
        sum.add(&DeviceCounters { sent_pkts: 5, cqes: 2, ..DeviceCounters::default() });
        assert_eq!((sum.sent_pkts, sum.cqes), (u64::MAX, 2));
        assert_eq!(sum.values().next(), Some(("sent_pkts", u64::MAX)));
    }

    #[test]
    fn a_path_has_a_harmless_name_whoever_gave_it() {
        let bytes = crate::encode(&"\u{1b}[31m same-host(memcpy)\n".repeat(9)).unwrap();
        let name: PathName = crate::decode(&bytes).unwrap();
        assert_eq!(name.to_string(), "31msame-host(memcpy)31msame-host");
        let name: PathName = crate::decode(&crate::encode(&PathName::from("wire")).unwrap()).unwrap();
        assert_eq!(name, "wire".into());
    }

    /// The longest that there can be of each.
    fn full() -> (CountersPage, ObjectsPage) {
        fn most<T: serde::de::DeserializeOwned>(fields: usize) -> T {
            let field = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
            crate::decode(&field.repeat(fields)).unwrap()
        }
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
        let mut ledger = Ledger::new(weft_sys::memory::sealed_file("test", LEDGER_BYTES).unwrap());
        ledger.write(Page::Counters, &counters).unwrap();
        ledger.write(Page::Objects, &objects).unwrap();
        assert_eq!(read_page::<CountersPage>(ledger.file(), Page::Counters), Some(counters.clone()));
        assert_eq!(read_page::<ObjectsPage>(ledger.file(), Page::Objects), Some(objects.clone()));
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
            pid: u32::MAX,
            comm: "c".repeat(PROGRAM_NAME_BYTES_MAX),
            qps: vec![objects.qps[0].clone(); QPS_PER_PAGE],
            untold: u32::MAX,
            next: Some(QpCursor { client: u64::MAX, skip: u32::MAX }),
        };
        assert!(crate::encode(&crate::Response::Qps(page)).is_ok());
    }
}
