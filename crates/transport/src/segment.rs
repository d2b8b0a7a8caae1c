//! Splits a message into packets, and a scatter/gather list into pieces: finds the bytes of each packet in registered
//! memory.

use smallvec::SmallVec;
use weft_verbs::{PdId, Sge, WcStatus};
use weft_wire::Headers;
use weft_wire::Kind;
use weft_wire::ext::{Ieth, ImmDt, Reth, XrcEth};

use crate::frame::{HostRange, Outgoing};
use crate::sge_list::parts;
use crate::sq::Wqe;
use crate::{Env, Memory, TxBatch};

/// Pieces of one packet's payload.
pub(crate) type Pieces = SmallVec<[HostRange; 4]>;

/// Returns the number of packets of a message: a message of no bytes is one packet of no bytes.
pub(crate) fn packets(length: u64, mtu: u32) -> u64 {
    length.div_ceil(u64::from(mtu)).max(1)
}

/// Checks every element of a list.
pub(crate) fn check<E: Env>(env: &E, pd: PdId, sges: &[Sge], write: bool) -> Result<(), WcStatus> {
    for sge in sges.iter().filter(|s| s.length != 0) {
        env.local(pd, sge, write)?;
    }
    Ok(())
}

/// Finds the source memory of one packet. Keys are checked now, because a region may have gone since.
pub(crate) fn gather<E: Env>(env: &E, pd: PdId, sges: &[Sge], offset: u64, len: u32) -> Result<Pieces, WcStatus> {
    let mut pieces = Pieces::new();
    for part in parts(sges, offset, u64::from(len)) {
        pieces.push(HostRange { addr: env.local(pd, &part, false)?, len: part.length.into() });
    }
    Ok(pieces)
}

/// Stores `data` at `offset` of the message that a list receives.
#[inline]
pub(crate) fn scatter<E: Env>(env: &mut E, pd: PdId, sges: &[Sge], offset: u64, data: &[u8]) -> Result<(), WcStatus> {
    scatter_by(env, pd, sges, offset, data, E::Memory::write)
}

/// As [`scatter`], for bytes of a datagram.
pub(crate) fn scatter_datagram<E: Env>(
    env: &mut E,
    pd: PdId,
    sges: &[Sge],
    offset: u64,
    data: &[u8],
) -> Result<(), WcStatus> {
    scatter_by(env, pd, sges, offset, data, E::Memory::write_datagram)
}

#[inline]
fn scatter_by<E: Env>(
    env: &mut E,
    pd: PdId,
    sges: &[Sge],
    offset: u64,
    data: &[u8],
    write: impl Fn(&mut E::Memory, u64, &[u8]),
) -> Result<(), WcStatus> {
    let mut rest = data;
    for part in parts(sges, offset, data.len() as u64) {
        let addr = env.local(pd, &part, true)?;
        let (now, later) = rest.split_at(part.length as usize);
        write(env.memory(), addr, now);
        rest = later;
    }
    if rest.is_empty() { Ok(()) } else { Err(WcStatus::LocLenErr) }
}

/// Payload of one packet, checked and ready for a batch.
pub(crate) enum Payload {
    /// Bytes of the work request's inline buffer.
    Inline(std::ops::Range<usize>),
    /// Registered memory.
    Pieces(Pieces),
}

impl Payload {
    /// Returns the payload of a SEND or WRITE packet.
    pub fn of<E: Env>(env: &E, pd: PdId, wqe: &Wqe, offset: u64, len: u32) -> Result<Payload, WcStatus> {
        if wqe.is_inline() {
            let start = offset as usize;
            return Ok(Payload::Inline(start..start + len as usize));
        }
        // A fault further on in the list is found before its first packet leaves: the fault is local, and the peer must
        // not answer half a message first.
        if offset == 0 && u64::from(len) < wqe.length {
            check(env, pd, &wqe.sges, false)?;
        }
        gather(env, pd, &wqe.sges, offset, len).map(Payload::Pieces)
    }

    /// Returns its source.
    pub fn source<'a>(&'a self, wqe: &'a Wqe) -> Outgoing<'a> {
        match self {
            Payload::Inline(range) => Outgoing::Bytes(wqe.inline.get(range.clone()).unwrap_or_default()),
            Payload::Pieces(pieces) => Outgoing::Memory(pieces),
        }
    }

    /// Adds it to the packet begun last.
    pub fn add(&self, wqe: &Wqe, tx: &mut TxBatch) {
        match self {
            Payload::Inline(range) => tx.bytes(wqe.inline.get(range.clone()).unwrap_or_default()),
            Payload::Pieces(pieces) => {
                for &HostRange { addr, len } in pieces {
                    tx.piece(addr, len as u32);
                }
            }
        }
    }
}

/// One packet of a SEND or WRITE.
pub(crate) struct Segment {
    pub kind: Kind,
    pub ext: Headers,
    pub offset: u64,
    pub len: u32,
    pub last: bool,
}

impl Segment {
    /// Returns packet number `n` of a SEND or WRITE message.
    pub fn of(wqe: &Wqe, n: u64, mtu: u32, xrc: bool) -> Segment {
        let offset = n * u64::from(mtu);
        let len = wqe.length.saturating_sub(offset).min(u64::from(mtu)) as u32;
        let first = n == 0;
        let last = offset + u64::from(len) >= wqe.length;
        let (kind, ext) = shape(wqe, first, last, xrc);
        Segment { kind, ext, offset, len, last }
    }
}

/// Returns kind and extended headers of a packet of a SEND or WRITE.
#[inline]
fn shape(wqe: &Wqe, first: bool, last: bool, xrc: bool) -> (Kind, Headers) {
    let op = &wqe.op;
    let mut ext = Headers { xrceth: xrc.then(|| XrcEth::new(wqe.srqn)), ..Headers::default() };
    if first && let Some(to) = op.target() {
        ext.reth = Some(Reth::new(to.addr, to.rkey, wqe.length as u32));
    }
    if last {
        ext.imm = op.imm().map(|imm| ImmDt::new(u32::from_be(imm)));
        ext.ieth = op.invalidates().map(Ieth::new);
    }
    let kind = op.info().packets.map_or(Kind::SendOnly, |packets| packets.kind(op.extra(), first, last));
    (kind, ext)
}

#[cfg(test)]
mod tests {
    use weft_verbs::SendOp;

    use super::*;

    #[test]
    fn a_message_of_no_bytes_is_a_packet() {
        assert_eq!(packets(0, 256), 1);
        assert_eq!(packets(256, 256), 1);
        assert_eq!(packets(257, 256), 2);
        assert_eq!(packets(1 << 31, 256), 1 << 23);
        let wqe = Wqe::default();
        let s = Segment::of(&wqe, 0, 1024, false);
        assert_eq!((s.kind, s.len, s.last), (Kind::SendOnly, 0, true));
    }

    #[test]
    fn first_middle_last() {
        let mut wqe = Wqe { length: 2049, ..Wqe::default() };
        wqe.op = SendOp::SendImm(0x0102_0304_u32.to_be());
        let kinds: Vec<_> = (0..3).map(|n| Segment::of(&wqe, n, 1024, false)).collect();
        assert_eq!(kinds[0].kind, Kind::SendFirst);
        assert_eq!(kinds[1].kind, Kind::SendMiddle);
        assert_eq!((kinds[2].kind, kinds[2].len), (Kind::SendLastImm, 1));
        assert_eq!(kinds[2].ext.imm.unwrap().value(), 0x0102_0304);
        assert!(kinds[0].ext.imm.is_none());
    }
}
