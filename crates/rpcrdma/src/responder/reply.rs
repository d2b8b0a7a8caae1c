//! Plan of a reply: eligible results go to the write list, the rest inline or to the reply chunk (RFC 8166 §3.4.6,
//! §3.5). Without room for it, the requester gets ERR_CHUNK (RFC 8166 §4.5.3).

use std::ops::Range;

use crate::operation::{RemoteWrite, SendPlan, bytes_in, without};
use crate::wire::{Body, Chunk, ChunkLists, Header, RdmaError, Segment};

/// Plan of a reply. WRITEs are posted before the SEND.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplyPlan {
    /// WRITEs to the requester's memory.
    pub writes: Vec<RemoteWrite>,
    /// The SEND.
    pub send: SendPlan,
    /// Reason why the SEND reports ERR_CHUNK in place of the reply.
    pub refusal: Option<ReplyRefusal>,
}

/// Reason why the requester's chunks do not take a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplyRefusal {
    /// A result is longer than its write chunk.
    #[error("the result has {len} bytes, its write chunk {room}")]
    Result {
        /// Bytes of the result.
        len: usize,
        /// Bytes of the chunk.
        room: u64,
    },
    /// The reply fits neither inline nor the reply chunk.
    #[error("the reply has {len} bytes; inline it may have {inline}, in the reply chunk {room}")]
    Reply {
        /// Bytes of the reply without its results.
        len: usize,
        /// Bytes that fit inline.
        inline: usize,
        /// Bytes of the reply chunk.
        room: u64,
    },
}

/// Properties of the reply's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyTerms {
    pub(super) xid: u32,
    pub(super) credits: u32,
    /// Longest SEND that the requester receives, in bytes.
    pub(super) threshold: usize,
    /// Key to invalidate.
    pub(super) invalidate: Option<u32>,
}

impl ReplyTerms {
    pub(super) fn header(&self, body: Body) -> Vec<u8> {
        Header { xid: self.xid, credits: self.credits, body }.to_bytes()
    }

    /// Returns a plan that reports ERR_CHUNK. The requester's keys stay valid: it may not expect their invalidation.
    pub(super) fn refuse(&self, refusal: ReplyRefusal) -> ReplyPlan {
        let header = self.header(Body::Error(RdmaError::Chunk));
        ReplyPlan { writes: Vec::new(), send: SendPlan { header, ..SendPlan::default() }, refusal: Some(refusal) }
    }
}

/// Plans the reply of `len` bytes to a call that offered `lists`.
pub(super) fn plan(
    terms: &ReplyTerms,
    lists: &ChunkLists,
    len: usize,
    results: &[Range<usize>],
) -> Result<ReplyPlan, ReplyRefusal> {
    let (mut writes, reduced, returned) = place_results(&lists.writes, results)?;
    let body = without(&reduced, len);
    let body_len = bytes_in(&body);
    let lists_back = |written| ChunkLists {
        reads: Vec::new(),
        writes: returned.clone(),
        reply: lists.reply.as_ref().map(|chunk| chunk.with_written(written)),
    };
    let header = terms.header(Body::Msg(lists_back(0)));
    let send = |header, body| SendPlan { header, body, invalidate: terms.invalidate };
    if header.len() + body_len <= terms.threshold {
        return Ok(ReplyPlan { writes, send: send(header, body), refusal: None });
    }
    let room = lists.reply.as_ref().map_or(0, Chunk::len);
    match &lists.reply {
        Some(chunk) if body_len as u64 <= room && header.len() <= terms.threshold => {
            scatter(&mut writes, &chunk.segments, &body);
            let header = terms.header(Body::NoMsg(lists_back(body_len)));
            Ok(ReplyPlan { writes, send: send(header, Vec::new()), refusal: None })
        }
        _ => {
            let inline = terms.threshold.saturating_sub(header.len());
            Err(ReplyRefusal::Reply { len: body_len, inline, room })
        }
    }
}

type Placed = (Vec<RemoteWrite>, Vec<Range<usize>>, Vec<Chunk>);

/// Gives each result the chunk of its turn. Returns the WRITEs, the results that leave the message, and the chunks as
/// they are returned. A result stays inline if its chunk has no segments, or if the list is too short.
fn place_results(chunks: &[Chunk], results: &[Range<usize>]) -> Result<Placed, ReplyRefusal> {
    let (mut writes, mut reduced, mut returned) = (Vec::new(), Vec::new(), Vec::new());
    let mut results = results.iter();
    for chunk in chunks {
        let result = results.next().filter(|_| !chunk.segments.is_empty()).cloned().unwrap_or_default();
        if result.len() as u64 > chunk.len() {
            return Err(ReplyRefusal::Result { len: result.len(), room: chunk.len() });
        }
        scatter(&mut writes, &chunk.segments, std::slice::from_ref(&result));
        returned.push(chunk.with_written(result.len()));
        if !result.is_empty() {
            reduced.push(result);
        }
    }
    Ok((writes, reduced, returned))
}

/// Appends the WRITEs that put ranges of the message into segments, one after the other.
fn scatter(writes: &mut Vec<RemoteWrite>, segments: &[Segment], ranges: &[Range<usize>]) {
    let mut segments = segments.iter().copied();
    let mut room = Segment::default();
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            if room.length == 0 {
                let Some(next) = segments.next() else { return };
                room = next;
                continue;
            }
            let len = (range.end - at).min(room.length as usize);
            writes.push(RemoteWrite { target: Segment { length: len as u32, ..room }, source: at..at + len });
            room.length -= len as u32;
            room.offset = room.offset.wrapping_add(len as u64);
            at += len;
        }
    }
}

#[cfg(test)]
mod tests;
