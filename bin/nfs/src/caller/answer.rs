//! Answers of the server.

use weft_rpcrdma::nfs::CallInfo;

/// Message of the server.
#[derive(Debug)]
pub enum Heard {
    /// A reply.
    Answer(Answer),
    /// The server refused the call, or could not return its reply.
    Refused(u32),
    /// A call in the other direction (RFC 8167).
    Callback(Vec<u8>),
}

/// Reply to a call.
#[derive(Debug)]
pub struct Answer {
    /// The call.
    pub xid: u32,
    /// The message, without the results below.
    pub head: Vec<u8>,
    /// Results that the server wrote to memory of their own; empty ones are in the message.
    pub results: Vec<Vec<u8>>,
    pub(super) info: CallInfo,
}

impl Answer {
    /// Returns the whole message; `None`: message and results disagree.
    pub fn whole(self) -> Option<Vec<u8>> {
        if self.results.iter().all(Vec::is_empty) {
            return Some(self.head);
        }
        let results: Vec<&[u8]> = self.results.iter().map(Vec::as_slice).collect();
        self.info.restore(&self.head, &results)
    }
}
