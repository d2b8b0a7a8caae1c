//! Execution of a call, by its program.

use weft_client::verbs::Memory;

use super::exported::Export;
use super::message::{CallBytes, Reply, ReplyBytes};
use super::{mount, rpc};
use crate::protocol::rpc::{MOUNT_PROGRAM, NFS_PROGRAM, VERSION};

impl Export {
    /// Executes a call of NFS or MOUNT; `client` tells clients apart. Replies with data of files go to `memory`.
    pub fn execute(&self, client: &str, call: &CallBytes, memory: Option<&Memory>) -> Reply {
        let head = call.head();
        let xid = head.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let refused = |refusal| Reply { message: ReplyBytes::Bytes(rpc::refused(xid, refusal)), results: Vec::new() };
        match rpc::parse(&head) {
            Ok(parsed) if parsed.version != VERSION => refused(rpc::Refusal::Version),
            Ok(parsed) => match parsed.program {
                NFS_PROGRAM => self.execute_nfs(client, &head, parsed, call, memory).unwrap_or_else(refused),
                MOUNT_PROGRAM => match mount::execute(self, parsed) {
                    Ok(bytes) => Reply { message: ReplyBytes::Bytes(bytes), results: Vec::new() },
                    Err(refusal) => refused(refusal),
                },
                _ => refused(rpc::Refusal::Program),
            },
            Err(refusal) => refused(refusal),
        }
    }

    /// Executes a call of MOUNT, on the port for it: other programs are not available there.
    pub(super) fn execute_mount(&self, bytes: &[u8]) -> Vec<u8> {
        let xid = bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let executed = rpc::parse(bytes).and_then(|call| match (call.program, call.version) {
            (MOUNT_PROGRAM, VERSION) => mount::execute(self, call),
            (MOUNT_PROGRAM, _) => Err(rpc::Refusal::Version),
            _ => Err(rpc::Refusal::Program),
        });
        executed.unwrap_or_else(|refusal| rpc::refused(xid, refusal))
    }
}
