//! Chunks and their lists (RFC 8166 §3.4, §4.3):
//!
//! ```text
//!   RDMA segment  | handle 4 | length 4 | offset 8 |
//!   read list     { 1 | position 4 | segment }* 0            segments of one position are one chunk
//!   write list    { 1 | count 4 | segment * count }* 0       one chunk for each result
//!   reply chunk   1 | count 4 | segment * count, or 0
//! ```

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::malformed::Malformed;
use super::xdr::XdrReader;
use crate::limits::{CHUNK_SEGMENTS_MAX, MESSAGE_MAX_BYTES, READ_SEGMENTS_MAX, WRITE_CHUNKS_MAX};

const WORD: usize = 4;
const SEGMENT_LEN: usize = 16;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WireSegment {
    handle: U32,
    length: U32,
    offset: U64,
}

const _: () = assert!(size_of::<WireSegment>() == SEGMENT_LEN);

/// Registered memory of a requester (RFC 8166 §3.4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// R_Key, or STag.
    pub handle: u32,
    /// Bytes.
    pub length: u32,
    /// Address of the first byte.
    pub offset: u64,
}

impl Segment {
    fn parse(xdr: &mut XdrReader<'_>) -> Result<Segment, Malformed> {
        let mut word = || xdr.u32().ok_or(Malformed::Cut);
        let (handle, length) = (word()?, word()?);
        Ok(Segment { handle, length, offset: xdr.u64().ok_or(Malformed::Cut)? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let wire = WireSegment { handle: self.handle.into(), length: self.length.into(), offset: self.offset.into() };
        out.extend_from_slice(wire.as_bytes());
    }
}

/// RDMA segment of a read list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadSegment {
    /// Offset of the chunk in the RPC message before its reduction, in bytes. Zero: the chunk is the whole message.
    pub position: u32,
    /// The memory that the responder reads.
    pub segment: Segment,
}

/// Write chunk or reply chunk: memory that the responder writes, one segment after the other. Without segments it asks
/// the responder to leave the result inline.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chunk {
    /// The segments, in their order.
    pub segments: Vec<Segment>,
}

impl Chunk {
    /// Returns the bytes of all segments.
    pub fn len(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.length)).sum()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the chunk as a reply returns it: each length is the number of bytes written (RFC 8166 §4.3.2).
    pub(crate) fn with_written(&self, mut bytes: usize) -> Chunk {
        let written = |segment: &Segment| {
            let length = segment.length.min(u32::try_from(bytes).unwrap_or(u32::MAX));
            bytes -= length as usize;
            Segment { length, ..*segment }
        };
        Chunk { segments: self.segments.iter().map(written).collect() }
    }

    fn parse(xdr: &mut XdrReader<'_>) -> Result<Chunk, Malformed> {
        let count = xdr.u32().ok_or(Malformed::Cut)?;
        if count as usize > CHUNK_SEGMENTS_MAX {
            return Err(Malformed::Segments);
        }
        let segments = (0..count).map(|_| Segment::parse(xdr)).collect::<Result<Vec<_>, _>>()?;
        let chunk = Chunk { segments };
        if chunk.len() > MESSAGE_MAX_BYTES as u64 { Err(Malformed::Bytes) } else { Ok(chunk) }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.segments.len() as u32).to_be_bytes());
        self.segments.iter().for_each(|segment| segment.write(out));
    }

    fn wire_len(&self) -> usize {
        WORD + self.segments.len() * SEGMENT_LEN
    }
}

/// The three chunk lists of a header (RFC 8166 §4.3).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChunkLists {
    /// Read list: arguments that the responder reads.
    pub reads: Vec<ReadSegment>,
    /// Write list: one chunk for each result.
    pub writes: Vec<Chunk>,
    /// Reply chunk: memory for the whole reply.
    pub reply: Option<Chunk>,
}

impl ChunkLists {
    /// Whether all three are empty.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.reply.is_none()
    }

    /// Returns all segments: of the read list, the write list and the reply chunk.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        let written = self.writes.iter().chain(&self.reply).flat_map(|chunk| &chunk.segments);
        self.reads.iter().map(|read| &read.segment).chain(written)
    }

    pub(super) fn parse(xdr: &mut XdrReader<'_>) -> Result<ChunkLists, Malformed> {
        let mut lists = ChunkLists { reads: parse_reads(xdr)?, ..ChunkLists::default() };
        while present(xdr)? {
            if lists.writes.len() == WRITE_CHUNKS_MAX {
                return Err(Malformed::Chunks);
            }
            lists.writes.push(Chunk::parse(xdr)?);
        }
        if present(xdr)? {
            lists.reply = Some(Chunk::parse(xdr)?);
        }
        Ok(lists)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        const PRESENT: [u8; WORD] = [0, 0, 0, 1];
        const ABSENT: [u8; WORD] = [0; WORD];
        for read in &self.reads {
            out.extend_from_slice(&PRESENT);
            out.extend_from_slice(&read.position.to_be_bytes());
            read.segment.write(out);
        }
        out.extend_from_slice(&ABSENT);
        for chunk in &self.writes {
            out.extend_from_slice(&PRESENT);
            chunk.write(out);
        }
        out.extend_from_slice(&ABSENT);
        out.extend_from_slice(if self.reply.is_some() { &PRESENT } else { &ABSENT });
        self.reply.iter().for_each(|chunk| chunk.write(out));
    }

    /// Returns the bytes of the lists in a header.
    pub(super) fn wire_len(&self) -> usize {
        let reads = self.reads.len() * (2 * WORD + SEGMENT_LEN);
        let writes: usize = self.writes.iter().map(|chunk| WORD + chunk.wire_len()).sum();
        reads + writes + self.reply.as_ref().map_or(0, Chunk::wire_len) + 3 * WORD
    }
}

fn parse_reads(xdr: &mut XdrReader<'_>) -> Result<Vec<ReadSegment>, Malformed> {
    let (mut reads, mut bytes) = (Vec::new(), 0);
    while present(xdr)? {
        if reads.len() == READ_SEGMENTS_MAX {
            return Err(Malformed::Segments);
        }
        let position = xdr.u32().ok_or(Malformed::Cut)?;
        let segment = Segment::parse(xdr)?;
        bytes += u64::from(segment.length);
        if bytes > MESSAGE_MAX_BYTES as u64 {
            return Err(Malformed::Bytes);
        }
        reads.push(ReadSegment { position, segment });
    }
    Ok(reads)
}

fn present(xdr: &mut XdrReader<'_>) -> Result<bool, Malformed> {
    xdr.bool().ok_or(Malformed::Cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(length: u32) -> Segment {
        Segment { handle: 7, length, offset: 0x1000 }
    }

    #[test]
    fn lengths_returned_are_those_written_in_the_order_of_the_segments() {
        let chunk = Chunk { segments: vec![segment(10), segment(20), segment(5)] };
        let lengths = |bytes| chunk.with_written(bytes).segments.iter().map(|s| s.length).collect::<Vec<_>>();
        assert_eq!(lengths(0), [0, 0, 0]);
        assert_eq!(lengths(13), [10, 3, 0]);
        assert_eq!(lengths(35), [10, 20, 5]);
    }

    #[test]
    fn each_limit_has_its_refusal() {
        let parsed = |lists: &ChunkLists| {
            let mut out = Vec::new();
            lists.write(&mut out);
            assert_eq!(out.len(), lists.wire_len());
            ChunkLists::parse(&mut XdrReader::new(&out)).map(drop)
        };
        let read = |length| ReadSegment { position: 4, segment: segment(length) };
        let reads = |count, length| ChunkLists { reads: vec![read(length); count], ..ChunkLists::default() };
        assert_eq!(parsed(&reads(READ_SEGMENTS_MAX, 1)), Ok(()));
        assert_eq!(parsed(&reads(READ_SEGMENTS_MAX + 1, 1)), Err(Malformed::Segments));
        assert_eq!(parsed(&reads(2, u32::MAX)), Err(Malformed::Bytes));
        let chunk = |count, length| Chunk { segments: vec![segment(length); count] };
        let writes = |count, chunk| ChunkLists { writes: vec![chunk; count], ..ChunkLists::default() };
        assert_eq!(parsed(&writes(WRITE_CHUNKS_MAX, chunk(1, 1))), Ok(()));
        assert_eq!(parsed(&writes(WRITE_CHUNKS_MAX + 1, chunk(0, 0))), Err(Malformed::Chunks));
        assert_eq!(parsed(&writes(1, chunk(CHUNK_SEGMENTS_MAX + 1, 1))), Err(Malformed::Segments));
        let reply = ChunkLists { reply: Some(chunk(2, MESSAGE_MAX_BYTES as u32)), ..ChunkLists::default() };
        assert_eq!(parsed(&reply), Err(Malformed::Bytes));
    }
}
