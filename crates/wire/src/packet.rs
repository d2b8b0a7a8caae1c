//! A packet from its BTH to its ICRC: parsed without copying, written without allocating. Reader and writer walk the
//! same list of extended headers, from the opcode table.

use zerocopy::{FromBytes, IntoBytes};

use crate::aeth::Aeth;
use crate::bth::Bth;
use crate::ext::{AtomicAckEth, AtomicEth, Deth, Feth, Ieth, ImmDt, Rdeth, Reth, XrcEth};
use crate::opcode::{Opcode, OpcodeInfo, header};

/// Length of the invariant CRC in bytes.
pub const ICRC_LEN: usize = 4;
/// Maximum length of BTH and extended headers in the table, rounded up.
pub const HEADERS_MAX: usize = 64;

/// Reason why bytes are not a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// Fewer bytes than the headers take.
    Short,
    /// An opcode that the table lacks.
    UnknownOpcode(u8),
    /// A transport version other than 0.
    Version(u8),
    /// Padding is longer than the bytes after the headers, or present where no payload is allowed.
    Padding,
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WireError::Short => f.write_str("packet shorter than its headers"),
            WireError::UnknownOpcode(op) => write!(f, "unknown opcode 0x{op:02x}"),
            WireError::Version(v) => write!(f, "transport version {v}, want 0"),
            WireError::Padding => f.write_str("padding does not fit the packet"),
        }
    }
}

impl std::error::Error for WireError {}

/// The extended headers of a packet; those that the opcode requires are set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // Each field is the header of that name.
pub struct Headers {
    pub xrceth: Option<XrcEth>,
    pub rdeth: Option<Rdeth>,
    pub deth: Option<Deth>,
    pub feth: Option<Feth>,
    pub reth: Option<Reth>,
    pub atomic: Option<AtomicEth>,
    pub aeth: Option<Aeth>,
    pub atomic_ack: Option<AtomicAckEth>,
    pub imm: Option<ImmDt>,
    pub ieth: Option<Ieth>,
}

/// A parsed packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// Base transport header.
    pub bth: Bth,
    /// The opcode's row.
    pub info: &'static OpcodeInfo,
    /// Extended headers.
    pub ext: Headers,
    /// Payload without padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses the bytes from BTH to ICRC inclusive. Does not check the ICRC: see [`crate::icrc`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, WireError> {
        let (bth, rest) = Bth::read_from_prefix(bytes).map_err(|_| WireError::Short)?;
        let info = bth.opcode().info().ok_or(WireError::UnknownOpcode(bth.opcode().0))?;
        if bth.tver() != 0 {
            return Err(WireError::Version(bth.tver()));
        }
        let body = rest.len().checked_sub(ICRC_LEN).ok_or(WireError::Short)?;
        let (ext, payload) = Headers::parse(info.headers, &rest[..body])?;
        let pad = bth.pad_count();
        if payload.len() < pad || (!info.payload && !payload.is_empty()) {
            return Err(WireError::Padding);
        }
        Ok(Packet { bth, info, ext, payload: &payload[..payload.len() - pad] })
    }

    /// Returns the ICRC at the end of a packet's bytes.
    pub fn icrc(bytes: &[u8]) -> Option<u32> {
        bytes.last_chunk::<4>().map(|b| u32::from_le_bytes(*b))
    }
}

fn take<T: FromBytes>(present: bool, bytes: &mut &[u8]) -> Result<Option<T>, WireError> {
    if !present {
        return Ok(None);
    }
    let (value, rest) = T::read_from_prefix(bytes).map_err(|_| WireError::Short)?;
    *bytes = rest;
    Ok(Some(value))
}

impl Headers {
    #[inline]
    fn parse(set: u16, bytes: &[u8]) -> Result<(Headers, &[u8]), WireError> {
        let mut rest = bytes;
        if set == 0 {
            return Ok((Headers::default(), rest));
        }
        let r = &mut rest;
        let ext = Headers {
            xrceth: take(set & header::XRCETH != 0, r)?,
            rdeth: take(set & header::RDETH != 0, r)?,
            deth: take(set & header::DETH != 0, r)?,
            feth: take(set & header::FETH != 0, r)?,
            reth: take(set & header::RETH != 0, r)?,
            atomic: take(set & header::ATOMIC != 0, r)?,
            aeth: take(set & header::AETH != 0, r)?,
            atomic_ack: take(set & header::ATOMIC_ACK != 0, r)?,
            imm: take(set & header::IMM != 0, r)?,
            ieth: take(set & header::IETH != 0, r)?,
        };
        Ok((ext, rest))
    }
}

/// A stack buffer to which the transmit path writes headers one after the other.
#[derive(Clone, Copy, Debug)]
pub struct HeaderBuf {
    bytes: [u8; HEADERS_MAX],
    len: usize,
}

impl HeaderBuf {
    /// Writes the BTH and those extended headers of `ext` that the opcode requires; a missing one is written as zeros,
    /// so that the length is always the table's. `payload_len` sets the pad count.
    #[inline]
    pub fn write(mut bth: Bth, ext: &Headers, payload_len: usize) -> HeaderBuf {
        bth.set_pad_count(pad_for(payload_len));
        let mut buf = HeaderBuf { bytes: [0; HEADERS_MAX], len: 0 };
        buf.put(bth.as_bytes());
        let set = bth.opcode().info().map_or(0, |i| i.headers);
        if set != 0 {
            buf.extended(set, ext);
        }
        buf
    }

    fn extended(&mut self, set: u16, ext: &Headers) {
        let mut each = |bit: u16, bytes: Option<&[u8]>, len: usize| {
            if set & bit != 0 {
                match bytes {
                    Some(b) => self.put(b),
                    None => self.len += len,
                }
            }
        };
        each(header::XRCETH, ext.xrceth.as_ref().map(|h| h.as_bytes()), 4);
        each(header::RDETH, ext.rdeth.as_ref().map(|h| h.as_bytes()), 4);
        each(header::DETH, ext.deth.as_ref().map(|h| h.as_bytes()), 8);
        each(header::FETH, ext.feth.as_ref().map(|h| h.as_bytes()), 4);
        each(header::RETH, ext.reth.as_ref().map(|h| h.as_bytes()), 16);
        each(header::ATOMIC, ext.atomic.as_ref().map(|h| h.as_bytes()), 28);
        each(header::AETH, ext.aeth.as_ref().map(|h| h.as_bytes()), 4);
        each(header::ATOMIC_ACK, ext.atomic_ack.as_ref().map(|h| h.as_bytes()), 8);
        each(header::IMM, ext.imm.as_ref().map(|h| h.as_bytes()), 4);
        each(header::IETH, ext.ieth.as_ref().map(|h| h.as_bytes()), 4);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Returns the written headers.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Returns the number of pad bytes that bring a payload to a multiple of four (IBA 9.2.4).
pub const fn pad_for(payload_len: usize) -> usize {
    payload_len.wrapping_neg() & 3
}

/// Returns the opcode of a packet with arbitrary bytes, for counters and logs.
pub fn peek_opcode(bytes: &[u8]) -> Option<Opcode> {
    bytes.first().map(|b| Opcode(*b))
}
