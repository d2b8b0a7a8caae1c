//! The batch as the destination of one FPDU.

use weft_iwarp::FpduSink;

use crate::Env;
use crate::frame::HostRange;

use super::batch::StreamBatch;

/// Payload of an FPDU.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    /// Bytes at hand: inline data.
    Bytes(&'a [u8]),
    /// Registered memory, to be named. It has no CRC.
    Memory(&'a [HostRange]),
    /// Registered memory that others may write to meanwhile: the FPDU and its CRC come from one copy.
    Copied(&'a [HostRange]),
}

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
            // The bytes sent may be others than those read here.
            Source::Memory(_) => {
                debug_assert!(false, "a CRC over memory that is not copied");
                crc
            }
            // The copy was appended last.
            Source::Copied(_) => crc32c::crc32c_append(crc, self.batch.last(len as usize)),
        }
    }
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
