//! The batch as the destination of one FPDU.

use weft_iwarp::FpduSink;

use crate::frame::HostRange;
use crate::{Env, Memory};

use super::batch::StreamBatch;

/// Payload of an FPDU.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    /// Bytes at hand: inline data.
    Bytes(&'a [u8]),
    /// Registered memory, to be named.
    Memory(&'a [HostRange]),
    /// Registered memory that others may write to meanwhile: the FPDU and its CRC come from one copy.
    Copied(&'a [HostRange]),
}

/// Bytes of memory that a CRC covers at a time: a copy in the first-level cache.
const CHUNK: usize = 4096;

/// The batch, with the payload of one FPDU.
pub(super) struct Sink<'a, E> {
    pub batch: &'a mut StreamBatch,
    pub source: Source<'a>,
    pub env: &'a mut E,
}

impl<E: Env> FpduSink for Sink<'_, E> {
    fn control(&mut self, bytes: &[u8]) {
        self.batch.bytes(bytes);
    }

    fn payload(&mut self, from: u32, len: u32) {
        match self.source {
            Source::Bytes(bytes) => {
                let range = from as usize..from as usize + len as usize;
                self.batch.bytes(bytes.get(range).unwrap_or_default());
            }
            Source::Memory(pieces) => {
                cut(pieces, from.into(), len.into()).for_each(|part| self.batch.host(part.addr, part.len as u32));
            }
            Source::Copied(pieces) => {
                for part in cut(pieces, from.into(), len.into()) {
                    self.batch.copy(self.env.memory(), part.addr, part.len as u32);
                }
            }
        }
    }

    fn checksum(&mut self, crc: u32, from: u32, len: u32) -> u32 {
        match self.source {
            Source::Bytes(bytes) => {
                let range = from as usize..from as usize + len as usize;
                crc32c::crc32c_append(crc, bytes.get(range).unwrap_or_default())
            }
            Source::Memory(pieces) => {
                let parts = cut(pieces, from.into(), len.into());
                parts.fold(crc, |crc, part| of_memory(crc, part, self.env.memory()))
            }
            // The copy was appended last.
            Source::Copied(_) => crc32c::crc32c_append(crc, self.batch.last(len as usize)),
        }
    }
}

/// Continues a CRC over a range of memory.
fn of_memory(crc: u32, range: HostRange, memory: &impl Memory) -> u32 {
    let mut chunk = [0; CHUNK];
    let (mut sum, mut at) = (crc, 0);
    while at < range.len {
        let len = (range.len - at).min(CHUNK as u64) as usize;
        memory.read(range.addr.wrapping_add(at), &mut chunk[..len]);
        sum = crc32c::crc32c_append(sum, &chunk[..len]);
        at += len as u64;
    }
    sum
}

/// Returns the parts of some host ranges that hold bytes `from .. from + len`.
fn cut(pieces: &[HostRange], from: u64, len: u64) -> impl Iterator<Item = HostRange> + '_ {
    let (mut at, end) = (0, from + len);
    pieces.iter().filter_map(move |piece| {
        let (start, stop) = (at, at + piece.len);
        at = stop;
        let (low, high) = (start.max(from), stop.min(end));
        (low < high).then(|| HostRange { addr: piece.addr.wrapping_add(low - start), len: high - low })
    })
}
