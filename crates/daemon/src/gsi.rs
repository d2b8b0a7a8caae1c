//! The general services interface, queue pair 1 of every device: the sockets of slot 0, and a packet socket if that is
//! allowed, read and written as RoCE v2 and v1. It checks each incoming GMP completely (ICRC, opcode, queue pair,
//! Q_Key, partition, a local destination address), drops and counts those that fail, and answers nothing itself.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};

use weft_ipc::{DeviceInfo, GsiStatus};
use weft_link::wrap::pcap::Capture;
use weft_link::{FaultPlan, Stack, StackConfig};
use weft_mad::{GmpAddress, MadBytes};
use weft_transport::{RxPacket, TxBatch};
use weft_verbs::{AddressVector, Gid, GidType, Instant};
use weft_wire::Psn;
use weft_wire::mad::{GSI_QPN, Gmp, Mad};

/// Bits of a P_Key that name the partition; the top bit distinguishes full members from limited ones.
const PKEY_MASK: u16 = 0x7fff;

/// A row of a GID table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    device: u32,
    sgid_index: u8,
    ifindex: u32,
    gid_type: GidType,
}

/// Map from addresses to devices and rows.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    rows: BTreeMap<[u8; 16], Vec<Row>>,
    pkeys: BTreeMap<u32, Vec<u16>>,
}

impl Directory {
    /// Builds the map from these devices.
    pub fn new(devices: &[DeviceInfo]) -> Directory {
        let mut directory = Directory::default();
        for device in devices {
            directory.pkeys.insert(device.index, device.pkeys.clone());
            for entry in &device.gids {
                let Ok(sgid_index) = u8::try_from(entry.index) else { continue };
                let gid_type = match entry.gid_type {
                    weft_ipc::GidType::RoceV1 => GidType::IbOrRoceV1,
                    weft_ipc::GidType::RoceV2 => GidType::RoceV2,
                };
                let row = Row { device: device.index, sgid_index, ifindex: entry.ifindex, gid_type };
                directory.rows.entry(entry.gid).or_default().push(row);
            }
        }
        directory
    }

    /// Returns the row of an address for such framing, on the interface that a packet arrived on if there is one.
    /// Several links may have the same link-local address, and packets from this host itself arrive on the loopback
    /// whatever their address. A RoCE v1 frame that arrived on an interface must be for that interface: the host's IP
    /// layer, which would have dropped frames for 127.0.0.1 or another network, has not seen it.
    fn find(&self, gid: Gid, gid_type: GidType, ifindex: u32) -> Option<Row> {
        let rows = || self.rows.get(&gid.0).into_iter().flatten().filter(|row| row.gid_type == gid_type);
        let anywhere = gid_type == GidType::RoceV2 || ifindex == 0;
        rows().find(|row| row.ifindex == ifindex).or(rows().next().filter(|_| anywhere)).copied()
    }

    fn has_partition(&self, device: u32, pkey: u16) -> bool {
        let own = self.pkeys.get(&device).map(Vec::as_slice).unwrap_or_default();
        // Two limited members of a partition may not communicate.
        own.iter().any(|own| (own ^ pkey) & PKEY_MASK == 0 && (own | pkey) & !PKEY_MASK != 0)
    }
}

/// Counters of the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    received: u64,
    sent: u64,
    not_gmp: u64,
    foreign: u64,
}

/// The general services interface.
#[derive(Debug)]
pub struct Gsi {
    stack: Stack,
    batch: TxBatch,
    psn: Psn,
    counts: Counts,
}

impl Gsi {
    /// Makes it on the sockets of slot 0.
    pub fn new(v4: Option<OwnedFd>, v6: Option<OwnedFd>, plan: &FaultPlan, capture: Option<Capture>) -> Gsi {
        let entropy = weft_sys::random::u64();
        let ether = weft_sys::packet::are_allowed();
        let faults = plan.packets.clone();
        let stack = Stack::new(StackConfig { v4, v6, slot: 0, entropy, faults, capture, ether, hops: None });
        let psn = Psn::new(weft_sys::random::u64() as u32);
        Gsi { stack, batch: TxBatch::default(), psn, counts: Counts::default() }
    }

    /// Returns the descriptors that become readable when packets wait.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.stack.v4(), self.stack.v6(), self.stack.ether()].into_iter().flatten()
    }

    /// Reads some of the waiting packets; there may be more.
    pub fn receive(&mut self, now: Instant, directory: &Directory, sink: &mut dyn FnMut(GmpAddress, &Gmp)) {
        let Gsi { stack, counts, .. } = self;
        stack.receive(now, true, &mut |rx| admit(counts, directory, rx, sink));
    }

    /// Returns when [`Gsi::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.stack.poll_timeout()
    }

    /// Does what is due: delayed packets leave, and packets held back by faults arrive.
    pub fn handle_timeout(&mut self, now: Instant, directory: &Directory, sink: &mut dyn FnMut(GmpAddress, &Gmp)) {
        let Gsi { stack, counts, .. } = self;
        stack.handle_timeout(now, &mut |rx| admit(counts, directory, rx, sink));
    }

    /// Returns whether the batch has room for another datagram.
    pub fn has_room(&self) -> bool {
        self.batch.has_room() && !self.stack.is_blocked()
    }

    /// Adds a datagram to the batch that [`Gsi::flush`] sends.
    pub fn send(&mut self, to: &GmpAddress, mad: &MadBytes) {
        let Some(mad) = Mad::parse(mad) else { return };
        let gmp = Gmp { pkey: to.pkey, psn: self.psn, src_qp: GSI_QPN, mad };
        self.psn = self.psn.next();
        self.batch.begin(address_vector(to), to.remote_qpn, GSI_QPN, gmp.headers().as_slice());
        self.batch.bytes(gmp.payload());
        self.counts.sent += 1;
    }

    /// Sends the batch.
    pub fn flush(&mut self, now: Instant) {
        if !self.batch.packets.is_empty() {
            self.stack.send(now, &self.batch);
            self.batch.clear();
        }
    }

    /// Returns its counters.
    pub fn status(&self) -> GsiStatus {
        let link = self.stack.stats();
        GsiStatus {
            received: self.counts.received,
            sent: self.counts.sent,
            malformed: link.rx_malformed + link.rx_misrouted,
            icrc_errors: link.rx_icrc_errors,
            not_gmp: self.counts.not_gmp,
            foreign: self.counts.foreign,
            unsendable: link.tx_refused + link.tx_overflowed,
        }
    }
}

/// Passes on the datagram of a packet, and its source, if it is valid and for this host.
fn admit(counts: &mut Counts, directory: &Directory, rx: &RxPacket<'_>, sink: &mut dyn FnMut(GmpAddress, &Gmp)) {
    let Ok(gmp) = Gmp::from_packet(&rx.packet) else {
        counts.not_gmp += 1;
        return;
    };
    let row =
        directory.find(rx.dgid, rx.gid_type, rx.ifindex).filter(|row| directory.has_partition(row.device, gmp.pkey));
    let Some(row) = row else {
        counts.foreign += 1;
        return;
    };
    counts.received += 1;
    let from = GmpAddress {
        device: row.device,
        port: 1,
        sgid_index: row.sgid_index,
        sgid: rx.dgid,
        gid_type: rx.gid_type,
        dgid: rx.sgid,
        dlid: 0,
        remote_qpn: gmp.src_qp,
        pkey: gmp.pkey,
        sl: 0,
        traffic_class: rx.traffic_class,
        flow_label: 0,
        hop_limit: 0,
        ifindex: row.ifindex,
    };
    sink(from, &gmp);
}

fn address_vector(to: &GmpAddress) -> AddressVector {
    AddressVector {
        sgid: to.sgid,
        sgid_index: to.sgid_index,
        dgid: to.dgid,
        flow_label: to.flow_label,
        hop_limit: to.hop_limit,
        traffic_class: to.traffic_class,
        sl: to.sl,
        port_num: to.port,
        dlid: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: true,
        ifindex: to.ifindex,
        gid_type: to.gid_type,
    }
}

#[cfg(test)]
mod tests;
