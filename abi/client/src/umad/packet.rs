//! The buffer that carries a management datagram through the library: `struct ib_user_mad`, then the datagram.

use super::Library;

/// Byte offsets of the head's fields.
const STATUS: usize = 4;
const QPN: usize = 20;
const QKEY: usize = 24;
const LID: usize = 28;
const SL: usize = 30;
const PATH_BITS: usize = 31;
const GRH_PRESENT: usize = 32;
const GID_INDEX: usize = 33;
const HOP_LIMIT: usize = 34;
const TRAFFIC_CLASS: usize = 35;
const GID: usize = 36;
const FLOW_LABEL: usize = 52;
const PKEY_INDEX: usize = 56;
/// Largest head of any library.
const HEAD_MAX: usize = 64;
/// Alignment of the head.
const ALIGN: usize = 8;

/// Destination or source of a datagram, in host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// Queue pair: 0 or 1.
    pub qpn: u32,
    /// Q_Key of queue pair 1.
    pub qkey: u32,
    /// LID; 0xffff for a directed route that starts here.
    pub lid: u16,
    /// Service level.
    pub sl: u8,
    /// Low bits of the source LID.
    pub path_bits: u8,
    /// Row of the P_Key table.
    pub pkey_index: u16,
    /// The global route, if the packet has a GRH.
    pub grh: Option<Grh>,
}

/// A global route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grh {
    /// GID of the peer.
    pub gid: [u8; 16],
    /// Row of the local GID table.
    pub gid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label.
    pub flow_label: u32,
}

/// A buffer for a datagram and its head.
#[derive(Debug)]
pub struct Packet {
    bytes: Vec<u8>,
    /// Offset of the head in `bytes`, which aligns it.
    start: usize,
    /// Bytes of the head, as the library reports.
    head: usize,
    /// Bytes of the datagram.
    len: usize,
}

impl Packet {
    /// A buffer for a datagram of `len` bytes, all zero.
    pub fn new(library: Library, len: usize) -> Packet {
        // SAFETY: the call takes nothing.
        let head = unsafe { (library.calls.umad_size)() }.min(HEAD_MAX);
        let bytes = vec![0u8; HEAD_MAX + ALIGN + len];
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        Packet { bytes, start, head, len }
    }

    /// The received part of the datagram.
    pub fn mad(&self) -> &[u8] {
        &self.bytes[self.start + self.head..][..self.len]
    }

    /// The datagram.
    pub fn mad_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start + self.head..][..self.len]
    }

    /// Head and datagram, for a dump of the whole buffer.
    pub fn whole(&self) -> &[u8] {
        &self.bytes[self.start..][..self.head + self.len]
    }

    /// Outcome of the transaction: 0, or an errno.
    pub fn status(&self) -> i32 {
        i32::from_ne_bytes(self.part(STATUS))
    }

    /// Destination or source.
    pub fn address(&self) -> Address {
        let grh = Grh {
            gid: self.part(GID),
            gid_index: self.part::<1>(GID_INDEX)[0],
            hop_limit: self.part::<1>(HOP_LIMIT)[0],
            traffic_class: self.part::<1>(TRAFFIC_CLASS)[0],
            flow_label: u32::from_be_bytes(self.part(FLOW_LABEL)),
        };
        Address {
            qpn: u32::from_be_bytes(self.part(QPN)),
            qkey: u32::from_be_bytes(self.part(QKEY)),
            lid: u16::from_be_bytes(self.part(LID)),
            sl: self.part::<1>(SL)[0],
            path_bits: self.part::<1>(PATH_BITS)[0],
            pkey_index: if self.head > PKEY_INDEX { u16::from_ne_bytes(self.part(PKEY_INDEX)) } else { 0 },
            grh: (self.part::<1>(GRH_PRESENT)[0] != 0).then_some(grh),
        }
    }

    /// Sets the destination.
    pub fn set_address(&mut self, to: &Address) {
        let grh = to.grh.unwrap_or_default();
        self.put(QPN, &to.qpn.to_be_bytes());
        self.put(QKEY, &to.qkey.to_be_bytes());
        self.put(LID, &to.lid.to_be_bytes());
        self.put(SL, &[to.sl, to.path_bits, u8::from(to.grh.is_some()), grh.gid_index]);
        self.put(HOP_LIMIT, &[grh.hop_limit, grh.traffic_class]);
        self.put(GID, &grh.gid);
        self.put(FLOW_LABEL, &grh.flow_label.to_be_bytes());
        if self.head > PKEY_INDEX {
            self.put(PKEY_INDEX, &to.pkey_index.to_ne_bytes());
        }
    }

    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut part = [0; N];
        part.copy_from_slice(&self.bytes[self.start + at..][..N]);
        part
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[self.start + at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Address of the head and length of the datagram, for a call.
    pub(super) fn raw(&mut self) -> (*mut u8, usize) {
        (self.bytes[self.start..].as_mut_ptr(), self.len)
    }

    /// Makes room for a datagram of `len` bytes; the old content is lost.
    pub(super) fn grow(&mut self, len: usize) {
        self.bytes = vec![0u8; HEAD_MAX + ALIGN + len];
        self.start = self.bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        self.len = len;
    }

    /// Makes room for a datagram of `len` bytes, in place if possible; the old content is undefined.
    pub fn resize(&mut self, len: usize) {
        if self.start + self.head + len <= self.bytes.len() {
            self.len = len;
        } else {
            self.grow(len);
        }
    }

    /// Sets the length of a received datagram, up to the size of the buffer.
    pub(super) fn shorten(&mut self, len: usize) {
        self.len = len.min(self.bytes.len() - self.start - self.head);
    }
}
