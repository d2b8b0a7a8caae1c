//! Procedures of NFSv3 (RFC 1813 §3.3) as one table, and their common frame.

use weft_client::verbs::Memory;

use super::exported::Export;
use super::message::{CallBytes, Circumstances, Reply, ReplyBytes};
use super::outcome::{Failure, Outcome};
use super::{files, listing, names, rpc, volume};
use crate::protocol::status::Status;
use crate::protocol::xdr::{Reader, Writer, pad_len};

/// Reads the arguments, and writes the results after NFS3_OK.
type Execute = fn(&Export, &mut Circumstances<'_>, &mut Reader<'_>, &mut Writer) -> Outcome;

/// Effect of a procedure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// It changes nothing.
    Reads,
    /// It may run twice.
    Writes,
    /// A second run would have another result.
    WritesOnce,
}
use Effect::{Reads, Writes, WritesOnce};

/// Effect, words of zeros that the result has after a failed status (absent attributes), and the function.
#[rustfmt::skip]
const TABLE: &[(Effect, usize, Execute)] = &[
    (Reads,      0, |_, _, _, _| Ok(())), // NULL, which has no status: see `execute_nfs`
    (Reads,      0, files::getattr),
    (WritesOnce, 2, files::setattr),
    (Reads,      1, names::lookup),
    (Reads,      1, files::access),
    (Reads,      1, files::readlink),
    (Reads,      1, files::read),
    (Writes,     2, files::write),
    (WritesOnce, 2, names::create),
    (WritesOnce, 2, names::mkdir),
    (WritesOnce, 2, names::symlink),
    (WritesOnce, 2, names::mknod),
    (WritesOnce, 2, names::remove),
    (WritesOnce, 2, names::rmdir),
    (WritesOnce, 4, names::rename),
    (WritesOnce, 3, names::link),
    (Reads,      1, listing::readdir),
    (Reads,      1, listing::readdirplus),
    (Reads,      1, volume::fsstat),
    (Reads,      1, volume::fsinfo),
    (Reads,      1, volume::pathconf),
    (Writes,     2, files::commit),
];

impl Export {
    /// Executes a call of NFS.
    pub(super) fn execute_nfs(
        &self,
        client: &str,
        head: &[u8],
        call: rpc::Call<'_>,
        message: &CallBytes,
        memory: Option<&Memory>,
    ) -> Result<Reply, rpc::Refusal> {
        let (effect, zeros, execute) = *TABLE.get(call.procedure as usize).ok_or(rpc::Refusal::Procedure)?;
        if call.procedure == 0 {
            return Ok(Reply { message: ReplyBytes::Bytes(rpc::accepted(call.xid).0), results: Vec::new() });
        }
        let identity = self.users.map(call.credential);
        let mut around = Circumstances { identity, message, memory, results: Vec::new(), in_memory: false };
        let mut run = || {
            let mut out = rpc::accepted(call.xid);
            out.u32(0);
            let mut arguments = call.arguments;
            let executed = match effect {
                Writes | WritesOnce if self.read_only => Err(Failure::Status(Status::READ_ONLY)),
                _ => execute(self, &mut around, &mut arguments, &mut out),
            };
            match executed {
                Ok(()) => out.0,
                Err(Failure::Status(status)) => failed(call.xid, status, zeros),
                Err(Failure::Arguments) => rpc::refused(call.xid, rpc::Refusal::Arguments),
            }
        };
        let bytes = match effect {
            WritesOnce => self.replies.once(client, call.xid, head, run),
            Reads | Writes => run(),
        };
        let message = match around.memory.filter(|_| around.in_memory) {
            Some(memory) => ReplyBytes::Registered(finish_in(memory, &bytes, &around.results)),
            None => ReplyBytes::Bytes(bytes),
        };
        Ok(Reply { message, results: around.results })
    }
}

fn failed(xid: u32, status: Status, zeros: usize) -> Vec<u8> {
    let mut out = rpc::accepted(xid);
    out.u32(status.0);
    (0..zeros).for_each(|_| out.u32(0));
    out.0
}

/// Writes the start of a message before its data, and the padding behind it. Returns the message's length.
fn finish_in(memory: &Memory, start: &[u8], results: &[std::ops::Range<usize>]) -> usize {
    memory.write(0, start);
    let end = results.last().map_or(start.len(), |data| data.end);
    let pad = pad_len(end);
    memory.fill(end, pad, 0);
    end + pad
}
