//! MOUNT version 3 (RFC 1813 appendix I): gives out the handle of an exported directory. Linux's client asks for it over
//! TCP, whatever carries NFS.

use rustix::fs::FileType;

use super::attributes;
use super::exported::Export;
use super::rpc::{self, Call, Refusal};
use crate::protocol::status::Status;

const PATH_MAX: usize = 1024;
const AUTH_SYS: u32 = 1;

/// Executes a call.
pub fn execute(export: &Export, mut call: Call<'_>) -> Result<Vec<u8>, Refusal> {
    let mut out = rpc::accepted(call.xid);
    match call.procedure {
        // NULL, UMNT, UMNTALL: the server keeps no list of mounts.
        0 | 3 | 4 => {}
        // MNT
        1 => {
            let path = call.arguments.opaque(PATH_MAX).ok_or(Refusal::Arguments)?;
            match handle(export, path) {
                Ok(handle) => {
                    out.u32(0);
                    out.opaque(&handle);
                    out.words(&[1, AUTH_SYS]);
                }
                Err(status) => out.u32(status.0),
            }
        }
        // DUMP: an empty list.
        2 => out.bool(false),
        // EXPORT: the directory, for all clients.
        5 => {
            out.bool(true);
            out.opaque(b"/");
            out.words(&[0, 0]);
        }
        _ => return Err(Refusal::Procedure),
    }
    Ok(out.0)
}

/// Returns the handle of a directory below the export, which is `/` for clients.
fn handle(export: &Export, path: &[u8]) -> Result<Vec<u8>, Status> {
    let mut handle = export.tree.root_handle().to_bytes();
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".") {
        if name == b".." || name.contains(&0) {
            return Err(Status::ACCESS);
        }
        let dir = export.tree.find(&handle)?;
        let stat = attributes::stat_at(&dir.path, name)?;
        handle = export.tree.remember(attributes::id(&dir.stat), name, &stat).to_bytes();
    }
    match attributes::file_type(&export.tree.find(&handle)?.stat) {
        FileType::Directory => Ok(handle),
        _ => Err(Status::NOT_DIRECTORY),
    }
}
