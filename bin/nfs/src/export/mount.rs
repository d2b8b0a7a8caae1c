//! MOUNT version 3 (RFC 1813 appendix I): gives out the handle of an exported directory. Linux's client asks for it over
//! TCP, whatever carries NFS. The port executes MOUNT and nothing else: file handles alone open no file without the
//! connection over RDMA.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::FileType;

use super::attributes;
use super::rpc::{self, Call, Refusal};
use super::{Export, status::Status};
use crate::limits::{MOUNT_CONNECTIONS_MAX, MOUNT_IDLE, MOUNT_RECORD_MAX};
use crate::tcp::{RecordReader, record_mark};

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

/// TCP port of MOUNT.
#[derive(Debug)]
pub struct MountPort {
    listener: TcpListener,
}

impl MountPort {
    /// Listens.
    ///
    /// # Errors
    /// The port is in use, or the address is not this machine's.
    pub fn bind(address: SocketAddr) -> std::io::Result<MountPort> {
        Ok(MountPort { listener: TcpListener::bind(address)? })
    }

    /// Serves connections in threads of their own until the process ends.
    pub fn serve(self, export: Arc<Export>) {
        let connections = Arc::new(AtomicUsize::new(0));
        std::thread::spawn(move || {
            for socket in self.listener.incoming().flatten() {
                if connections.fetch_add(1, Ordering::Relaxed) >= MOUNT_CONNECTIONS_MAX {
                    connections.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let (export, connections) = (export.clone(), connections.clone());
                std::thread::spawn(move || {
                    // A client that breaks the connection needs no answer.
                    let _ = serve(&export, &socket);
                    connections.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
    }
}

fn serve(export: &Export, mut socket: &TcpStream) -> std::io::Result<()> {
    socket.set_read_timeout(Some(MOUNT_IDLE))?;
    socket.set_write_timeout(Some(MOUNT_IDLE))?;
    let mut reader = RecordReader::new(MOUNT_RECORD_MAX);
    let mut bytes = [0; MOUNT_RECORD_MAX];
    loop {
        let count = socket.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        let mut records = Vec::new();
        let pushed = reader.push(bytes.get(..count).unwrap_or_default(), |record| records.push(record));
        pushed.map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidData))?;
        for record in records {
            let reply = export.execute_mount(&record);
            socket.write_all(&[&record_mark(reply.len())[..], &reply].concat())?;
        }
    }
}
