//! Base Transport Header (IBA 9.2):
//!
//! ```text
//!  0                   1                   2                   3
//! |    opcode     |S|M|Pad| TVer  |          partition key        |
//! |F|B|  reserved |            destination queue pair             |
//! |A|   reserved  |            packet sequence number             |
//! ```

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::opcode::header;
use crate::{Opcode, Psn};

/// Base Transport Header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Bth {
    opcode: u8,
    flags: u8,
    pkey: U16,
    dest: U32,
    psn: U32,
}

const _: () = assert!(size_of::<Bth>() == Bth::LEN);

impl Bth {
    /// Length in bytes.
    pub const LEN: usize = header::BTH_LEN;

    /// Creates a header with the given opcode, P_Key, destination and PSN. All flag bits are clear except MigReq, which
    /// a sender without path migration keeps set (IBA 17.2.8: "migrated").
    pub fn new(opcode: Opcode, pkey: u16, dest_qp: u32, psn: Psn) -> Bth {
        Bth {
            opcode: opcode.0,
            flags: 0x40,
            pkey: pkey.into(),
            dest: (dest_qp & Psn::MASK).into(),
            psn: psn.value().into(),
        }
    }

    /// Opcode.
    pub fn opcode(&self) -> Opcode {
        Opcode(self.opcode)
    }
    /// Solicited event bit.
    pub fn solicited(&self) -> bool {
        self.flags & 0x80 != 0
    }
    /// Migration state bit.
    pub fn mig_req(&self) -> bool {
        self.flags & 0x40 != 0
    }
    /// Bytes of padding after the payload.
    pub fn pad_count(&self) -> usize {
        usize::from(self.flags >> 4 & 3)
    }
    /// Transport header version, 0.
    pub fn tver(&self) -> u8 {
        self.flags & 0x0f
    }
    /// Partition key.
    pub fn pkey(&self) -> u16 {
        self.pkey.get()
    }
    /// Forward congestion bit.
    pub fn fecn(&self) -> bool {
        self.dest.get() >> 31 != 0
    }
    /// Backward congestion bit.
    pub fn becn(&self) -> bool {
        self.dest.get() >> 30 & 1 != 0
    }
    /// Destination queue pair number.
    pub fn dest_qp(&self) -> u32 {
        self.dest.get() & Psn::MASK
    }
    /// Whether the sender requests an acknowledgement.
    pub fn ack_req(&self) -> bool {
        self.psn.get() >> 31 != 0
    }
    /// Packet sequence number.
    pub fn psn(&self) -> Psn {
        Psn::new(self.psn.get())
    }
    /// Sets the solicited event bit.
    pub fn set_solicited(&mut self, on: bool) {
        self.flags = self.flags & 0x7f | u8::from(on) << 7;
    }
    /// Sets the migration state bit.
    pub fn set_mig_req(&mut self, on: bool) {
        self.flags = self.flags & 0xbf | u8::from(on) << 6;
    }
    /// Sets the pad count, 0..=3.
    pub fn set_pad_count(&mut self, pad: usize) {
        self.flags = self.flags & 0xcf | ((pad & 3) as u8) << 4;
    }
    /// Requests an acknowledgement.
    pub fn set_ack_req(&mut self, on: bool) {
        self.psn = (self.psn.get() & 0x7fff_ffff | u32::from(on) << 31).into();
    }
    /// Sets the congestion bits.
    pub fn set_congestion(&mut self, fecn: bool, becn: bool) {
        self.dest = (self.dest.get() & 0x3fff_ffff | u32::from(fecn) << 31 | u32::from(becn) << 30).into();
    }
}
