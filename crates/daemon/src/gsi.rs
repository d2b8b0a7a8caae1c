//! The general services interface, queue pair 1 of every device: the sockets of slot 0, and a packet socket where that is
//! allowed, read and written as RoCE v2 and v1. Each GMP that comes is checked whole (ICRC, opcode, queue pair, Q_Key,
//! partition, an address of ours); what does not hold is dropped and counted, and nothing is ever answered here.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};

use weft_ipc::{DeviceInfo, GsiStatus};
use weft_link::wrap::pcap::Capture;
use weft_link::{FaultSpec, Stack, StackConfig};
use weft_mad::{GmpAddress, MadBytes};
use weft_transport::{RxPacket, TxBatch};
use weft_verbs::{AddressVector, Gid, GidType, Instant};
use weft_wire::Psn;
use weft_wire::mad::{GSI_QPN, Gmp, Mad};

/// Bits of a P_Key that name the partition; the top bit tells full members from limited ones.
const PKEY_MASK: u16 = 0x7fff;

/// A row of a GID table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    device: u32,
    sgid_index: u8,
    ifindex: u32,
    gid_type: GidType,
}

/// Which device and row an address is.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    rows: BTreeMap<[u8; 16], Vec<Row>>,
    pkeys: BTreeMap<u32, Vec<u16>>,
}

impl Directory {
    /// Of these devices.
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

    /// The row of an address for such framing, on the interface that a packet came by if there is one: addresses of a
    /// link may be on many, and packets from this host itself come by the loopback whatever their address. A frame of RoCE
    /// v1 that came by an interface must be for that one: the host's IP, which would have dropped what is for 127.0.0.1 or
    /// for another network, has not seen it.
    fn find(&self, gid: Gid, gid_type: GidType, ifindex: u32) -> Option<Row> {
        let rows = || self.rows.get(&gid.0).into_iter().flatten().filter(|row| row.gid_type == gid_type);
        let anywhere = gid_type == GidType::RoceV2 || ifindex == 0;
        rows().find(|row| row.ifindex == ifindex).or(rows().next().filter(|_| anywhere)).copied()
    }

    fn has_partition(&self, device: u32, pkey: u16) -> bool {
        let own = self.pkeys.get(&device).map(Vec::as_slice).unwrap_or_default();
        // Two limited members of a partition do not talk to each other.
        own.iter().any(|own| (own ^ pkey) & PKEY_MASK == 0 && (own | pkey) & !PKEY_MASK != 0)
    }
}

/// What the interface counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    received: u64,
    sent: u64,
    not_gmp: u64,
    foreign: u64,
}

/// The interface.
#[derive(Debug)]
pub struct Gsi {
    stack: Stack,
    batch: TxBatch,
    psn: Psn,
    counts: Counts,
}

impl Gsi {
    /// On the sockets of slot 0.
    pub fn new(v4: Option<OwnedFd>, v6: Option<OwnedFd>, fault: FaultSpec, capture: Option<Capture>) -> Gsi {
        let entropy = weft_sys::random::u64();
        let ether = weft_sys::packet::are_allowed();
        let stack = Stack::new(StackConfig { v4, v6, slot: 0, entropy, fault, capture, ether, hops: None });
        let psn = Psn::new(weft_sys::random::u64() as u32);
        Gsi { stack, batch: TxBatch::default(), psn, counts: Counts::default() }
    }

    /// What becomes readable when packets wait.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.stack.v4(), self.stack.v6(), self.stack.ether()].into_iter().flatten()
    }

    /// Takes some of what waits; there may be more.
    pub fn receive(&mut self, now: Instant, directory: &Directory, sink: &mut dyn FnMut(GmpAddress, &Gmp)) {
        let Gsi { stack, counts, .. } = self;
        stack.receive(now, true, &mut |rx| admit(counts, directory, rx, sink));
    }

    /// When [`Gsi::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.stack.poll_timeout()
    }

    /// Does what is due: packets that waited leave, packets that were held back on purpose come.
    pub fn handle_timeout(&mut self, now: Instant, directory: &Directory, sink: &mut dyn FnMut(GmpAddress, &Gmp)) {
        let Gsi { stack, counts, .. } = self;
        stack.handle_timeout(now, &mut |rx| admit(counts, directory, rx, sink));
    }

    /// Whether another datagram may be put into the batch now.
    pub fn has_room(&self) -> bool {
        self.batch.has_room() && !self.stack.is_blocked()
    }

    /// Adds a datagram to what [`Gsi::flush`] sends.
    pub fn send(&mut self, to: &GmpAddress, mad: &MadBytes) {
        let Some(mad) = Mad::parse(mad) else { return };
        let gmp = Gmp { pkey: to.pkey, psn: self.psn, src_qp: GSI_QPN, mad };
        self.psn = self.psn.next();
        self.batch.begin(address_vector(to), to.remote_qpn, GSI_QPN, gmp.headers().as_slice());
        self.batch.bytes(gmp.payload());
        self.counts.sent += 1;
    }

    /// Sends what was added.
    pub fn flush(&mut self, now: Instant) {
        if !self.batch.packets.is_empty() {
            self.stack.send(now, &self.batch);
            self.batch.clear();
        }
    }

    /// What it counted.
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

/// The datagram of a packet, and where it is from, if it is one for us.
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
