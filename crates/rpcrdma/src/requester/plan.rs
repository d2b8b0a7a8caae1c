//! Choice of a call's form (RFC 8166 §3.5): inline, with chunks, or as a long call; and of the memory for its reply.

use std::ops::Range;

use super::config::RequesterConfig;
use super::errors::CallError;
use crate::eligible::EligibleData;
use crate::limits::{MESSAGE_MAX_BYTES, PATH_MAX_BYTES, WRITE_CHUNKS_MAX};
use crate::operation::{are_items, bytes_in, without};
use crate::wire::xdr::pad_len;
use crate::wire::{Body, Chunk, ChunkLists, Header, ReadSegment, Segment};

/// Longest result that has no write chunk: a link's text. It costs less as part of the message, and Linux 6.1's server
/// writes the text of NFSv4's READLINK to a chunk from the wrong offset on, so that three bytes are lost.
const SHORT_RESULT_MAX_BYTES: u32 = PATH_MAX_BYTES;

/// Form of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CallPlan {
    pub(super) arguments: ArgumentForm,
    /// Bytes of each write chunk.
    pub(super) writes: Vec<usize>,
    /// Bytes of the reply chunk.
    pub(super) reply: Option<usize>,
}

/// Way of a call's message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ArgumentForm {
    /// RDMA_MSG without read chunks.
    Inline,
    /// RDMA_MSG; these ranges of the message are read chunks.
    Chunks(Vec<Range<usize>>),
    /// RDMA_NOMSG; the whole message is a read chunk at position zero.
    Long,
}

/// Plans a call of `len` bytes.
pub(super) fn plan(config: &RequesterConfig, len: usize, eligible: &EligibleData) -> Result<CallPlan, CallError> {
    if len > MESSAGE_MAX_BYTES {
        return Err(CallError::TooLong);
    }
    let threshold = config.local.threshold_to(&config.peer);
    let (writes, reply) = plan_reply(config, eligible);
    let mut plan = CallPlan { arguments: ArgumentForm::Inline, writes, reply };
    if plan.header_len() + len <= threshold {
        return Ok(plan);
    }
    if !eligible.arguments.is_empty() && are_items(&eligible.arguments, len) {
        plan.arguments = ArgumentForm::Chunks(eligible.arguments.clone());
        if plan.header_len() + bytes_in(&without(&eligible.arguments, len)) <= threshold {
            return Ok(plan);
        }
    }
    plan.arguments = ArgumentForm::Long;
    if plan.header_len() <= threshold { Ok(plan) } else { Err(CallError::TooLong) }
}

/// Returns the bytes of each write chunk and of the reply chunk.
fn plan_reply(config: &RequesterConfig, eligible: &EligibleData) -> (Vec<usize>, Option<usize>) {
    let threshold = config.peer.threshold_to(&config.local);
    let max = |len: &u32| (*len as usize).min(MESSAGE_MAX_BYTES);
    let padded = |len: usize| len + pad_len(len);
    let is_short = |len: &u32| *len <= SHORT_RESULT_MAX_BYTES;
    let (chunked, inline) = eligible.results.split_at(eligible.results.len().min(WRITE_CHUNKS_MAX));
    let short = chunked.iter().filter(|len| is_short(len));
    let inline: usize = inline.iter().chain(short).map(max).map(padded).sum();
    // A short result keeps its place among the chunks by an empty one.
    let mut chunked: Vec<usize> = chunked.iter().map(|len| if is_short(len) { 0 } else { max(len) }).collect();
    while chunked.last() == Some(&0) {
        chunked.pop();
    }
    let rest = eligible.reply_max.unwrap_or(config.reply_max_bytes).saturating_add(inline).min(MESSAGE_MAX_BYTES);
    let none = CallPlan { arguments: ArgumentForm::Inline, writes: Vec::new(), reply: None };
    let all = rest + chunked.iter().copied().map(padded).sum::<usize>();
    if none.header_len() + all <= threshold {
        return (none.writes, none.reply);
    }
    let chunks = CallPlan { writes: chunked, ..none };
    let fits = chunks.header_len() + rest <= threshold;
    (chunks.writes, if fits { None } else { Some(rest) })
}

impl CallPlan {
    /// Returns the length of the call's header in bytes.
    fn header_len(&self) -> usize {
        let chunk = Chunk { segments: vec![Segment::default()] };
        let reads = match &self.arguments {
            ArgumentForm::Inline => 0,
            ArgumentForm::Chunks(ranges) => ranges.len(),
            ArgumentForm::Long => 1,
        };
        let lists = ChunkLists {
            reads: vec![ReadSegment::default(); reads],
            writes: vec![chunk.clone(); self.writes.len()],
            reply: self.reply.map(|_| chunk),
        };
        Header { xid: 0, credits: 0, body: Body::Msg(lists) }.wire_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PrivateData;

    const END: PrivateData = PrivateData { remote_invalidation: true, send_bytes: 1024, receive_bytes: 2048 };
    const CONFIG: RequesterConfig = RequesterConfig { local: END, peer: END, credits: 8, reply_max_bytes: 9000 };

    fn planned(len: usize, arguments: &[Range<usize>], results: &[u32], reply_max: Option<usize>) -> CallPlan {
        let eligible = EligibleData { arguments: arguments.to_vec(), results: results.to_vec(), reply_max };
        plan(&CONFIG, len, &eligible).expect("fits")
    }

    #[test]
    fn a_call_is_inline_as_long_as_it_fits() {
        let short = planned(1024 - 28, &[], &[], Some(100));
        assert_eq!(short, CallPlan { arguments: ArgumentForm::Inline, writes: vec![], reply: None });
        assert_eq!(planned(1024 - 27, &[], &[], Some(100)).arguments, ArgumentForm::Long);
        let data = std::iter::once(100..1100).collect::<Vec<_>>();
        assert_eq!(planned(1100, &data, &[], Some(100)).arguments, ArgumentForm::Chunks(data));
        // The rest is too long even without the data.
        let data = std::iter::once(1000..1100).collect::<Vec<_>>();
        assert_eq!(planned(1100, &data, &[], Some(100)).arguments, ArgumentForm::Long);
    }

    #[test]
    fn a_reply_gets_chunks_only_where_inline_may_not_do() {
        let reply = |results: &[u32], max| {
            let plan = planned(100, &[], results, max);
            (plan.writes, plan.reply)
        };
        // The peer sends at most 1024 bytes.
        assert_eq!(reply(&[500], Some(400)), (vec![], None));
        assert_eq!(reply(&[65536], Some(400)), (vec![65536], None));
        assert_eq!(reply(&[65536, 7], Some(1000)), (vec![65536], Some(1008)));
        assert_eq!(reply(&[7, 65536], Some(900)), (vec![0, 65536], None));
        assert_eq!(reply(&[], None), (vec![], Some(9000)));
        let many = reply(&[8192; WRITE_CHUNKS_MAX + 2], Some(100));
        assert_eq!(many, (vec![8192; WRITE_CHUNKS_MAX], Some(100 + 2 * 8192)));
        assert_eq!(reply(&[u32::MAX], Some(0)), (vec![MESSAGE_MAX_BYTES], None));
    }
}
