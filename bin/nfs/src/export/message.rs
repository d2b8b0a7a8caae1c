//! Messages of calls and replies, and a call on its way through the threads.

use std::ops::Range;
use std::sync::Arc;

use weft_client::verbs::Memory;
use weft_rpcrdma::CallId;

use crate::limits::HEAD_MAX;
use crate::protocol::credential::Credential;

/// Message of a call.
#[derive(Debug)]
pub enum CallBytes {
    /// It was inline.
    Inline(Vec<u8>),
    /// So many bytes of registered memory.
    Registered(Memory, usize),
}

/// Reply to a call.
#[derive(Debug)]
pub struct Reply {
    /// The message.
    pub message: ReplyBytes,
    /// Its DDP-eligible results.
    pub results: Vec<Range<usize>>,
}

/// Message of a reply.
#[derive(Debug)]
pub enum ReplyBytes {
    /// Bytes.
    Bytes(Vec<u8>),
    /// So many bytes of the memory that was provided for it.
    Registered(usize),
}

/// A call with its circumstances.
#[derive(Debug)]
pub struct Circumstances<'a> {
    /// User, mapped.
    pub identity: Credential,
    /// The whole message.
    pub message: &'a CallBytes,
    /// Memory for a reply with data.
    pub memory: Option<&'a Memory>,
    /// The results.
    pub results: Vec<Range<usize>>,
    /// The procedure left its data in the memory.
    pub in_memory: bool,
}

impl CallBytes {
    /// Returns the first bytes, in which the arguments are.
    pub fn head(&self) -> Vec<u8> {
        match self {
            CallBytes::Inline(bytes) => bytes.get(..HEAD_MAX).unwrap_or(bytes).to_vec(),
            CallBytes::Registered(memory, len) => {
                let mut head = vec![0; (*len).min(HEAD_MAX)];
                memory.read(0, &mut head);
                head
            }
        }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        match self {
            CallBytes::Inline(bytes) => bytes.len(),
            CallBytes::Registered(_, len) => *len,
        }
    }
}

/// A call to execute.
#[derive(Debug)]
pub struct Job {
    /// Connection.
    pub session: u64,
    /// Call on it.
    pub call: CallId,
    /// Name of the client.
    pub client: Arc<str>,
    /// The message.
    pub message: CallBytes,
    /// Memory for a reply with data.
    pub memory: Option<Memory>,
}

/// An executed call.
#[derive(Debug)]
pub struct Done {
    /// Connection.
    pub session: u64,
    /// Call on it.
    pub call: CallId,
    /// The reply.
    pub reply: Reply,
}
