//! The data of NFS calls and replies that chunks may carry: the upper-layer binding of RFC 8267. In NFSv3 these are the
//! data of WRITE and READ, and the paths of SYMLINK and READLINK; in a COMPOUND of NFSv4 the same of each operation, and
//! the link text of CREATE.
//!
//! Calls and replies that this module cannot read have no eligible data. That is always correct: the whole message then
//! travels inline, as a long call or in a reply chunk.

mod fields;
mod restore;
mod rpc;
mod v3;
mod v4;

use std::ops::Range;

use crate::eligible::EligibleData;
use crate::wire::xdr::XdrReader;
use fields::{Arguments, Results};

/// An RPC call, as far as the transport needs to know it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallInfo {
    /// The DDP-eligible data.
    pub eligible: EligibleData,
    protocol: Protocol,
}

/// Form of a call's results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Protocol {
    #[default]
    Other,
    V3 {
        procedure: u32,
    },
    V4,
}

impl CallInfo {
    /// Looks into an RPC call.
    pub fn parse(message: &[u8]) -> CallInfo {
        CallInfo::of(message).unwrap_or_default()
    }

    fn of(message: &[u8]) -> Option<CallInfo> {
        let mut xdr = XdrReader::new(message);
        let call = rpc::read_call(&mut xdr)?;
        if call.program != rpc::NFS_PROGRAM {
            return None;
        }
        let mut found = Arguments::default();
        let (protocol, bound) = match call.version {
            3 => {
                let bound = v3::read_arguments(call.procedure, &mut xdr, &mut found)?;
                (Protocol::V3 { procedure: call.procedure }, Some(bound))
            }
            4 if call.procedure == v4::COMPOUND => {
                v4::read_arguments(&mut xdr, &mut found)?;
                (Protocol::V4, None)
            }
            _ => return None,
        };
        let reply_max = bound.map(|bound| rpc::REPLY_HEADER_MAX_BYTES + bound);
        let eligible = EligibleData { arguments: found.data, results: found.results, reply_max };
        Some(CallInfo { eligible, protocol })
    }

    /// Finds the DDP-eligible data of the call's reply: ranges of the message, without padding, in order. The first one
    /// is the result of the first operation that has eligible data, and so on.
    pub fn results_of(&self, reply: &[u8]) -> Vec<Range<usize>> {
        let mut found = Results::new(&[]);
        let _ = self.read_results(reply, &mut found);
        found.items.iter().map(|item| item.at..item.at + item.len).collect()
    }

    /// Rebuilds the whole reply from one whose results are in write chunks: `results` has the bytes written to each
    /// chunk of the call's write list. `None`: the reply and the chunks disagree.
    pub fn restore(&self, reply: &[u8], results: &[&[u8]]) -> Option<Vec<u8>> {
        let written: Vec<usize> = results.iter().map(|data| data.len()).collect();
        let mut found = Results::new(&written);
        let _ = self.read_results(reply, &mut found);
        restore::insert(reply, &found.items, results)
    }

    /// `None`: the rest cannot be read.
    fn read_results(&self, reply: &[u8], found: &mut Results<'_>) -> Option<()> {
        let mut xdr = XdrReader::new(reply);
        rpc::read_reply(&mut xdr)?;
        match self.protocol {
            Protocol::Other => None,
            Protocol::V3 { procedure } => v3::read_results(procedure, &mut xdr, found),
            Protocol::V4 => v4::read_results(&mut xdr, found),
        }
    }
}

#[cfg(test)]
mod tests;
