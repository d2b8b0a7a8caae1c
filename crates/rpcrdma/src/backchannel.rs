//! Backchannel: calls from the responder to the requester (RFC 8167). They and their replies travel inline, without
//! chunks, and have credits of their own.

use crate::operation::SendPlan;
use crate::wire::{Body, ChunkLists, Header, MessageType, message_type, xid};

/// Reason why a backchannel message cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BackchannelError {
    /// All credits are in use.
    #[error("no credit for a backchannel call")]
    NoCredit,
    /// The message does not fit inline.
    #[error("the backchannel message is longer than the inline threshold")]
    TooLong,
    /// The message is not the RPC message that is expected.
    #[error("not an RPC message of a backchannel")]
    Message,
}

/// The side that calls.
#[derive(Debug)]
pub(crate) struct BackchannelCaller {
    unanswered: Vec<u32>,
    granted: u32,
    credits_max: u32,
}

impl BackchannelCaller {
    pub(crate) fn new(credits_max: u32) -> BackchannelCaller {
        BackchannelCaller { unanswered: Vec::new(), granted: 1, credits_max: credits_max.max(1) }
    }

    pub(crate) fn call(&mut self, message: &[u8], threshold: usize) -> Result<SendPlan, BackchannelError> {
        let xid = expect(message, MessageType::Call)?;
        if self.unanswered.len() >= self.granted as usize {
            return Err(BackchannelError::NoCredit);
        }
        if self.unanswered.contains(&xid) {
            return Err(BackchannelError::Message);
        }
        let send = inline(message, xid, self.credits_max, threshold)?;
        self.unanswered.push(xid);
        Ok(send)
    }

    /// Takes a reply, with its credits. Returns whether its call waited for it.
    pub(crate) fn answered(&mut self, xid: u32, credits: u32) -> bool {
        let Some(at) = self.unanswered.iter().position(|waiting| *waiting == xid) else { return false };
        self.unanswered.swap_remove(at);
        self.granted = credits.clamp(1, self.credits_max);
        true
    }
}

/// The side that is called.
#[derive(Debug)]
pub(crate) struct BackchannelCallee {
    unanswered: Vec<u32>,
    credits: u32,
}

impl BackchannelCallee {
    pub(crate) fn new(credits: u32) -> BackchannelCallee {
        BackchannelCallee { unanswered: Vec::new(), credits }
    }

    /// Takes a call. Returns whether the peer had a credit for it.
    #[must_use]
    pub(crate) fn called(&mut self, xid: u32) -> bool {
        let has_credit = self.unanswered.len() < self.credits as usize;
        if has_credit {
            self.unanswered.push(xid);
        }
        has_credit
    }

    pub(crate) fn reply(&mut self, message: &[u8], threshold: usize) -> Result<SendPlan, BackchannelError> {
        let xid = expect(message, MessageType::Reply)?;
        let at = self.unanswered.iter().position(|waiting| *waiting == xid).ok_or(BackchannelError::Message)?;
        let send = inline(message, xid, self.credits, threshold)?;
        self.unanswered.swap_remove(at);
        Ok(send)
    }
}

fn expect(message: &[u8], expected: MessageType) -> Result<u32, BackchannelError> {
    match (message_type(message), xid(message)) {
        (Some(found), Some(xid)) if found == expected => Ok(xid),
        _ => Err(BackchannelError::Message),
    }
}

fn inline(message: &[u8], xid: u32, credits: u32, threshold: usize) -> Result<SendPlan, BackchannelError> {
    let header = Header { xid, credits, body: Body::Msg(ChunkLists::default()) }.to_bytes();
    if header.len() + message.len() > threshold {
        return Err(BackchannelError::TooLong);
    }
    Ok(SendPlan { header, body: std::iter::once(0..message.len()).collect(), invalidate: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(xid: u8, kind: u8) -> [u8; 8] {
        [0, 0, 0, xid, 0, 0, 0, kind]
    }

    #[test]
    fn each_direction_has_its_own_credits() {
        let mut caller = BackchannelCaller::new(2);
        let mut callee = BackchannelCallee::new(2);
        assert!(caller.call(&message(1, 0), 1024).is_ok() && callee.called(1));
        assert_eq!(caller.call(&message(2, 0), 1024), Err(BackchannelError::NoCredit));
        assert!(callee.reply(&message(1, 1), 1024).is_ok());
        assert!(caller.answered(1, 9) && !caller.answered(1, 9));
        for xid in 2..4 {
            assert!(caller.call(&message(xid, 0), 1024).is_ok() && callee.called(xid.into()));
        }
        assert_eq!(caller.call(&message(4, 0), 1024), Err(BackchannelError::NoCredit));
        assert!(!callee.called(4));
    }

    #[test]
    fn only_short_messages_of_the_right_type_pass() {
        let mut caller = BackchannelCaller::new(2);
        assert_eq!(caller.call(&message(1, 1), 1024), Err(BackchannelError::Message));
        assert_eq!(caller.call(&message(1, 0), 35), Err(BackchannelError::TooLong));
        assert!(caller.call(&message(1, 0), 36).is_ok());
        let mut callee = BackchannelCallee::new(2);
        assert_eq!(callee.reply(&message(1, 1), 1024), Err(BackchannelError::Message));
    }
}
