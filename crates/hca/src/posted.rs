//! Work requests that queue pairs accepted, for a record: none are kept unless that is asked for.

use weft_verbs::{Qpn, RecvWr, SendFlags, SendOp, SendWr, Sge};

/// A work request that a queue pair accepted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PostedRequest {
    /// Number of the queue pair.
    pub qpn: Qpn,
    /// The program's ID.
    pub wr_id: u64,
    /// The operation; `None` for a receive.
    pub op: Option<SendOp>,
    /// Flags.
    pub flags: SendFlags,
    /// Elements of its list.
    pub sges: usize,
    /// Bytes of its list.
    pub length: u64,
}

impl PostedRequest {
    fn new(qpn: Qpn, wr_id: u64, sges: &[Sge]) -> PostedRequest {
        let length = sges.iter().map(|sge| u64::from(sge.length)).sum();
        PostedRequest { qpn, wr_id, op: None, flags: SendFlags::empty(), sges: sges.len(), length }
    }
}

/// The accepted work requests since they were taken last.
#[derive(Debug, Default)]
pub(crate) struct PostedLog(Option<Vec<PostedRequest>>);

impl PostedLog {
    /// Starts to keep work requests.
    pub(crate) fn start(&mut self) {
        self.0.get_or_insert_default();
    }

    /// Takes note of a send.
    #[inline]
    pub(crate) fn on_send(&mut self, qpn: Qpn, wr: &SendWr<'_>) {
        if let Some(kept) = &mut self.0 {
            keep(
                kept,
                PostedRequest { op: Some(wr.op), flags: wr.flags, ..PostedRequest::new(qpn, wr.wr_id, wr.sges) },
            );
        }
    }

    /// Takes note of a receive.
    #[inline]
    pub(crate) fn on_recv(&mut self, qpn: Qpn, wr: &RecvWr<'_>) {
        if let Some(kept) = &mut self.0 {
            keep(kept, PostedRequest::new(qpn, wr.wr_id, wr.sges));
        }
    }

    /// Takes what was kept, in the order of the posts.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = PostedRequest> {
        self.0.iter_mut().flat_map(|kept| kept.drain(..))
    }
}

#[cold]
fn keep(kept: &mut Vec<PostedRequest>, request: PostedRequest) {
    kept.push(request);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_kept_once_that_is_asked_for() {
        let sges = [Sge { length: u32::MAX, ..Sge::default() }; 2];
        let send =
            SendWr { wr_id: 1, flags: SendFlags::SIGNALED, op: SendOp::Send, sges: &sges, ud: None, xrc_srqn: None };
        let recv = RecvWr { wr_id: 2, sges: &[] };
        let mut log = PostedLog::default();
        log.on_send(5, &send);
        assert_eq!(log.take().count(), 0);
        log.start();
        log.on_send(5, &send);
        log.on_recv(5, &recv);
        let kept: Vec<_> =
            log.take().map(|request| (request.wr_id, request.op, request.sges, request.length)).collect();
        assert_eq!(kept, [(1, Some(SendOp::Send), 2, 2 * u64::from(u32::MAX)), (2, None, 0, 0)]);
        assert_eq!(log.take().count(), 0);
    }
}
