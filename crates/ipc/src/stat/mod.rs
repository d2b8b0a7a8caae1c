//! Counters and objects of processes: a process writes them to its ledger (`ledger.rs`), and the daemon reads them
//! there and adds them up. Counters have Linux's names (rxe, iproute2's `rdma statistic`) where it has one.

mod ledger;

use serde::{Deserialize, Serialize};

pub use ledger::{LEDGER_BYTES, Ledger, Page, read_page};

use crate::limits::{PATH_NAME_BYTES_MAX, PATHS_MAX};

/// Defines a structure of counters, with access to all of them by name, their descriptions, and their sums.
macro_rules! counters {
    ($(#[$outer:meta])* $name:ident { $(#[doc = $meaning:literal] $field:ident,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        pub struct $name {
            $(#[doc = $meaning] pub $field: u64,)*
        }

        impl $name {
            /// Returns all counters by name, in display order.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }

            /// Each counter's name and a sentence about its meaning, in display order.
            pub const MEANINGS: &[(&str, &str)] = &[$((stringify!($field), $meaning.trim_ascii())),*];

            /// Adds untrusted counters: a sum that would overflow saturates.
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
        /// Acknowledgements deferred because of a full queue.
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
        /// Packets that the queue pair dropped as senseless.
        dropped_pkts,
        /// Datagrams with a wrong Q_Key.
        qkey_violations,
        /// Packets for a queue pair that does not exist.
        bad_qpn,
        /// Packets of another partition.
        bad_pkey,
        /// Packets from or to an unexpected address.
        bad_address,
        /// Completions.
        cqes,
        /// Completions with an error, flushed ones not included.
        cqe_errors,
        /// Completions of flushed work requests.
        cqe_flushes,
        /// Completion events raised.
        cq_events,
        /// Payload bytes sent in packets.
        wire_bytes_sent,
        /// Payload bytes received in packets.
        wire_bytes_rcvd,
        /// Direct copies on shared pages.
        memcpy_ops,
        /// Bytes of these copies.
        memcpy_bytes,
        /// Direct copies by the kernel.
        process_vm_ops,
        /// Bytes of these copies.
        process_vm_bytes,
        /// Frames put into rings (shared-memory rings) to processes of the host.
        ring_frames_sent,
        /// Payload bytes of these frames.
        ring_bytes_sent,
        /// Frames taken out of rings.
        ring_frames_rcvd,
        /// Payload bytes of these frames.
        ring_bytes_rcvd,
        /// Frames put into rings again, because the peer had no receive posted for an earlier one.
        ring_frames_resent,
        /// Frames dropped because an earlier one found no receive posted; the peer sends them again.
        ring_frames_skipped,
    }
}

counters! {
    /// Counters of a process that belong to no single device.
    ProcessCounters {
        /// Packets dropped for a wrong ICRC.
        icrc_errors,
        /// Packets dropped that are not RoCE.
        malformed,
        /// Packets dropped that belong to another process and arrived merged with this process's packets.
        misrouted,
        /// Packets that the kernel refused to send.
        tx_refused,
        /// Packets lost because their destination's address did not resolve.
        tx_unresolved,
        /// Packets lost because their payload was no longer mapped.
        tx_unmapped,
        /// Packets delayed because a socket was full.
        tx_delayed,
        /// Packets lost because the queue of delayed packets was full.
        tx_overflowed,
        /// Messages handed to the kernel with the packets sent; one system call may take several.
        tx_messages,
        /// Messages from the kernel with the packets received.
        rx_messages,
        /// Times that the background thread woke.
        wakeups,
        /// Times that a completion channel was notified.
        channel_wakeups,
        /// Polls of completion queues.
        polls,
        /// Of these, polls that found nothing and ran the progress loop.
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
        /// Packets dropped as senseless.
        dropped_pkts,
        /// Direct copies on shared pages.
        memcpy_ops,
        /// Bytes of these copies.
        memcpy_bytes,
        /// Direct copies by the kernel.
        process_vm_ops,
        /// Bytes of these copies.
        process_vm_bytes,
        /// Frames put into the ring (shared-memory ring).
        ring_frames_sent,
        /// Payload bytes of these frames.
        ring_bytes_sent,
        /// Frames taken out of the ring.
        ring_frames_rcvd,
        /// Payload bytes of these frames.
        ring_bytes_rcvd,
        /// Frames put into rings again, because the peer had no receive posted for an earlier one.
        ring_frames_resent,
        /// Frames dropped because an earlier one found no receive posted; the peer sends them again.
        ring_frames_skipped,
    }
}

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

    /// Pages of the maximum length.
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
            pid: u32::MAX,
            comm: "c".repeat(PROGRAM_NAME_BYTES_MAX),
            qps: vec![objects.qps[0].clone(); QPS_PER_PAGE],
            untold: u32::MAX,
            next: Some(QpCursor { client: u64::MAX, skip: u32::MAX }),
        };
        assert!(crate::encode(&crate::Response::Qps(page)).is_ok());
    }
}
