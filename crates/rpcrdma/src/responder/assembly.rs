//! Assembly of a call: chunks go back to their positions in the XDR stream (RFC 8166 §3.4.5). The stream without them is
//! inline, or is itself the chunk at position zero of a long call (RFC 8166 §3.5.3):
//!
//! ```text
//!   reduced stream   | a        | b            |            chunk at position |a|
//!   message          | a        | chunk | pad  | b            |
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use crate::operation::RemoteRead;
use crate::wire::xdr::pad_len;
use crate::wire::{Malformed, ReadSegment, Segment};

/// Shortest RPC message that has a type, in bytes.
const MESSAGE_MIN_BYTES: usize = 8;

/// Plan of a call's message: the READs, and the bytes that are here already.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assembly {
    len: usize,
    reads: Vec<RemoteRead>,
    inline: Vec<u8>,
    /// Ranges of `inline`, and their offsets in the message.
    pieces: Vec<(usize, Range<usize>)>,
    /// Padding of chunks.
    pads: Vec<Range<usize>>,
}

impl Assembly {
    /// Returns the length of the message in bytes.
    pub fn message_len(&self) -> usize {
        self.len
    }

    /// Returns the READs to post.
    pub fn reads(&self) -> &[RemoteRead] {
        &self.reads
    }

    /// Returns the parts of the message that are here already, padding included, each with its offset. The READs bring the
    /// others.
    pub fn inline_parts(&self) -> impl Iterator<Item = (usize, &[u8])> {
        const ZEROS: [u8; 3] = [0; 3];
        let pieces = self.pieces.iter().map(|(at, range)| (*at, self.inline.get(range.clone()).unwrap_or_default()));
        let pads = self.pads.iter().map(|pad| (pad.start, ZEROS.get(..pad.len()).unwrap_or_default()));
        pieces.chain(pads).filter(|(_, bytes)| !bytes.is_empty())
    }

    /// Writes the inline parts of the message and its padding to a buffer of [`Assembly::message_len`] bytes. The READs
    /// write the others.
    pub fn place_inline(&self, message: &mut [u8]) {
        for (at, bytes) in self.inline_parts() {
            if let Some(place) = message.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
    }

    /// Plans the message of RDMA_MSG: `inline` is the reduced stream.
    pub(super) fn of_inline(inline: &[u8], reads: &[ReadSegment], max: usize) -> Result<Assembly, Malformed> {
        let chunks = by_position(reads);
        if chunks.contains_key(&0) {
            return Err(Malformed::Position);
        }
        let assembly = Assembly { inline: inline.to_vec(), ..Assembly::default() };
        assembly.plan(&Stream::Inline(inline.len()), &chunks, max)
    }

    /// Plans the message of RDMA_NOMSG: the chunk at position zero is the reduced stream.
    pub(super) fn of_long_call(reads: &[ReadSegment], max: usize) -> Result<Assembly, Malformed> {
        let mut chunks = by_position(reads);
        let stream = chunks.remove(&0).ok_or(Malformed::Position)?;
        Assembly::default().plan(&Stream::Chunk(stream), &chunks, max)
    }

    fn plan(
        mut self,
        stream: &Stream,
        chunks: &BTreeMap<u32, Vec<Segment>>,
        max: usize,
    ) -> Result<Assembly, Malformed> {
        let mut taken = 0;
        for (position, chunk) in chunks {
            let position = *position as usize;
            let before = position.checked_sub(self.len).ok_or(Malformed::Position)?;
            if !position.is_multiple_of(4) || before > stream.len() - taken {
                return Err(Malformed::Position);
            }
            self.append_stream(stream, taken..taken + before);
            taken += before;
            self.append_chunk(chunk);
        }
        self.append_stream(stream, taken..stream.len());
        match self.len {
            len if len > max => Err(Malformed::Bytes),
            len if len < MESSAGE_MIN_BYTES => Err(Malformed::Message),
            _ => Ok(self),
        }
    }

    fn append_stream(&mut self, stream: &Stream, range: Range<usize>) {
        match stream {
            Stream::Inline(_) => self.pieces.push((self.len, range.clone())),
            Stream::Chunk(segments) => {
                let parts = cut(segments, range.clone());
                self.append_reads(parts.into_iter());
                return;
            }
        }
        self.len += range.len();
    }

    fn append_chunk(&mut self, segments: &[Segment]) {
        let before = self.len;
        self.append_reads(segments.iter().copied());
        let pad = pad_len(self.len - before);
        self.pads.push(self.len..self.len + pad);
        self.len += pad;
    }

    fn append_reads(&mut self, segments: impl Iterator<Item = Segment>) {
        for source in segments.filter(|segment| segment.length > 0) {
            self.reads.push(RemoteRead { source, at: self.len });
            self.len += source.length as usize;
        }
    }
}

/// The message without its chunks.
enum Stream {
    /// It is inline, and has so many bytes.
    Inline(usize),
    /// It is in the requester's memory.
    Chunk(Vec<Segment>),
}

impl Stream {
    fn len(&self) -> usize {
        match self {
            Stream::Inline(len) => *len,
            Stream::Chunk(segments) => segments.iter().map(|segment| segment.length as usize).sum(),
        }
    }
}

/// Segments of one position are one chunk (RFC 8166 §4.3.1).
fn by_position(reads: &[ReadSegment]) -> BTreeMap<u32, Vec<Segment>> {
    let mut chunks: BTreeMap<u32, Vec<Segment>> = BTreeMap::new();
    reads.iter().for_each(|read| chunks.entry(read.position).or_default().push(read.segment));
    chunks
}

/// Returns the parts of segments that hold a range of their bytes.
fn cut(segments: &[Segment], range: Range<usize>) -> Vec<Segment> {
    let mut at = 0;
    let part = |segment: &Segment| {
        let len = segment.length as usize;
        let (start, end) = (range.start.clamp(at, at + len) - at, range.end.clamp(at, at + len) - at);
        at += len;
        // The adapter of the requester judges an address that wraps around.
        let offset = segment.offset.wrapping_add(start as u64);
        (start < end).then_some(Segment { offset, length: (end - start) as u32, ..*segment })
    };
    segments.iter().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MESSAGE_MAX_BYTES;

    const MAX: usize = MESSAGE_MAX_BYTES;

    fn read(position: u32, offset: u64, length: u32) -> ReadSegment {
        ReadSegment { position, segment: Segment { handle: 1, length, offset } }
    }

    /// Executes an assembly over a memory in which each byte is its address.
    fn assembled(assembly: &Assembly) -> Vec<u8> {
        let mut message = vec![0xee; assembly.message_len()];
        assembly.place_inline(&mut message);
        for read in assembly.reads() {
            for (at, byte) in message[read.at..].iter_mut().take(read.source.length as usize).enumerate() {
                *byte = (read.source.offset + at as u64) as u8;
            }
        }
        message
    }

    #[test]
    fn chunks_return_to_their_positions_with_padding() {
        let inline = *b"headheadtail";
        let reads = [read(8, 100, 3), read(8, 110, 2), read(20, 50, 4)];
        let assembly = Assembly::of_inline(&inline, &reads, MAX).expect("valid");
        let expected = [&b"headhead"[..], &[100, 101, 102, 110, 111, 0, 0, 0], b"tail", &[50, 51, 52, 53]].concat();
        assert_eq!(assembled(&assembly), expected);
    }

    #[test]
    fn a_long_call_is_cut_where_its_chunks_go() {
        let reads = [read(0, 0, 6), read(8, 100, 1), read(0, 60, 6)];
        let assembly = Assembly::of_long_call(&reads, MAX).expect("valid");
        assert_eq!(assembled(&assembly), [0, 1, 2, 3, 4, 5, 60, 61, 100, 0, 0, 0, 62, 63, 64, 65]);
    }

    #[test]
    fn impossible_positions_and_lengths_are_refused() {
        let inline = |reads: &[ReadSegment], max| Assembly::of_inline(&[0; 12], reads, max).map(drop);
        assert_eq!(inline(&[read(0, 0, 4)], MAX), Err(Malformed::Position));
        assert_eq!(inline(&[read(6, 0, 4)], MAX), Err(Malformed::Position));
        assert_eq!(inline(&[read(16, 0, 4)], MAX), Err(Malformed::Position));
        // Within the chunk before it.
        assert_eq!(inline(&[read(4, 0, 8), read(8, 0, 4)], MAX), Err(Malformed::Position));
        assert_eq!(inline(&[read(12, 0, 5)], 19), Err(Malformed::Bytes));
        assert_eq!(inline(&[read(12, 0, 5)], 20), Ok(()));
        assert_eq!(Assembly::of_inline(&[0; 7], &[], MAX), Err(Malformed::Message));
        assert_eq!(Assembly::of_long_call(&[read(4, 0, 4)], MAX), Err(Malformed::Position));
        assert_eq!(Assembly::of_long_call(&[read(0, 0, 4)], MAX), Err(Malformed::Message));
    }
}
